//! The script that makes the table of models, which never executes data that it reads.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::tree::root;

const MODULE: &str = "genai_prices/data.py";

/// Makes a wheel of a module, and `source.txt` with its hash.
const PACK: &str = r#"
import hashlib, sys, zipfile
with zipfile.ZipFile("a.whl", "w") as wheel:
    wheel.writestr("genai_prices/data.py", sys.argv[1])
digest = hashlib.sha256(open("a.whl", "rb").read()).hexdigest()
open("source.txt", "w").write(f"genai-prices==0 --hash=sha256:{digest}\n")
"#;

fn python(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.args(args).current_dir(folder).output().unwrap()
}

/// Runs the script, which must fail, and returns its error output.
fn refusal(folder: &Path) -> String {
    let output = python(folder, &["models.py", "a.whl"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    text.trim_end().to_owned()
}

#[test]
fn price_table_with_unknown_code_or_fields_is_refused() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for file in ["models.py", "extra.json"] {
        fs::copy(root().join("data").join(file), folder.join(file)).unwrap();
    }

    let run = r#"open("executed", "w")"#;
    let list = |item: &str| format!("providers: list[Provider] = [{item}]");
    for (module, refused) in [
        (run.to_owned(), run),
        (list(run), run),
        (
            list(&format!("Decimal({run})")),
            &*format!("Decimal({run})"),
        ),
        (list(&format!("Provider(id={run})")), run),
        (
            list(&format!("[x for x in {run}]")),
            &*format!("[x for x in {run}]"),
        ),
        (list("Decimal(*['1'])"), "Decimal(*['1'])"),
        (list("200 * 1000"), "200 * 1000"),
        (list("Price(input_mtok=1)"), "Price(input_mtok=1)"),
        (format!("import os\n{}\n{run}", list("")), run),
    ] {
        python(folder, &["-c", PACK, &module]);
        let line = module.lines().count();
        let shown = refused.replace('"', "'");
        let expected = format!("models.py: {MODULE}:{line}: this is not read: {shown}");
        assert_eq!(refusal(folder), expected, "{module}");
        assert!(!folder.join("executed").exists(), "{module}");
    }

    python(
        folder,
        &["-c", PACK, &list("ModelPrice(cache_write_9h_mtok=1)")],
    );
    let expected = "has an unknown field 'cache_write_9h_mtok'";
    assert!(refusal(folder).ends_with(expected));

    python(folder, &["-c", PACK, ""]);
    assert!(refusal(folder).ends_with("has no `providers`"));
    fs::write(folder.join("a.whl"), "another wheel").unwrap();
    assert!(refusal(folder).starts_with("models.py: a.whl has the sha256 "));
}
