//! A lexer for Rust that separates code from comments and literals.

/// A word (identifier, keyword or number), `::`, or one other character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    /// The number of the line, from 1.
    pub line: usize,
}

/// Returns the tokens of the code, without comments and quoted literals.
pub fn tokens(source: &str) -> Vec<Token> {
    select(source, |piece| matches!(piece, Piece::Code(_)))
}

/// Returns the string literals of the code, with their quotes.
pub fn literals(source: &str) -> Vec<Token> {
    select(source, |piece| matches!(piece, Piece::Literal(_)))
}

fn select(source: &str, is_selected: impl Fn(&Piece) -> bool) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let rest = &chars[at..];
        let piece = next(rest);
        let (Piece::Blank(length) | Piece::Code(length) | Piece::Literal(length)) = piece;
        if is_selected(&piece) {
            let text = rest[..length].iter().collect();
            tokens.push(Token { text, line });
        }

        line += rest[..length].iter().filter(|c| **c == '\n').count();
        at += length;
    }

    tokens
}

/// A piece of a source and its length. White space and comments are blank.
enum Piece {
    Blank(usize),
    Code(usize),
    Literal(usize),
}

fn next(rest: &[char]) -> Piece {
    match rest {
        ['/', '/', ..] => Piece::Blank(until(rest, |c| c == '\n')),
        ['/', '*', ..] => Piece::Blank(block_comment(rest)),
        ['"', ..] => Piece::Literal(string(rest, 0)),
        ['\'', ..] => Piece::Blank(character_or_lifetime(rest)),
        [':', ':', ..] => Piece::Code(2),
        [c, ..] if c.is_whitespace() => Piece::Blank(1),
        [c, ..] if is_word(*c) => prefixed_literal(rest)
            .map_or_else(|| Piece::Code(until(rest, |c| !is_word(c))), Piece::Literal),
        _ => Piece::Code(1),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn until(rest: &[char], stop: impl Fn(char) -> bool) -> usize {
    rest.iter().position(|c| stop(*c)).unwrap_or(rest.len())
}

/// Returns the length of a block comment. Block comments nest.
fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
            ['*', '/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }

        if depth == 0 {
            break;
        }
    }

    at
}

/// Returns the length of a string with escapes, which ends at a quote and `hashes` marks.
fn string(rest: &[char], hashes: usize) -> usize {
    raw_or_escaped(rest, hashes, false)
}

fn raw_or_escaped(rest: &[char], hashes: usize, raw: bool) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' if !raw => at += 2,
            '"' if rest[at + 1..].iter().take(hashes).all(|c| *c == '#') => {
                return at + 1 + hashes;
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of `r".."`, `r#".."#`, `b".."`, `br".."`, `c".."` or `b'.'`, but not of
/// `r#type`.
fn prefixed_literal(rest: &[char]) -> Option<usize> {
    let prefix = until(rest, |c| !is_word(c));
    let word: String = rest[..prefix].iter().collect();
    let hashes = until(&rest[prefix..], |c| c != '#');
    let quote = prefix + hashes;
    match (word.as_str(), rest.get(quote)) {
        ("r" | "br" | "cr", Some('"')) => {
            Some(quote + raw_or_escaped(&rest[quote..], hashes, true))
        }
        ("b" | "c", Some('"')) if hashes == 0 => Some(quote + string(&rest[quote..], 0)),
        ("b", Some('\'')) if hashes == 0 => Some(quote + character_or_lifetime(&rest[quote..])),
        _ => None,
    }
}

fn character_or_lifetime(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => 4 + until(tail, |c| c == '\''),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

#[test]
fn lexer_skips_comments_and_literals() {
    let source = r##"
        //! crate::a
        /* crate::b /* nested */ crate::c */
        let x = "crate::d \" crate::e"; // crate::f
        let y = r#"crate::g " crate::h"#;
        let z = ('"', '\'', b'"', b"\"");
        fn g<'a>(r#type: &'a crate::i) {}
    "##;
    let words: Vec<String> = tokens(source).into_iter().map(|token| token.text).collect();
    let text = words.join(" ");
    assert_eq!(
        text,
        "let x = ; let y = ; let z = ( , , , ) ; fn g < a > ( r # type : & a crate :: i ) { }"
    );
    let last = tokens(source).pop().unwrap();
    assert_eq!(last.line, 7);
    let texts: Vec<String> = literals(source)
        .into_iter()
        .map(|token| token.text)
        .collect();
    assert_eq!(texts[0], r#""crate::d \" crate::e""#);
    assert_eq!(texts[1], r##"r#"crate::g " crate::h"#"##);
}
