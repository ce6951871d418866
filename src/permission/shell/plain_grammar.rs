//! The strict grammar: what everyday commands are made of.
//!
//! The analyser reads more of bash than a person can verify, and where it reads a text in another
//! way than bash, a part of the command is hidden. This check is independent of it and accepts only
//! constructs that have one obvious reading. It reads a text once, from left to right, and ends at
//! the first character that it does not expect: the command is then *unusual*.

use super::plain_words::Document;

/// The maximum nesting depth of a plain text.
const MAX_DEPTH: usize = 24;

/// Variables that the shell itself sets: a text that sets or shows them is unusual.
const OF_SHELL: [&str; 8] = [
    "COPROC",
    "DIRSTACK",
    "FUNCNAME",
    "GROUPS",
    "MAPFILE",
    "PPID",
    "REPLY",
    "SHELLOPTS",
];

/// The outcome of reading a part of a text. The error is the construct that makes it unusual.
pub(super) type Plain = Result<(), &'static str>;

/// The end of a list of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Text,
    Parenthesis,
    /// `;;` or `esac`.
    Case,
}

/// Returns the first construct of a text that everyday commands do not have.
pub(super) fn unusual(text: &str) -> Option<&'static str> {
    let mut scanner = Scanner::new(text, 0);
    scanner.commands(End::Text).err()
}

pub(super) struct Scanner<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    pub(super) depth: usize,
    /// The number of open substitutions. A text inside another one begins with its depth.
    substitutions: usize,
    pub(super) document: Option<Document>,
}

pub(super) fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

pub(super) fn is_name(text: &[u8]) -> bool {
    text.first().is_some_and(|b| !b.is_ascii_digit()) && text.iter().all(|b| is_name_byte(*b))
}

/// Returns `true` for what ends a word, and for the end of the text.
pub(super) fn ends_word(next: Option<u8>) -> bool {
    next.is_none_or(|b| b" \t\n;&|()<>".contains(&b))
}

pub(super) fn check_name(name: &[u8]) -> Plain {
    let is_of_shell = name.starts_with(b"BASH") || name.starts_with(b"COMP_");
    if is_of_shell || OF_SHELL.iter().any(|known| known.as_bytes() == name) {
        return Err("a variable of the shell");
    }
    Ok(())
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str, depth: usize) -> Self {
        Self {
            text: text.as_bytes(),
            at: 0,
            depth,
            substitutions: depth,
            document: None,
        }
    }

    pub(super) fn next(&self) -> Option<u8> {
        self.ahead(0)
    }

    pub(super) fn ahead(&self, count: usize) -> Option<u8> {
        self.text.get(self.at + count).copied()
    }

    pub(super) fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text.as_bytes());
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    /// Skips the bytes of a kind, and returns them.
    pub(super) fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'t [u8] {
        let rest = self.rest();
        let count = rest.iter().take_while(|b| is_wanted(**b)).count();
        self.at += count;
        &rest[..count]
    }

    pub(super) fn expect(&mut self, text: &str, what: &'static str) -> Plain {
        if self.take(text) { Ok(()) } else { Err(what) }
    }

    /// Skips blanks and joined lines.
    pub(super) fn blanks(&mut self) {
        while self.take(" ") || self.take("\t") || self.take("\\\n") {}
    }

    /// Skips blanks and newlines.
    fn lines(&mut self) -> Plain {
        if self.document.is_some() {
            return Err("a here-document out of place");
        }
        self.take_while(|b| b" \t\n".contains(&b));
        Ok(())
    }

    fn keyword(&mut self, word: &str) -> bool {
        self.rest().starts_with(word.as_bytes())
            && ends_word(self.ahead(word.len()))
            && self.take(word)
    }

    pub(super) fn enter(&mut self) -> Plain {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("deep nesting");
        }
        Ok(())
    }

    /// Reads the commands of a substitution behind its opening parenthesis, and the closing one.
    pub(super) fn substitution(&mut self) -> Plain {
        self.substitutions += 1;
        self.commands(End::Parenthesis)?;
        self.substitutions -= 1;
        Ok(())
    }

    /// Reads commands up to the end, which is consumed.
    pub(super) fn commands(&mut self, end: End) -> Plain {
        self.enter()?;
        let mut begins = true;
        while !self.ends(end, begins)? {
            begins = match self.next() {
                Some(b'\n') => {
                    self.newline()?;
                    true
                }
                Some(b'(') if begins => {
                    if self.take("((") {
                        self.arithmetic("))", b"")?;
                    } else {
                        self.at += 1;
                        self.commands(End::Parenthesis)?;
                    }
                    false
                }
                Some(b'<' | b'>') => self.redirection(b"").map(|()| false)?,
                Some(b'&') if self.ahead(1) == Some(b'>') => {
                    self.redirection(b"").map(|()| false)?
                }
                Some(b';' | b'&' | b'|') => {
                    if !(self.take("&&") || self.take("||") || self.take("|&")) {
                        self.at += 1;
                    }
                    if self.next() == Some(b'&') {
                        return Err("`;&`");
                    }
                    true
                }
                _ if begins => self.first_word()?,
                _ => self.argument().map(|()| false)?,
            };
        }
        // A document whose body does not begin in these commands.
        let is_own = |document: &Document| document.depth == self.depth;
        if self.document.as_ref().is_some_and(is_own) {
            return Err("a here-document without its end");
        }
        self.depth -= 1;
        Ok(())
    }

    /// Skips blanks and comments, and the end of commands. Returns `true` if they end here.
    fn ends(&mut self, end: End, begins: bool) -> Result<bool, &'static str> {
        self.blanks();
        if self.next() == Some(b'#') {
            if self.substitutions > 0 {
                return Err("a comment in a substitution");
            }
            self.take_while(|b| b != b'\n');
        }
        match self.next() {
            None if end == End::Text => Ok(true),
            None => Err("an end that is missing"),
            Some(b')') if end == End::Parenthesis => {
                self.at += 1;
                Ok(true)
            }
            Some(b';') if self.ahead(1) == Some(b';') => {
                self.at += 2;
                if end == End::Case && self.next() != Some(b'&') {
                    Ok(true)
                } else {
                    Err("`;;`")
                }
            }
            Some(b'e') if end == End::Case && begins && self.keyword("esac") => {
                self.at -= 4;
                Ok(true)
            }
            Some(_) => Ok(false),
        }
    }

    /// Reads a word where a command begins. Returns `true` if a command begins behind it as well.
    fn first_word(&mut self) -> Result<bool, &'static str> {
        const BEFORE: [&str; 10] = [
            "!", "{", "do", "elif", "else", "if", "then", "time", "until", "while",
        ];
        if BEFORE.iter().any(|word| self.keyword(word)) {
            // With `extglob`, it is a pattern.
            return if self.rest().starts_with(b"(") && self.text[self.at - 1] == b'!' {
                Err("a parenthesis behind `!`")
            } else {
                Ok(true)
            };
        }
        if self.keyword("}") {
            return Ok(false);
        }
        if self.keyword("[[") {
            return self.test().map(|()| false);
        }
        if self.keyword("for") {
            return self.for_loop().map(|()| false);
        }
        if self.keyword("case") {
            return self.case().map(|()| false);
        }
        if self.keyword("select") || self.keyword("coproc") {
            return Err("`select` or `coproc`");
        }
        if self.keyword("function") {
            self.blanks();
            self.take_while(|b| is_name_byte(b) || b == b'-');
            self.blanks();
            self.take("()");
            return Ok(true);
        }

        let start = self.at;
        let name = self.take_while(is_name_byte);
        if is_name(name) {
            if self.next() == Some(b'[') && self.has_subscript() {
                return Err("an element of an array");
            }
            if self.take("+=") || self.take("=") {
                check_name(name)?;
                self.at = start;
                return self.word().map(|()| false);
            }
        }
        self.at = start;
        self.argument()?;
        let is_function = self.rest().starts_with(b"()") || self.rest().starts_with(b" ()");
        if is_function {
            let name = &self.text[start..self.at];
            if !name.iter().all(|b| is_name_byte(*b) || *b == b'-') {
                return Err("a function's name");
            }
            self.blanks();
            self.at += 2;
        }
        Ok(is_function)
    }

    /// Returns `true` if the bracket at the cursor may begin the subscript of an assignment.
    fn has_subscript(&self) -> bool {
        let rest = self.rest();
        let end = rest.iter().position(|b| *b == b']');
        end.is_none_or(|end| rest[end + 1..].starts_with(b"=") || rest[end + 1..].starts_with(b"+"))
    }

    /// Reads a word, or a redirection with the number in front of it.
    fn argument(&mut self) -> Plain {
        let start = self.at;
        let digits = self.take_while(|b| b.is_ascii_digit());
        if !digits.is_empty() && matches!(self.next(), Some(b'<' | b'>')) {
            return self.redirection(digits);
        }
        self.at = start;
        self.word()
    }

    /// Reads the words of an array up to the parenthesis.
    pub(super) fn array(&mut self) -> Plain {
        self.enter()?;
        self.at += 1;
        loop {
            self.lines()?;
            match self.next() {
                Some(b')') => break,
                Some(b'[') => return Err("a mark in an array"),
                _ => self.word()?,
            }
        }
        self.at += 1;
        self.depth -= 1;
        if ends_word(self.next()) {
            Ok(())
        } else {
            Err("text joined to an array")
        }
    }

    /// Reads `name in`, or the arithmetic of a loop.
    fn for_loop(&mut self) -> Plain {
        self.blanks();
        if self.take("((") {
            return self.arithmetic("))", b";");
        }
        let name = self.take_while(is_name_byte);
        if !is_name(name) {
            return Err("the variable of a loop");
        }
        check_name(name)?;
        self.blanks();
        if self.keyword("in") {
            Ok(())
        } else {
            Err("a loop without words")
        }
    }

    fn case(&mut self) -> Plain {
        self.blanks();
        self.word()?;
        self.blanks();
        self.expect("in", "`case` without `in`")?;
        loop {
            self.lines()?;
            if self.keyword("esac") {
                return Ok(());
            }
            self.take("(");
            loop {
                self.blanks();
                self.word()?;
                self.blanks();
                if self.take(")") {
                    break;
                }
                self.expect("|", "the pattern of a `case`")?;
            }
            self.commands(End::Case)?;
        }
    }

    /// Reads `[[ .. ]]` behind its beginning.
    fn test(&mut self) -> Plain {
        loop {
            self.blanks();
            if self.keyword("]]") {
                return Ok(());
            }
            if self.take("&&") || self.take("||") || self.take("<") || self.take(">") {
                continue;
            }
            if self.keyword("=~") {
                self.blanks();
                self.regex()?;
                continue;
            }
            self.word()?;
        }
    }

    /// Reads a regular expression without blanks and quotes.
    fn regex(&mut self) -> Plain {
        let mut depth = 0_usize;
        while let Some(b) = self.next() {
            match b {
                b' ' if depth == 0 => return Ok(()),
                b'"' | b'\'' | b'[' | b'\\' | b'$' => {
                    self.piece()?;
                    continue;
                }
                b'(' => depth += 1,
                b')' if depth > 0 => depth -= 1,
                b'{' | b'}' | b'|' | b'+' | b'*' | b'?' | b'.' | b'^' => {}
                _ if is_name_byte(b) || b"-/:@%,=~".contains(&b) => {}
                _ => break,
            }
            self.at += 1;
        }
        Err("a regular expression")
    }
}
