//! Parsers that tools reach: patterns, ignore files, expressions, edits, skills, sessions.

use agentcore::backend::{Backend, GlobQuery, GrepQuery, MemoryBackend};
use agentcore::tools::coding;
use agentcore::{Tool, ToolContext};
use futures::executor::block_on;
use serde_json::json;

use super::fuzz;
use super::generator::Grammar;

const GLOBS: Grammar = Grammar {
    tokens: &[
        "*",
        "**",
        "**/",
        "?",
        "a",
        "b.c",
        ".rs",
        "/",
        "!",
        "#",
        "[a-z]",
        "[!a]",
        "[",
        "]",
        "\\",
        "\\*",
        " ",
        "\n",
        ",",
        "-",
        "..",
        "a*b.c\n",
        "é",
        "[[:alpha:]]",
        "a/**/b",
        "/**",
    ],
    pairs: &[
        ("{", "}"),
        ("{a,", "}"),
        ("[", "]"),
        ("[}]", "{"),
        ("{a,{", "},b}"),
    ],
};

fn files() -> MemoryBackend {
    let backend = MemoryBackend::new();
    for path in ["a.rs", "a/b.c", "a/x/b.c", "deep/a/b/c/d.rs", "é.txt"] {
        block_on(backend.write(path, b"one\n")).unwrap();
    }
    backend
}

#[test]
fn glob_patterns_are_matched_without_panic() {
    let backend = files();
    fuzz("glob pattern", |rng| {
        let pattern = GLOBS.text(rng, 2 * 1024);
        let size = pattern.len();
        let grep = GrepQuery::new("o");
        let grep = block_on(backend.grep(with_glob(grep, &pattern)));
        std::hint::black_box(grep.is_ok());
        std::hint::black_box(block_on(backend.glob(GlobQuery::new(pattern))).is_ok());
        size
    });
}

fn with_glob(mut query: GrepQuery, glob: &str) -> GrepQuery {
    query.glob = Some(glob.to_owned());
    query
}

#[test]
fn ignore_files_are_applied_without_panic() {
    let backend = files();
    fuzz("ignore file", |rng| {
        let content = GLOBS.text(rng, 16 * 1024);
        let name = [".ignore", ".gitignore", ".git/info/exclude", "a/.gitignore"][rng.usize(..4)];
        block_on(backend.write(name, content.as_bytes())).unwrap();
        std::hint::black_box(block_on(backend.glob(GlobQuery::new("**"))).is_ok());
        block_on(backend.remove(name)).unwrap();
        content.len()
    });
}

const EXPRESSIONS: Grammar = Grammar {
    tokens: &[
        "a",
        "b",
        "ab",
        ".",
        "*",
        "+",
        "?",
        "*?",
        "{2}",
        "{0,9}",
        "{9,}",
        "{99}",
        "|",
        "^",
        "$",
        "\\b",
        "\\B",
        "\\w",
        "\\s",
        "\\S",
        "\\d",
        "\\pL",
        "\\n",
        "\\x00",
        "[ab]",
        "[^a]",
        "[a-z&&[^b]]",
        "[\\w--a]",
        "(?i)",
        "(?s)",
        "(?x)",
        "(?-u)",
        "\\A",
        "\\z",
        "\\",
        "é",
        "[",
        "]",
    ],
    pairs: &[
        ("(", ")"),
        ("(?:", ")"),
        ("(?:", ")*"),
        ("(?:", "){0,9}"),
        ("[", "]"),
        ("(?P<n>", ")"),
        ("(?i:", ")+"),
    ],
};
const TEXTS: Grammar = Grammar {
    tokens: &["a", "b", "ab", "\n", " ", "é", "0", "1"],
    pairs: &[("a", "b"), ("\n", "a")],
};

#[test]
fn regular_expressions_are_searched_without_panic() {
    let backend = MemoryBackend::new();
    fuzz("regular expression", |rng| {
        let pattern = EXPRESSIONS.text(rng, 1024);
        let text = TEXTS.text(rng, 16 * 1024);
        let size = pattern.len() + text.len();
        block_on(backend.write("a", text.as_bytes())).unwrap();
        let mut query = GrepQuery::new(pattern);
        query.multiline = rng.bool();
        query.ignore_case = rng.bool();
        (query.before, query.after) = (rng.usize(..3), rng.usize(..3));
        std::hint::black_box(block_on(backend.grep(query)).is_ok());
        size
    });
}

#[test]
fn edits_and_diffs_are_made_without_panic() {
    let backend = MemoryBackend::new();
    let tool = coding::edit(backend.clone());
    fuzz("edit and diff", |rng| {
        let text = TEXTS.text(rng, 64 * 1024);
        block_on(backend.write("a", text.as_bytes())).unwrap();
        let old = match rng.u8(..4) {
            0 => TEXTS.text(rng, 64),
            _ => text
                .chars()
                .skip(rng.usize(..8))
                .take(rng.usize(1..9))
                .collect(),
        };

        let new = TEXTS.text(rng, 256);
        let args = json!({
            "file_path": "a", "old_string": old, "new_string": new, "replace_all": rng.bool(),
        });

        std::hint::black_box(block_on(tool.execute(ToolContext::detached(), args)).is_ok());
        text.len() + old.len() + new.len()
    });
}

#[cfg(feature = "calc")]
#[test]
fn expressions_are_calculated_without_panic() {
    const SUMS: Grammar = Grammar {
        tokens: &[
            "1", "2", "9", "0.1", "+", "-", "*", "/", "^", "%", "!", "sqrt ", "sin ", "pi", " ",
            "km", "to ", "e", "**", "log ", "1e9", "mod ", "C", "i", ",", "=", "(", ")",
        ],
        pairs: &[
            ("(", ")"),
            ("sqrt(", ")"),
            ("-(", ")"),
            ("2^(", ")"),
            ("abs (", ")!"),
            ("1+(", ")"),
            ("1/(", ")"),
            ("1-2 pi^(", ")"),
            ("tan(", ")"),
        ],
    };

    let tool = agentcore::tools::calculate();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    fuzz("calculation", |rng| {
        let expression = SUMS.text(rng, 1024);
        let size = expression.len();
        let args = json!({ "expression": expression });
        let calculated = runtime.block_on(tool.execute(ToolContext::detached(), args));
        std::hint::black_box(calculated.is_ok());
        size
    });
}

#[cfg(feature = "yaml")]
#[test]
fn skill_front_matter_is_read_without_panic() {
    let hook = |content: &[u8]| {
        let backend = MemoryBackend::new();
        block_on(backend.write("skills/own/SKILL.md", content)).unwrap();
        agentcore::hooks::SkillsHook::new(backend)
    };

    fuzz("front matter", |rng| {
        let content = format!("---\n{}\n---\n", super::texts::YAML.text(rng, 64 * 1024));
        std::hint::black_box(
            block_on(crate::kit::hooks::prompt(hook(content.as_bytes())))
                .0
                .len(),
        );
        content.len()
    });
}
