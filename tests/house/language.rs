//! Doc comments open with their subject or a verb, and use the field's standard terms. Locals are
//! nouns that describe their values.

use super::assert_none;
use super::lexer::{literals, tokens};
use super::tree::{File, files, sources};

/// Openings that ask a question and do not name the item.
const QUESTIONS: &[&str] = &[
    "What", "Whether", "How", "Where", "Which", "Why", "Who", "Whom", "Whose", "When", "Whatever",
    "Whoever",
];

/// Words for which there is a standard term: *repair, emitted, reported, recorded, interrupted,
/// result, represents, next to, discarded*. Two words are matched in a row.
const WORDS: &[&str] = &[
    "mend",
    "mended",
    "mends",
    "mending",
    "said",
    "says",
    "say",
    "told",
    "tell",
    "tells",
    "heard",
    "hears",
    "hear",
    "booked",
    "book",
    "books",
    "booking",
    "dearest",
    "beside",
    "besides",
    "void",
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "everybody",
    "whoever",
    "whatever",
    "knows",
    "knew",
    "wants",
    "wanted",
    "anew",
    "broke off",
    "broken off",
    "breaks off",
    "came to",
    "comes to",
    "come to",
    "stands for",
    "stood for",
    "stand for",
    "goes on",
    "go on",
    "went on",
];

/// Names of locals that do not describe the value. A bool is `is_..` or `has_..`, the others are
/// nouns: `session`, `offset`, `pending_calls`.
const LOCALS: &[&str] = &[
    "answered",
    "asked_for",
    "began",
    "booked",
    "called",
    "came",
    "changed",
    "cut",
    "done",
    "ended",
    "failed",
    "found",
    "given",
    "gone",
    "heard",
    "held",
    "kept",
    "known",
    "led",
    "left",
    "made",
    "mended",
    "refused",
    "rest_of",
    "said",
    "seen",
    "sent",
    "shown",
    "started",
    "taken",
    "told",
    "tried",
    "waiting",
    "wanted",
    "whole",
    "written",
];

/// Paths whose texts may have other words, and the reasons.
const TEXT_EXCEPTIONS: &[(&str, &str)] = &[
    (
        "src/permission/rules_gate.rs",
        "a question to the user: `Bash wants to run ..`",
    ),
    (
        "src/session/redis/scripts.rs",
        "programs in another language",
    ),
    ("src/session/jsonl/tests.rs", "a test"),
    ("src/testing/", "suites of tests"),
];

/// Returns the sources of the library and the examples.
fn sources_and_examples() -> Vec<File> {
    let mut all = sources();
    all.extend(files(&["examples"], &["rs"]));
    all
}

/// The sources of the library, the examples, the benches and the tests.
fn all_sources() -> Vec<File> {
    let mut all = sources_and_examples();
    all.extend(files(&["benches", "tests"], &["rs"]));
    all
}

struct Comment {
    line: usize,
    text: String,
}

/// Returns the doc comments of a file.
fn doc_comments(source: &str) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    let mut marker = None;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let line_marker = ["///", "//!"].into_iter().find(|m| line.starts_with(*m));
        if let Some(text) = line_marker.map(|marker| &line[marker.len()..]) {
            if line_marker != marker {
                comments.push(Comment {
                    line: number + 1,
                    text: String::new(),
                });
            }

            let comment = comments.last_mut().unwrap();
            comment.text.push_str(text);
            comment.text.push('\n');
        }

        marker = line_marker;
    }

    comments
}

/// Returns a text without code blocks and code spans.
fn prose(text: &str) -> String {
    let blocks = text.split("```").step_by(2).collect::<String>();
    blocks.split('`').step_by(2).collect()
}

fn opening(comment: &Comment) -> &str {
    comment.text.split_whitespace().next().unwrap_or_default()
}

#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    let mut violations = Vec::new();
    for file in all_sources() {
        for comment in doc_comments(&file.text) {
            if QUESTIONS.contains(&opening(&comment)) {
                let first = comment.text.lines().next().unwrap_or_default();
                violations.push(format!("{}:{}:{first}", file.path, comment.line));
            }
        }
    }

    assert_none(
        &violations,
        "begin with the item or a verb (\"The ..\", \"Returns ..\"):",
    );
}

#[test]
fn doc_comments_use_standard_terms() {
    let mut violations = Vec::new();
    for file in all_sources() {
        for comment in doc_comments(&file.text) {
            for word in forbidden_words(&prose(&comment.text)) {
                violations.push(format!("{}:{}: `{word}`", file.path, comment.line));
            }
        }
    }
    assert_none(&violations, "use the standard term:");
}

/// Returns the words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn forbidden_words(text: &str) -> Vec<&'static str> {
    let words = words(text);
    let pairs: Vec<_> = words.windows(2).map(|pair| pair.join(" ")).collect();
    let is_used = |word: &&&str| words.iter().chain(&pairs).any(|used| used == **word);
    WORDS.iter().filter(is_used).copied().collect()
}

/// Returns a literal without the values that a format string inserts.
fn without_values(text: &str) -> String {
    text.split('{')
        .map(|part| part.split_once('}').map_or(part, |(_, tail)| tail))
        .collect()
}

#[test]
fn errors_and_other_texts_use_standard_terms() {
    let mut violations = Vec::new();
    for file in sources_and_examples() {
        if TEXT_EXCEPTIONS
            .iter()
            .any(|(place, _reason)| file.path.starts_with(place))
        {
            continue;
        }

        for literal in literals(&file.text) {
            let text = without_values(&literal.text);
            if words(&text).len() <= 3 {
                continue;
            }

            for word in forbidden_words(&text) {
                violations.push(format!("{}:{}: `{word}`", file.path, literal.line));
            }
        }
    }

    assert_none(&violations, "use the standard term:");
}

#[test]
fn values_are_no_words_of_a_text() {
    assert_eq!(
        without_values("a rule to {wanted}, {:?} it"),
        "a rule to ,  it"
    );
    assert_eq!(
        forbidden_words("the run Went on, said nobody"),
        ["said", "nobody", "went on"]
    );
}

/// Returns the names that `let` gives to single values, with their lines.
fn locals(source: &str) -> Vec<(String, usize)> {
    let tokens = tokens(source);
    let lets = tokens.windows(3).filter(|words| words[0].text == "let");
    lets.map(|words| {
        let name = if words[1].text == "mut" { 2 } else { 1 };
        (words[name].text.clone(), words[name].line)
    })
    .collect()
}

#[test]
fn locals_are_nouns() {
    let mut violations = Vec::new();
    for file in sources_and_examples() {
        for (name, line) in locals(&file.text) {
            if LOCALS.contains(&name.as_str()) {
                violations.push(format!("{}:{line}: `{name}`", file.path));
            }
        }
    }
    assert_none(&violations, "name these after their values:");
}

#[test]
fn locals_are_detected_with_and_without_mut() {
    let names = locals("fn f() { let found = 1; // let kept = 2;\n let mut held = \"let x\"; }");
    assert_eq!(names, [("found".to_owned(), 1), ("held".to_owned(), 2)]);
}

#[test]
fn language_exceptions_exist() {
    for (place, _reason) in TEXT_EXCEPTIONS {
        assert!(
            sources().iter().any(|file| file.path.starts_with(place)),
            "{place} has no file: remove it from the exceptions"
        );
    }
}

#[test]
fn code_spans_are_ignored_in_doc_comments() {
    let source =
        "/// Whether it\n/// said `told` so.\n/// ```\n/// // heard\n/// ```\nfn f() {}\n//! X";
    let comments = doc_comments(source);
    assert_eq!(comments.len(), 2);
    assert_eq!(opening(&comments[0]), "Whether");
    let text = prose(&comments[0].text);
    assert!(text.contains("said") && !text.contains("told") && !text.contains("heard"));
}
