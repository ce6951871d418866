//! The structure of source files.

use super::assert_none;
use super::lexer::{Token, tokens};
use super::tree::{files, sources};

const MAX_LINES: usize = 500;
/// The limit for tests is higher, since they are read one at a time.
const MAX_TEST_LINES: usize = 800;

#[test]
fn files_stay_within_the_line_limit() {
    let tests = files(&["tests", "examples", "benches"], &["rs"]);
    let limits = [(sources(), MAX_LINES), (tests, MAX_TEST_LINES)];
    let violations: Vec<String> = limits
        .iter()
        .flat_map(|(files, limit)| files.iter().map(move |file| (file, *limit)))
        .map(|(file, limit)| (file, code_lines(&file.text), limit))
        .filter(|(_, lines, limit)| lines > limit)
        .map(|(file, lines, limit)| format!("{}: {lines} lines, {limit} allowed", file.path))
        .collect();
    assert_none(&violations, "split these files, one idea a file:");
}

/// The number of lines that are not blank.
fn code_lines(text: &str) -> usize {
    text.lines().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn files_start_with_a_module_comment() {
    let mut all = sources();
    all.extend(files(
        &[
            "tests/contracts",
            "tests/engine",
            "tests/house",
            "tests/kit",
            "tests/providers",
            "tests/server",
            "tests/sessions",
            "tests/workspace",
            "examples",
            "benches",
        ],
        &["rs"],
    ));
    let violations: Vec<String> = all
        .iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.path.clone())
        .collect();
    assert_none(
        &violations,
        "begin these files with `//! ` and a sentence about their purpose:",
    );
}

#[test]
fn mod_files_contain_only_docs_and_declarations() {
    let mut violations = Vec::new();
    for file in sources() {
        if file.path.ends_with("/mod.rs") {
            let lines = foreign_items(&tokens(&file.text));
            violations.extend(lines.iter().map(|line| format!("{}:{line}", file.path)));
        }
    }
    assert_none(
        &violations,
        "a `mod.rs` holds documentation, `mod` and `use` lines; move these items into a file:",
    );
}

/// Returns the lines on which items other than `mod x;` and `use x;` begin.
fn foreign_items(tokens: &[Token]) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut rest = tokens;
    while let Some(first) = rest.first() {
        if first.text == "#" {
            rest = after_group(rest, "[", "]");
            continue;
        }

        let mut item = rest;
        if item[0].text == "pub" {
            item = &item[1..];
            if item.first().is_some_and(|token| token.text == "(") {
                item = after_group(item, "(", ")");
            }
        }

        let kind = item.first().map_or("", |token| token.text.as_str());
        let end = match kind {
            "use" => item.iter().position(|token| token.text == ";"),
            "mod" => Some(2).filter(|end| item.get(*end).is_some_and(|token| token.text == ";")),
            _ => None,
        };

        match end {
            Some(end) => rest = &item[end + 1..],
            None => {
                lines.push(first.line);
                break;
            }
        }
    }

    lines
}

/// Returns the tokens after the first group between these brackets.
fn after_group<'a>(tokens: &'a [Token], open: &str, close: &str) -> &'a [Token] {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        if token.text == open {
            depth += 1;
        } else if token.text == close {
            depth -= 1;
            if depth == 0 {
                return &tokens[at + 1..];
            }
        }
    }

    &[]
}

#[test]
fn foreign_items_of_a_mod_file_are_detected() {
    let lines = |text: &str| foreign_items(&tokens(text));
    let good = "//! Doc.\n#![allow(x)]\n#[cfg(feature = \"a\")]\nmod a;\npub(crate) mod b;\n\
                pub use a::{B, c::D};\npub(in crate::x) use e;\n";
    assert!(lines(good).is_empty());
    assert_eq!(lines("mod a;\nfn f() {}"), [2]);
    assert_eq!(lines("mod a {\n}"), [1]);
    assert_eq!(lines("use a;\n\n#[x]\npub struct S;"), [4]);
}

/// Returns the names of source files in a document. Names with capitals are placeholders.
fn source_names(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_/.".contains(c);
        name.ends_with(".rs") && name.chars().all(is_path)
    })
}

#[test]
fn files_named_in_the_documents_exist() {
    let paths: Vec<String> = files(&["src", "tests", "examples", "benches"], &["rs"])
        .into_iter()
        .map(|file| format!("/{}", file.path))
        .collect();
    let mut violations = Vec::new();
    let documents = [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "README.md",
        "docs/limits.md",
    ];
    for document in documents {
        let text = std::fs::read_to_string(document).unwrap();
        let names: Vec<&str> = source_names(&text).collect();
        let exists = |name: &str| paths.iter().any(|path| path.ends_with(&format!("/{name}")));
        let absent = names.iter().filter(|name| !exists(name));
        violations.extend(absent.map(|name| format!("{document}: {name}")));
        assert!(
            !["ARCHITECTURE.md", "docs/limits.md"].contains(&document) || names.len() > 50,
            "{names:?}"
        );
    }
    assert_none(&violations, "these documents name files that do not exist:");
}

/// The maximum width of a comment, including its indentation.
const MAX_COLUMNS: usize = 100;

/// Returns the numbers of the lines with comments that are too long. Lines that cannot be wrapped
/// are exempt: rows of tables, addresses, hidden lines of examples, and data and commands in code
/// blocks.
fn long_comments(text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut block = None;
    for (number, line) in (1..).zip(text.lines()) {
        let comment = line.trim_start();
        let Some(comment) = comment.strip_prefix("//") else {
            block = None;
            continue;
        };

        let words = comment.trim_start_matches(['/', '!']).trim_start();
        if let Some(language) = words.strip_prefix("```") {
            block = match block {
                None => Some(language),
                Some(_) => None,
            };
            continue;
        }

        let is_data = matches!(block, Some("json" | "text" | "sh" | "toml" | "yaml"));
        let is_unbroken =
            words.starts_with('|') || words.starts_with("# ") || words.contains("://");
        if line.chars().count() > MAX_COLUMNS && !is_data && !is_unbroken {
            lines.push(number);
        }
    }

    lines
}

#[test]
fn comments_stay_within_the_column_limit() {
    let mut violations = Vec::new();
    for file in files(&["src", "tests", "examples", "benches"], &["rs"]) {
        let lines = long_comments(&file.text);
        violations.extend(lines.iter().map(|line| format!("{}:{line}", file.path)));
    }
    assert_none(&violations, "break these comments at 100 columns:");
}

#[test]
fn long_comments_are_detected() {
    let long = "x ".repeat(50);
    for mark in ["///", "//!", "//"] {
        assert_eq!(
            long_comments(&format!("{mark} a\n    {mark} {long}\n")),
            [2]
        );
    }
    let unbroken = format!("/// | {long} |\n/// # {long}\n/// https://{long}\nlet a = {long};\n");
    assert!(long_comments(&unbroken).is_empty());
    let data = format!("//! ```json\n//! {long}\n//! ```\n//! {long}\n");
    assert_eq!(long_comments(&data), [4]);
}

/// Modules that need a feature or a system, in the binaries that the default features test.
const CONDITIONAL_TESTS: &[(&str, &str)] = &[
    ("tests/contracts/main.rs", "hostile_values"),
    ("tests/contracts/main.rs", "permission_bash_diff"),
    ("tests/engine/main.rs", "gateway"),
    ("tests/engine/main.rs", "hooks_otel"),
    ("tests/engine/main.rs", "soak"),
    ("tests/engine/main.rs", "subagent_files"),
    ("tests/sessions/main.rs", "killed_gateways"),
    ("tests/sessions/main.rs", "nats_bus"),
];

/// Returns the modules of a file that have a `cfg`.
fn conditional_modules(text: &str) -> Vec<&str> {
    let lines = text.lines().zip(text.lines().skip(1));
    let conditional = lines.filter(|(line, _)| line.starts_with("#[cfg"));
    conditional
        .filter_map(|(_, next)| next.strip_prefix("mod ")?.strip_suffix(';'))
        .collect()
}

#[test]
fn tests_without_a_condition_run_with_the_default_features() {
    let mains = files(
        &[
            "tests/contracts/main.rs",
            "tests/engine/main.rs",
            "tests/sessions/main.rs",
        ],
        &["rs"],
    );
    assert_eq!(mains.len(), 3);
    let modules = mains.iter().flat_map(|file| {
        let modules = conditional_modules(&file.text).into_iter();
        modules.map(|module| (file.path.as_str(), module))
    });
    assert_eq!(
        modules.collect::<Vec<_>>(),
        CONDITIONAL_TESTS,
        "an attribute belongs to the module in the next line; add a module that needs its condition"
    );
}
