//! Words: quotes, escapes and where expansions begin.

use super::analysis::{Reason, Use};
use super::brace;
use super::compound::is_name;
use super::context::Parse;
use super::inputs::pipe_name;
use super::parser::Parser;
use super::word::{Part, Word, first_end};

/// The maximum number of bytes up to the end of a bracket.
const LOOK_AHEAD: usize = 256;

/// Returns `true` if a bracket may end before the word does. A quoted space does not end the word.
fn may_close(rest: &[u8]) -> bool {
    let mut quote = None;
    let mut bytes = rest.iter().take(LOOK_AHEAD);
    while let Some(&b) = bytes.next() {
        match (b, quote) {
            (b']', _) => return true,
            (b' ' | b'\t' | b'\n', None) => return false,
            // The guard consumes the escaped character, which neither ends the word nor a quote.
            (b'\\', None | Some(b'"')) if bytes.next() == Some(&b']') => return true,
            (b'\'' | b'"', None) => quote = Some(b),
            (_, Some(end)) if b == end => quote = None,
            _ => {}
        }
    }
    rest.len() > LOOK_AHEAD
}

/// The meaning of `(` behind an unquoted `?`, `*`, `+`, `@` or `!`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// It ends the word.
    End,
    /// It begins a group in the name of files.
    Name,
    /// It begins a group in a pattern that a text is compared with.
    Text,
}

impl Parser<'_> {
    /// Returns the word at the cursor, braces not expanded; `None` if there is none.
    pub(super) fn word(&mut self) -> Parse<Option<Word>> {
        self.word_with(Group::End)
    }

    /// Returns the word at the cursor, which may have groups, as [`word`](Self::word) does.
    pub(super) fn word_with(&mut self, group: Group) -> Parse<Option<Word>> {
        let mut word = Word::default();
        let mut has_word = false;
        while let Some(c) = self.peek() {
            match c {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' => {
                    if self.peek_at(1) != Some(b'(') {
                        break;
                    }
                    self.process(&mut word)?;
                }
                b'?' | b'*' | b'+' | b'@' | b'!'
                    if group != Group::End && self.peek_at(1) == Some(b'(') =>
                {
                    self.group(&mut word, group)?;
                }
                b'\\' => {
                    self.bump()?;
                    match self.src.get(self.pos) {
                        None => word.push_text("\\", true),
                        Some(_) => self.character(&mut word, true)?,
                    }
                }
                b'\'' => self.single(&mut word)?,
                b'"' => self.double(&mut word)?,
                b'$' => self.dollar(&mut word, false)?,
                b'`' => self.backtick(&mut word, false)?,
                b'*' | b'?' => {
                    self.bump()?;
                    word.parts.push(Part::Glob(char::from(c)));
                }
                b'[' => self.bracket(&mut word)?,
                b'{' | b'}' | b',' => {
                    self.bump()?;
                    word.parts.push(Part::Brace(char::from(c)));
                }
                b'~' if at_tilde(&word) => self.tilde(&mut word)?,
                _ => self.character(&mut word, false)?,
            }

            has_word = true;
        }

        if word.parts.len() > 1 {
            // `""$x` is what `$x` is.
            word.parts
                .retain(|part| !matches!(part, Part::Text { text, .. } if text.is_empty()));
        }

        Ok(has_word.then_some(word))
    }

    /// `<(..)` or `>(..)` at the cursor.
    fn process(&mut self, word: &mut Word) -> Parse<()> {
        self.cx.bash_only("`<(..)`");
        self.bump_by(2)?;
        let first = self.cx.analysis.commands.len();
        self.substitution_body()?;
        self.cx.feed_from(first);
        word.push_text("/dev/fd/", true);
        word.push_value(pipe_name(self.cx, first), true);
        Ok(())
    }

    /// `@(..)` and its like at the cursor: any part of a name. Where bash does not read it as a
    /// pattern, it is an error, so that nothing runs.
    fn group(&mut self, word: &mut Word, group: Group) -> Parse<()> {
        self.cx.bash_only("`@(..)`");
        if self.cx.is_zsh {
            // What stands in it may be code.
            return self.cx.stop("a group in a pattern");
        }

        self.bump_by(2)?;
        self.cx.enter()?;
        let mut content = Word::default();
        let mut depth = 1_usize;
        while depth > 0 {
            match self.peek() {
                // Braces and commas may divide the word into several ones.
                None | Some(b'\n' | b'{' | b'}' | b',') => {
                    return self.cx.stop("a group in a pattern");
                }
                Some(b'\\') => {
                    self.bump()?;
                    if self.src.get(self.pos).is_some() {
                        self.character(&mut content, true)?;
                    }
                }
                Some(b'\'') => self.single(&mut content)?,
                Some(b'"') => self.double(&mut content)?,
                Some(b'$') => self.dollar(&mut content, false)?,
                Some(b'`') => self.backtick(&mut content, false)?,
                Some(b'<' | b'>') if self.peek_at(1) == Some(b'(') => self.process(&mut content)?,
                Some(c) => {
                    depth += usize::from(c == b'(');
                    depth -= usize::from(c == b')');
                    self.character(&mut content, false)?;
                }
            }
        }

        self.cx.leave();
        // If no file matches, the word stays as it is: what stands in it may then be a folder, or a
        // command where a shell reads the word again.
        let is_other = |text: String| text.contains([' ', '\t', '/', ';', '&', '<', '>']);
        if group == Group::Name && content.literal().is_none_or(is_other) {
            return self.cx.stop("a group in a pattern");
        }

        // One wildcard matches no dot at the beginning of a name, but a group may.
        word.parts.extend([Part::Glob('*'), Part::Glob('*')]);
        Ok(())
    }

    /// `[..]` in a pattern is one character; a bracket that nothing closes is text.
    fn bracket(&mut self, word: &mut Word) -> Parse<()> {
        let rest = &self.src[self.pos + 1..];
        let start = first_end(rest);
        let end = rest[start..]
            .iter()
            .position(|b| b" \t\n;&|()<>/'\"\\$`[{},".contains(b) || *b == b']')
            .map(|end| start + end);
        if rest.first() == Some(&b'^') {
            self.cx.bash_only("`[^..]`");
        }

        match end {
            Some(end) if rest[end] == b']' => {
                self.bump_by(end + 2)?;
                word.parts.push(Part::Glob('['));
            }
            _ => {
                let may_close = may_close(rest);
                let is_subscript = word.plain().is_some_and(|name| is_name(&name));
                if is_subscript && end.is_some_and(|end| b" \t\n;&|()<>".contains(&rest[end])) {
                    // Where an assignment may stand, bash reads up to the bracket that closes.
                    self.cx
                        .leave_out(Reason::Syntax("a blank or a mark in a subscript"));
                }
                self.bump()?;
                if may_close {
                    // What stands between is not worked out.
                    word.push_value(None, true);
                } else {
                    word.push_text("[", false);
                }
            }
        }

        Ok(())
    }

    /// Returns the words that the word at the cursor becomes; none if there is none.
    pub(super) fn expanded_words(&mut self, group: Group) -> Parse<Vec<Word>> {
        let Some(word) = self.word_with(group)? else {
            return Ok(Vec::new());
        };
        self.cx.work += word.parts.len();
        let Some((words, is_expanded)) = brace::expand(word) else {
            return self.cx.limit("brace expansion");
        };
        if is_expanded {
            self.cx.bash_only("`{a,b}`");
        }
        // `{,}` expands to nothing at all; an empty word keeps its place here.
        self.cx.words += words.len();
        Ok(words)
    }

    /// One character, as text.
    fn character(&mut self, word: &mut Word, quoted: bool) -> Parse<()> {
        let start = self.pos;
        self.bump()?;
        while self.src.get(self.pos).is_some_and(|&b| b & 0xc0 == 0x80) {
            self.bump()?;
        }
        let text = String::from_utf8_lossy(&self.src[start..self.pos]);
        word.push_text(&text, quoted);
        Ok(())
    }

    pub(super) fn single(&mut self, word: &mut Word) -> Parse<()> {
        self.bump()?;
        let start = self.pos;
        while self.src.get(self.pos).is_some_and(|&b| b != b'\'') {
            self.bump()?;
        }

        if self.pos >= self.src.len() {
            return self.cx.stop("a quote without its end");
        }

        let text = String::from_utf8_lossy(&self.src[start..self.pos]).into_owned();
        self.bump()?;
        word.push_text(&text, true);
        Ok(())
    }

    /// `".."` at the cursor.
    pub(super) fn double(&mut self, word: &mut Word) -> Parse<()> {
        self.bump()?;
        let inner = self.text_until(Some(b'"'))?;
        word.push_text("", true);
        word.push_quoted(inner);
        Ok(())
    }

    /// Text in which only `$`, backticks and some escapes mean something, up to `end`, which is
    /// consumed; to the end of the text without one.
    pub(super) fn text_until(&mut self, end: Option<u8>) -> Parse<Word> {
        let mut word = Word::default();
        loop {
            let Some(c) = self.peek() else {
                if end.is_none() {
                    return Ok(word);
                }

                return self.cx.stop("a quote without its end");
            };

            if Some(c) == end {
                self.bump()?;
                return Ok(word);
            }

            match c {
                b'\\' => {
                    let next = self.src.get(self.pos + 1).copied();
                    self.bump()?;
                    match next {
                        Some(b'$' | b'`' | b'\\') => self.character(&mut word, true)?,
                        Some(b'"') if end.is_some() => self.character(&mut word, true)?,
                        _ => word.push_text("\\", true),
                    }
                }
                b'$' => self.dollar(&mut word, true)?,
                b'`' => self.backtick(&mut word, end.is_some())?,
                _ => self.character(&mut word, true)?,
            }
        }
    }

    /// `$'..'`: its escapes decoded as the shell does.
    pub(super) fn ansi(&mut self, word: &mut Word) -> Parse<()> {
        self.bump_by(2)?;
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let Some(&b) = self.src.get(self.pos) else {
                return self.cx.stop("a quote without its end");
            };

            self.bump()?;
            match b {
                b'\'' => break,
                b'\\' => self.ansi_escape(&mut bytes)?,
                _ => bytes.push(b),
            }
        }

        // What follows a NUL is cut off.
        if let Some(nul) = bytes.iter().position(|&b| b == 0) {
            bytes.truncate(nul);
        }

        let Ok(text) = String::from_utf8(bytes) else {
            word.push_value(None, true);
            return Ok(());
        };

        word.push_text(&text, true);
        Ok(())
    }

    fn ansi_escape(&mut self, bytes: &mut Vec<u8>) -> Parse<()> {
        let Some(&c) = self.src.get(self.pos) else {
            return self.cx.stop("a quote without its end");
        };

        self.bump()?;
        let byte = match c {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'\\' | b'\'' | b'"' => c,
            b'0'..=b'7' => {
                self.pos -= 1;
                (self.digits(8, 3)?.unwrap_or(0) & 0xff) as u8
            }
            b'x' if self.src.get(self.pos).is_some_and(u8::is_ascii_hexdigit) => {
                self.digits(16, 2)?.unwrap_or(0) as u8
            }
            b'u' | b'U' => {
                let most = if c == b'u' { 4 } else { 8 };
                let decoded = self.digits(16, most)?.and_then(char::from_u32);
                let Some(decoded) = decoded else {
                    return self.cx.stop("an escape in `$'..'`");
                };
                bytes.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => {
                // The file that it names may be any.
                self.cx.add_path(Use::Write, Word::unknown());
                return self.cx.stop("an escape in `$'..'`");
            }
        };

        bytes.push(byte);
        Ok(())
    }

    fn digits(&mut self, radix: u32, most: usize) -> Parse<Option<u32>> {
        let mut value = None;
        for _ in 0..most {
            let digit = self
                .src
                .get(self.pos)
                .and_then(|&b| char::from(b).to_digit(radix));
            let Some(digit) = digit else { break };
            value = Some(value.unwrap_or(0) * radix + digit);
            self.bump()?;
        }
        Ok(value)
    }

    fn tilde(&mut self, word: &mut Word) -> Parse<()> {
        self.bump()?;
        let mut user = String::new();
        while let Some(b) = self
            .peek()
            .filter(|b| b.is_ascii_alphanumeric() || b"_-+.".contains(b))
        {
            user.push(char::from(b));
            self.bump()?;
        }
        if user.starts_with(['+', '-']) {
            self.cx.bash_only("`~+`");
        }

        // A quote before the first slash makes it plain text.
        if self.peek().is_some_and(|b| b"\"'\\$`".contains(&b)) {
            word.push_text(&format!("~{user}"), true);
            return Ok(());
        }

        let ends = self.peek().is_none_or(|b| b"/: \t\n;&|()<>".contains(&b));
        let variable = match user.as_str() {
            "" => Some("HOME"),
            "+" => Some("PWD"),
            "-" => Some("OLDPWD"),
            _ => None,
        };
        let is_index = |c: char| c.is_ascii_digit() || "+-".contains(c);
        match variable.filter(|_| ends && self.cx.has_own_home) {
            _ if self.cx.has_other_home() => word.push_value(None, true),
            Some(name) => self.variable(word, name.to_owned(), true),
            // One of the folders that `pushd` left.
            None if self.cx.has_own_home && user.starts_with(is_index) => {
                word.push_value(None, true);
            }
            None => word.parts.push(Part::Home(user)),
        }
        Ok(())
    }
}

/// Returns `true` if a `~` here names a directory: at the beginning, or after `=` or `:` as
/// in assignments.
fn at_tilde(word: &Word) -> bool {
    match word.parts.last() {
        None => true,
        Some(Part::Text {
            text,
            quoted: false,
        }) => text.len() > 1 && text.ends_with(['=', ':']),
        // `{~,x}` becomes a word that begins with it.
        Some(Part::Brace('{' | ',')) => true,
        _ => false,
    }
}
