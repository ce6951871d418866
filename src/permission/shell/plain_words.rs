//! The words and redirections of the strict grammar.

use super::plain_grammar::{End, Plain, Scanner, check_name, ends_word, is_name, is_name_byte};

/// A here-document whose body begins behind the next newline.
pub(super) struct Document {
    delimiter: Vec<u8>,
    is_quoted: bool,
    strips_tabs: bool,
    /// The depth of the operator: the newline has to be there as well.
    pub(super) depth: usize,
}

impl Scanner<'_> {
    /// Reads a word, which is not empty.
    pub(super) fn word(&mut self) -> Plain {
        let start = self.at;
        if matches!(self.rest(), [b'[', b' ', ..]) || self.rest() == b"[" {
            self.at += 1;
            return Ok(());
        }
        if self.next() == Some(b'#') {
            return Err("a comment out of place");
        }
        self.tilde()?;
        let mut is_open = false;
        while !ends_word(self.next()) {
            let is_brace = self.next() == Some(b'{');
            let is_choice = self.next() == Some(b',') || is_brace && self.braces()?;
            // Braces that enclose no choice are text only without a choice behind them.
            if is_open && is_choice {
                return Err("braces without a choice");
            }
            is_open |= is_brace && !is_choice;
            if !is_brace {
                self.piece()?;
            }
        }
        let word = &self.text[start..self.at];
        if word.is_empty() {
            return Err("a missing word");
        }
        if self.next() == Some(b'(') {
            let name = word.strip_suffix(b"=").unwrap_or_default();
            return if is_name(name.strip_suffix(b"+").unwrap_or(name)) {
                self.array()
            } else if self.rest().starts_with(b"()") {
                Ok(())
            } else {
                Err("a parenthesis in a word")
            };
        }
        if self.document.is_some() && word.contains(&b'\n') {
            return Err("a newline before the body of a here-document");
        }
        Ok(())
    }

    /// Reads a `~` at the beginning of a name, if there is one.
    fn tilde(&mut self) -> Plain {
        if !self.take("~") || self.next() == Some(b'/') || ends_word(self.next()) {
            return Ok(());
        }
        Err("a tilde")
    }

    /// Reads a part of a word.
    pub(super) fn piece(&mut self) -> Plain {
        let Some(b) = self.next() else {
            return Err("an end that is missing");
        };
        let start = self.at;
        match b {
            b'\'' => {
                self.at += 1;
                self.take_while(|b| b != b'\'');
                self.expect("'", "a quote without its end")?;
                self.after_quote(start)
            }
            b'"' => {
                self.at += 1;
                self.quoted(Some(b'"'))?;
                self.after_quote(start)
            }
            b'\\' => self.escape(),
            b'$' => self.dollar(false),
            b'[' => self.bracket(),
            b'=' | b':' => {
                self.at += 1;
                self.tilde()
            }
            b'`' => self.backticks(b""),
            b'}' => Err("a brace out of place"),
            0x80.. => self.other_character(),
            _ => {
                self.at += 1;
                Ok(())
            }
        }
    }

    /// Checks that an empty quote is a word by itself, or behind a `=` or the `\'` of a quoted
    /// text.
    fn after_quote(&self, start: usize) -> Plain {
        let before = start.checked_sub(1).map(|at| self.text[at]);
        let is_joined = !(ends_word(before) || before == Some(b'=')) || !ends_word(self.next());
        let is_of_text = self.text[..start].ends_with(b"\\'");
        if self.at - start == 2 && is_joined && !is_of_text {
            return Err("an empty quote in a word");
        }
        Ok(())
    }

    fn other_character(&mut self) -> Plain {
        let bytes = self.take_while(|b| b >= 0x80);
        let text = std::str::from_utf8(bytes).unwrap_or(" ");
        if text.contains(char::is_whitespace) {
            return Err("a blank that is none for the shell");
        }
        Ok(())
    }

    /// Reads a `\` and a mark. Lines are joined between words only.
    fn escape(&mut self) -> Plain {
        let begins = self.at == 0 || ends_word(Some(self.text[self.at - 1]));
        let next = self.ahead(1);
        self.at += 1 + usize::from(next.is_some());
        match next {
            None if self.depth == 1 => Ok(()),
            Some(b'\n') if matches!(self.next(), Some(b' ' | b'\t')) => Ok(()),
            Some(b) if b.is_ascii_punctuation() || b == b' ' => Ok(()),
            // `\ls` is no alias.
            Some(b) if begins && b.is_ascii_alphabetic() => Ok(()),
            _ => Err("a backslash"),
        }
    }

    /// Reads commands in backticks without backslashes, and without `others`.
    fn backticks(&mut self, others: &[u8]) -> Plain {
        self.at += 1;
        let commands = self.take_while(|b| b != b'`');
        self.expect("`", "a backtick")?;
        let is_other = |b: &u8| b"\\\n#".contains(b) || others.contains(b);
        let text = std::str::from_utf8(commands).unwrap_or("`");
        if commands.iter().any(is_other) {
            return Err("a mark in backticks");
        }
        Scanner::new(text, self.depth).commands(End::Text)
    }

    /// Reads `[..]` of letters, digits and a few marks.
    fn bracket(&mut self) -> Plain {
        self.at += 1;
        let _negated = self.take("!") || self.take("^");
        let content = self.take_while(|b| is_name_byte(b) || b".,-".contains(&b));
        if content.is_empty() {
            // `]` is a word of its own, too.
            return Err("a bracket");
        }
        self.expect("]", "a bracket")
    }

    /// Reads `{..}`. Returns `false` if it is no choice, and no sequence.
    fn braces(&mut self) -> Result<bool, &'static str> {
        self.at += 1;
        let content = self.take_while(|b| is_name_byte(b) || b".,-/*?@:+%=".contains(&b));
        if ends_word(self.next()) {
            // A brace that nothing closes.
            return Ok(false);
        }
        self.expect("}", "braces")?;
        if matches!(self.next(), Some(b'~' | b'<' | b'>')) {
            return Err("a mark behind braces");
        }
        if content.contains(&b',') {
            return Ok(true);
        }
        let text = std::str::from_utf8(content).unwrap_or_default();
        let Some((first, last)) = text.split_once("..") else {
            return Ok(false);
        };
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        let is_lower = |text: &str| text.len() == 1 && text.bytes().all(|b| b.is_ascii_lowercase());
        let is_upper = |text: &str| text.len() == 1 && text.bytes().all(|b| b.is_ascii_uppercase());
        let ends = [first, last];
        let is_sequence = ends.into_iter().all(is_number)
            || ends.into_iter().all(is_lower)
            || ends.into_iter().all(is_upper);
        if is_sequence {
            Ok(true)
        } else {
            Err("a sequence in braces")
        }
    }

    /// Reads text in which only `$`, backticks and backslashes mean something, up to the quote.
    fn quoted(&mut self, end: Option<u8>) -> Plain {
        loop {
            match self.next() {
                None if end.is_none() => return Ok(()),
                None => return Err("a quote without its end"),
                Some(b) if Some(b) == end => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'$') => self.dollar(true)?,
                Some(b'`') => self.backticks(b"\"'")?,
                Some(b'\\') if self.ahead(1).is_some() => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
    }

    fn dollar(&mut self, is_quoted: bool) -> Plain {
        self.enter()?;
        self.expansion(is_quoted)?;
        self.depth -= 1;
        Ok(())
    }

    /// Reads what begins with the `$` at the cursor.
    fn expansion(&mut self, is_quoted: bool) -> Plain {
        self.at += 1;
        if self.take("((") {
            return self.arithmetic("))", b"");
        }
        if self.take("(") {
            return self.substitution();
        }
        if self.take("{") {
            return self.parameter();
        }
        match self.next() {
            Some(b) if is_name_byte(b) && !b.is_ascii_digit() => {
                check_name(self.take_while(is_name_byte))?;
            }
            Some(b) if b.is_ascii_digit() || b"@*#?!$".contains(&b) => {
                self.at += 1;
                if self.next().is_some_and(|b| b.is_ascii_digit()) {
                    return Err("a parameter of two digits");
                }
            }
            Some(b'\'') if !is_quoted => return self.ansi(),
            Some(b'[' | b'`' | b'-') => return Err("a mark behind `$`"),
            Some(b'\\') if self.ahead(1) == Some(b'\n') => return Err("a joined line"),
            Some(_) if is_quoted => return Ok(()),
            next if ends_word(next) => return Ok(()),
            _ => return Err("a mark behind `$`"),
        }
        if !is_quoted && matches!(self.next(), Some(b'[' | b'{')) {
            return Err("a bracket behind a variable");
        }
        Ok(())
    }

    /// Reads `$'..'` of plain text, quotes, tabs and newlines.
    fn ansi(&mut self) -> Plain {
        self.at += 1;
        loop {
            self.take_while(|b| b != b'\\' && b != b'\'');
            if self.take("'") {
                return Ok(());
            }
            let escapes = ["\\'", "\\n", "\\t", "\\r"];
            if !escapes.iter().any(|escape| self.take(escape)) {
                return Err("an escape in `$'..'`");
            }
        }
    }

    /// Reads `${..}` behind the brace.
    fn parameter(&mut self) -> Plain {
        const OPERATORS: [&str; 14] = [
            ":-", ":+", ":?", ":=", "-", "+", "?", "=", "%%", "%", "##", "#", "//", "/",
        ];
        let lists_keys = self.take("!");
        let _length = self.take("#");
        let name = self.take_while(is_name_byte);
        let is_number = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        if !is_name(name) && !is_number && !self.take("@") && !self.take("#") {
            return Err("an expansion");
        }
        check_name(name)?;
        let is_list = self.take("[@]") || self.take("[*]");
        if lists_keys && !is_list {
            return Err("an expansion");
        }
        if self.take("[") {
            self.take("$");
            self.take_while(is_name_byte);
            self.expect("]", "a subscript")?;
        }
        if OPERATORS.iter().any(|operator| self.take(operator)) {
            self.replacement()?;
        } else if self.take(":") {
            self.take_while(|b| b.is_ascii_digit() || b" :-".contains(&b));
        } else {
            let _change = self.take("^^") || self.take(",,") || self.take("@Q");
        }
        self.expect("}", "an expansion")
    }

    /// Reads the plain words of an expansion.
    fn replacement(&mut self) -> Plain {
        loop {
            self.take_while(|b| is_name_byte(b) || b" -./:@%+=,*?#[]!^".contains(&b));
            if self.next() != Some(b'$') {
                return Ok(());
            }
            self.dollar(true)?;
        }
    }

    /// Reads names, numbers and operators up to the end, and also `others`.
    pub(super) fn arithmetic(&mut self, end: &str, others: &[u8]) -> Plain {
        let mut depth = 0_usize;
        loop {
            if depth == 0 && self.take(end) {
                return Ok(());
            }
            match self.next() {
                Some(b'$') => {
                    self.dollar(true)?;
                    continue;
                }
                Some(b'<') if self.ahead(1) == Some(b'<') => return Err("a shift in arithmetic"),
                Some(b'(') => depth += 1,
                Some(b')') if depth > 0 => depth -= 1,
                Some(b) if is_name_byte(b) || b" +-*/%<>=!&|?:,".contains(&b) => {}
                Some(b) if others.contains(&b) => {}
                // Such as `16#ff`.
                Some(b'#') if self.text[self.at - 1].is_ascii_digit() => {}
                _ => return Err("arithmetic"),
            }
            self.at += 1;
        }
    }

    /// Reads one newline, and the body of a here-document behind it.
    pub(super) fn newline(&mut self) -> Plain {
        self.at += 1;
        let Some(document) = self.document.take() else {
            return Ok(());
        };
        if document.depth != self.depth {
            return Err("a here-document and a newline in other parentheses");
        }
        let start = self.at;
        let mut is_joined = false;
        loop {
            let line_start = self.at;
            if line_start >= self.text.len() {
                return Err("a here-document without its end");
            }
            let line = self.take_while(|b| b != b'\n');
            let is_tab = |b: &&u8| document.strips_tabs && **b == b'\t';
            let line = &line[line.iter().take_while(is_tab).count()..];
            let begins = line.starts_with(&document.delimiter);
            if begins && (is_joined || self.depth > 1 && line.len() > document.delimiter.len()) {
                return Err("a line that begins like the end of a here-document");
            }
            // The shell joins the next line to it, and may find the end then.
            let part = line.strip_suffix(b"\\").filter(|_| !document.is_quoted);
            if part.is_some_and(|part| document.delimiter.starts_with(part)) {
                return Err("a line that begins like the end of a here-document");
            }
            if begins && line.len() == document.delimiter.len() {
                let body = std::str::from_utf8(&self.text[start..line_start]).unwrap_or("`");
                return if document.is_quoted {
                    Ok(())
                } else {
                    Scanner::new(body, self.depth).quoted(None)
                };
            }
            is_joined = !document.is_quoted && line.ends_with(b"\\");
            self.at += 1;
        }
    }

    /// Reads a redirection behind its number.
    pub(super) fn redirection(&mut self, number: &[u8]) -> Plain {
        if (self.take("<&-") || self.take(">&-")) && ends_word(self.next()) {
            return Ok(());
        }
        if number.len() > 1 || self.take("<&") {
            return Err("another descriptor");
        }
        if self.take(">&") {
            self.blanks();
            return self.word();
        }
        let is_standard = matches!(number, b"" | b"0" | b"1" | b"2");
        if !is_standard && self.next() != Some(b'>') || self.take(">(") {
            return Err("another descriptor");
        }
        if self.take("<(") {
            let begins = self.at == 2 || ends_word(Some(self.text[self.at - 3]));
            self.substitution()?;
            let is_word = begins && number.is_empty() && ends_word(self.next());
            return if is_word {
                Ok(())
            } else {
                Err("text joined to `<(..)`")
            };
        }
        if self.take("<<<") {
            self.blanks();
            return self.word();
        }
        if self.take("<<") {
            return self.here_document(number.is_empty());
        }
        let operators = ["&>>", "&>", ">>", ">", "<"];
        let is_known = operators.iter().any(|operator| self.take(operator));
        if !is_known || matches!(self.next(), Some(b'<' | b'>' | b'&' | b'|' | b'(')) {
            return Err("an operator of a redirection");
        }
        self.blanks();
        if self.take("<(") {
            return self.substitution();
        }
        self.word()
    }

    fn here_document(&mut self, is_standard: bool) -> Plain {
        let strips_tabs = self.take("-");
        self.blanks();
        let word = self.take_while(|b| is_name_byte(b) || b"'\"\\".contains(&b));
        let count = |mark: u8| word.iter().filter(|b| **b == mark).count();
        let kinds = [count(b'\''), count(b'"'), 2 * count(b'\\')];
        let is_paired = kinds.iter().all(|count| count % 2 == 0);
        let kind_count = kinds.iter().filter(|count| **count > 0).count();
        let delimiter: Vec<u8> = word.iter().copied().filter(|b| is_name_byte(*b)).collect();
        let is_plain = is_paired && kind_count < 2 && is_name(&delimiter) && ends_word(self.next());
        if !is_plain || !is_standard || self.document.is_some() {
            return Err("the delimiter of a here-document");
        }
        self.document = Some(Document {
            delimiter,
            is_quoted: kind_count > 0,
            strips_tabs,
            depth: self.depth,
        });
        Ok(())
    }
}
