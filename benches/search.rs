//! Grep and Glob compared with `rg` on the same tree, as a ratio of times.
//!
//! `rg` is a process, so the time of starting one is measured and subtracted. Without `rg` on the
//! path, the bench prints that there is nothing to compare with.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentcore::backend::LocalBackend;
use agentcore::tools::coding;
use agentcore::{Tool, ToolContext};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The searched tree: folders of source files, some of them ignored.
struct Size {
    folders: usize,
    files: usize,
    rounds: usize,
}

const WHOLE: Size = Size {
    folders: 200,
    files: 100,
    rounds: 15,
};
/// The size for a test of the bench.
const SMALL: Size = Size {
    folders: 3,
    files: 4,
    rounds: 1,
};

fn plant(root: &Path, size: &Size) {
    fs::write(root.join(".gitignore"), "*.log\n").unwrap();
    for number in 0..size.folders {
        let folder = root.join(format!("m{}/p{number}", number % 10));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..size.files {
            let mut text = String::new();
            for line in 0..60 {
                writeln!(text, "let value_{line} = compute({file}, {line}); // plain").unwrap();
            }

            // There is only one match, so that no limit ends a search before it has read the whole
            // tree.
            if (number, file) == (1, 1) {
                text.push_str("fn needle_here() {}\n");
            }

            let kind = if file % 10 == 9 { "log" } else { "rs" };
            fs::write(folder.join(format!("f{file}.{kind}")), text).unwrap();
        }
    }
}

/// Returns the shortest of several times, which other load of the machine affects least.
fn shortest(rounds: usize, mut work: impl FnMut()) -> Duration {
    let time = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    std::iter::repeat_with(time).take(rounds).min().unwrap()
}

fn rg(root: &Path, args: &[&str]) -> bool {
    let status = Command::new("rg")
        .args(["--no-config", "--no-require-git", "--sort=path"])
        .args(args)
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn compare(
    name: &str,
    runtime: &Runtime,
    (tool, args): (&dyn Tool, Value),
    (root, rg_args): (&Path, &[&str]),
    rounds: usize,
) {
    let ours = shortest(rounds, || {
        let call = tool.execute(ToolContext::detached(), args.clone());
        runtime.block_on(call).unwrap();
    });
    let start = shortest(rounds, || assert!(rg(root, &["--version"])));
    let theirs = shortest(rounds, || assert!(rg(root, rg_args))).saturating_sub(start);
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(f64::EPSILON);
    println!("{name}: {ours:.1?}, rg {theirs:.1?} (and {start:.1?} to start): {ratio:.2}");
}

fn main() {
    // As with criterion, the argument distinguishes a measurement from a test.
    let measures = std::env::args().any(|arg| arg == "--bench");
    let size = if measures { WHOLE } else { SMALL };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    plant(&root, &size);
    if !rg(&root, &["--version"]) {
        println!("skipped: there is no rg on the path to compare with");
        return;
    }

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let backend = LocalBackend::new(&root).unwrap();
    let grep = coding::grep(backend.clone());
    let glob = coding::glob(backend);
    let rounds = size.rounds;
    compare(
        "Grep, a word",
        &runtime,
        (&grep, json!({"pattern": "needle_here"})),
        (&root, &["-l", "needle_here"]),
        rounds,
    );
    compare(
        "Grep, a pattern",
        &runtime,
        (&grep, json!({"pattern": r"needle_\w+\("})),
        (&root, &["-l", r"needle_\w+\("]),
        rounds,
    );
    compare(
        "Glob",
        &runtime,
        (&glob, json!({"pattern": "**/p1/f1.rs"})),
        (&root, &["--files", "-g**/p1/f1.rs"]),
        rounds,
    );
}
