//! The length of functions.

use std::collections::BTreeSet;

use super::assert_none;
use super::lexer::{Token, tokens};
use super::tree::sources;

const MAX_LINES: usize = 60;

/// Functions that may be longer, and the reasons.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "src/sdk/system.rs",
        "kind",
        "a table of the kinds of a message",
    ),
    (
        "src/session/postgres/address.rs",
        "read",
        "settings of a connection, one after the other",
    ),
    (
        "src/session/record.rs",
        "deserialize",
        "a table of the kinds of a record",
    ),
];

/// A function with a body.
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

fn functions(tokens: &[Token]) -> Vec<Function> {
    let starts = tokens.windows(2).enumerate();
    let starts = starts.filter(|(_, pair)| pair[0].text == "fn" && pair[1].text != "(");
    starts
        .filter_map(|(at, pair)| {
            let end = body_end(&tokens[at..])?;
            let lines = tokens[at..].iter().map(|token| token.line);
            let code_lines: BTreeSet<_> = lines.take_while(|line| *line <= end).collect();
            Some(Function {
                name: pair[1].text.clone(),
                line: pair[0].line,
                lines: code_lines.len(),
            })
        })
        .collect()
}

/// Returns the last line of the function that begins here, or `None` if it has no body.
fn body_end(tokens: &[Token]) -> Option<usize> {
    let (mut signature, mut body) = (0_usize, 0_usize);
    for token in tokens {
        match token.text.as_str() {
            "(" | "[" if body == 0 => signature += 1,
            ")" | "]" if body == 0 => signature -= 1,
            ";" if body == 0 && signature == 0 => return None,
            "{" if signature == 0 => body += 1,
            "}" if body == 1 => return Some(token.line),
            "}" if signature == 0 => body -= 1,
            _ => {}
        }
    }

    None
}

#[test]
fn functions_stay_within_the_line_limit() {
    let mut violations = Vec::new();
    for file in sources() {
        for function in functions(&tokens(&file.text)) {
            let may_be_long =
                |(path, name, _): &(&str, &str, &str)| *path == file.path && *name == function.name;
            if function.lines > MAX_LINES && !EXCEPTIONS.iter().any(may_be_long) {
                violations.push(format!(
                    "{}:{}: `{}` has {} lines, {MAX_LINES} allowed",
                    file.path, function.line, function.name, function.lines
                ));
            }
        }
    }

    assert_none(&violations, "split these functions, one step a function:");
}

#[test]
fn exceptions_for_long_functions_exist() {
    let files = sources();
    let violations: Vec<_> = EXCEPTIONS
        .iter()
        .filter(|(path, name, _)| {
            let file = files.iter().find(|file| file.path == *path);
            let functions = file.map(|file| functions(&tokens(&file.text)));
            !functions.is_some_and(|all| {
                all.iter()
                    .any(|function| function.name == *name && function.lines > MAX_LINES)
            })
        })
        .map(|(path, name, _)| format!("{path}: `{name}`"))
        .collect();
    assert_none(
        &violations,
        "these functions are short now; remove them from the list:",
    );
}

#[test]
fn function_length_is_measured_from_name_to_closing_brace() {
    let source = "trait T { fn none(&self, a: [u8; 2]); }\nfn one(f: fn(u8)) {}\nfn three() {\n    if x { y }\n}\n";
    let functions = functions(&tokens(source));
    let functions: Vec<_> = functions
        .iter()
        .map(|function| (function.name.as_str(), function.line, function.lines))
        .collect();
    assert_eq!(functions, [("one", 2, 1), ("three", 3, 3)]);
}
