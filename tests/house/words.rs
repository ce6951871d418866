//! Texts that must not be committed.

use super::assert_none;
use super::tree::files;

/// Forbidden texts and the reasons.
const FORBIDDEN: &[(&str, &str)] = &[
    ("todo!", "unfinished code"),
    ("unimplemented!", "unfinished code"),
    ("dbg!(", "left over from debugging"),
    ("#[ignore", "a test that does not run proves nothing"),
    ("/home/", "a path of one machine"),
    ("/root/", "a path of one machine"),
    ("/Users/", "a path of one machine"),
];

#[test]
fn forbidden_words_are_absent() {
    let places = [
        "src",
        "tests",
        "examples",
        "benches",
        "docs",
        ".ci",
        ".github",
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "Cargo.toml",
    ];
    let mut violations = Vec::new();
    for file in files(&places, &["rs", "md", "toml", "yml", "sh"]) {
        if file.path == file!() {
            continue;
        }

        for (number, line) in file.text.lines().enumerate() {
            for (word, reason) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
                let place = format!("{}:{}", file.path, number + 1);
                violations.push(format!("{place}: `{word}` ({reason})"));
            }
        }
    }

    assert_none(&violations, "remove these:");
}
