//! The grammar of an expression.
//!
//! Fend evaluates far more than arithmetic: variables, user-defined functions, dice, shifts, units.
//! Some of that can recurse or loop without checking for an interrupt. An expression is therefore
//! parsed here first, and only the elements listed here reach fend.

use crate::util::text::head;

use super::parser_work::ParserWork;

pub(super) const FUNCTIONS: [&str; 21] = [
    "sqrt", "cbrt", "abs", "floor", "ceil", "round", "exp", "ln", "log", "log2", "log10", "sin",
    "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "mod",
];
const CONSTANTS: [&str; 3] = ["pi", "tau", "e"];

/// Returns the expression in the syntax of fend.
///
/// # Errors
///
/// Returns an error if the expression contains anything else; the text names it.
pub(super) fn checked(expression: &str) -> Result<String, String> {
    let normalized = expression
        .replace(['×', '·', '⋅'], "*")
        .replace('÷', "/")
        .replace(['−', '–'], "-")
        .replace('π', "(pi)")
        .replace("**", "^");
    let mut remaining = normalized.as_str();
    let mut work = ParserWork::new();
    while let Some(c) = remaining.chars().next() {
        let length = match c {
            '0'..='9' | '.' => number(remaining)?,
            'a'..='z' | 'A'..='Z' => word(remaining)?,
            '%' => remainder(remaining)?,
            '(' | ')' | '+' | '-' | '*' | '/' | '^' | '!' => 1,
            ',' => return Err("write numbers without commas, such as 1000 or 1.5".to_owned()),
            c if c.is_whitespace() => c.len_utf8(),
            c => return Err(format!("{c:?} is not allowed in an expression")),
        };

        let (token, behind) = remaining.split_at(length);
        count(&mut work, token)?;
        remaining = behind;
    }

    match work.depth() {
        0 if normalized.trim().is_empty() => Err("the expression is empty".to_owned()),
        0 => Ok(normalized),
        1 => Err("a closing ) is missing".to_owned()),
        missing => Err(format!("{missing} closing ) are missing")),
    }
}

/// Counts the work of a token for the parser.
fn count(work: &mut ParserWork, token: &str) -> Result<(), String> {
    match token {
        "(" => work.open(),
        ")" if !work.close() => return Err("a ) has no opening (".to_owned()),
        ")" | "!" => {}
        "+" | "-" => work.sum(),
        "*" => work.multiplication(),
        "/" => work.division(),
        "%" | "mod" => work.remainder(),
        "^" => work.power(),
        token if token.trim().is_empty() => {}
        token if FUNCTIONS.contains(&token) => work.function(),
        _ => work.value(),
    }

    if work.is_too_much() {
        let text = "the brackets are nested too deeply in sums and products; calculate the inner ones \
                    first";
        return Err(text.to_owned());
    }
    Ok(())
}

/// Returns the length of the number that `text` begins with, including its exponent.
fn number(text: &str) -> Result<usize, String> {
    let digits = |from: usize| {
        let end = text[from..].find(|c: char| !c.is_ascii_digit());
        end.map_or(text.len(), |end| from + end)
    };

    let mut end = digits(0);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }

    if text[end..].starts_with(['e', 'E']) {
        let has_sign = text[end + 1..].starts_with(['+', '-']);
        let first = end + 1 + usize::from(has_sign);
        let last = digits(first);
        if last == first {
            let text = "write e as a factor with *, or digits after it as an exponent";
            return Err(text.to_owned());
        }

        end = last;
    }

    match text[end..].chars().next() {
        Some(c) if c == '.' || c == '_' || c.is_alphabetic() && !text[end..].starts_with("mod") => {
            let excerpt: String = text.chars().take(end + 1).collect();
            Err(format!(
                "{excerpt:?} is not a number; write * between factors"
            ))
        }
        _ if text[..end].bytes().all(|b| b == b'.') => Err("a . alone is not a number".to_owned()),
        _ => Ok(end),
    }
}

fn word(text: &str) -> Result<usize, String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    let name = &text[..end.unwrap_or(text.len())];
    if FUNCTIONS.contains(&name) || CONSTANTS.contains(&name) {
        return Ok(name.len());
    }
    let (excerpt, _) = head(name, 40);
    Err(format!(
        "{excerpt:?} is not known; the known names are {} and {}",
        FUNCTIONS.join(", "),
        CONSTANTS.join(", ")
    ))
}

/// Checks that a value follows, since fend reads any other `%` as percent.
fn remainder(text: &str) -> Result<usize, String> {
    match text[1..].trim_start().chars().next() {
        Some(c) if c.is_ascii_alphanumeric() || c == '(' || c == '.' => Ok(1),
        _ => Err("% is the remainder of a division; write 10/100 for ten percent".to_owned()),
    }
}
