//! `$..` and backticks: substitutions, parameters, arithmetic.

use super::analysis::Reason;
use super::compound::is_name;
use super::context::Parse;
use super::inputs::output_name;
use super::listing::output;
use super::parser::Parser;
use super::shells::script_of;
use super::word::{LISTED, Part, Word};

impl Parser<'_> {
    /// `$` at the cursor; `quoted` in double quotes and here-documents.
    pub(super) fn dollar(&mut self, word: &mut Word, quoted: bool) -> Parse<()> {
        match self.peek_at(1) {
            Some(b'(') => self.dollar_parenthesis(word, quoted)?,
            Some(b'{') => {
                self.bump_by(2)?;
                self.cx.enter()?;
                self.parameter(word, quoted)?;
                self.cx.leave();
            }
            Some(b'[') if self.cx.reads_as_bash("`$[..]`") => {
                self.bump_by(2)?;
                self.cx.enter()?;
                if !self.arithmetic(b']', 1)? {
                    return self.cx.stop("arithmetic");
                }

                self.cx.leave();
                word.push_value(Some("#".to_owned()), true);
            }
            Some(b'\'') if !quoted && self.cx.reads_as_bash("`$'..'`") => {
                self.peek();
                self.ansi(word)?;
            }
            Some(b'"') if !quoted => {
                self.cx.bash_only("`$\"..\"`");
                self.bump()?;
                self.peek();
                self.double(word)?;
            }
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => {
                self.bump_by(1)?;
                let name = self.name()?;
                self.variable(word, name, quoted);
            }
            Some(b) if b.is_ascii_digit() || b"@*#?-$!".contains(&b) => {
                self.bump_by(2)?;
                if b.is_ascii_digit() && self.peek().is_some_and(|b| b.is_ascii_digit()) {
                    self.cx
                        .bash_only("a parameter of two digits without braces");
                }

                // These are numbers: they neither split nor vanish.
                let is_one_word = quoted && b != b'@' || b"#?$".contains(&b);
                word.push_value(Some(char::from(b).to_string()), is_one_word);
            }
            _ => {
                self.bump_by(1)?;
                word.push_text("$", quoted);
            }
        }

        Ok(())
    }

    /// `$((..))` or `$(..)` at the cursor.
    fn dollar_parenthesis(&mut self, word: &mut Word, quoted: bool) -> Parse<()> {
        if self.peek_at(2) == Some(b'(') {
            let start = self.pos;
            self.bump_by(3)?;
            self.cx.enter()?;
            let is_arithmetic = self.arithmetic(b')', 2)?;
            self.cx.leave();
            if is_arithmetic {
                // A number: it never splits and is not an option but for its sign.
                word.push_value(Some("#".to_owned()), true);
                return Ok(());
            }

            // Bash takes it for arithmetic if its parentheses end together.
            self.cx
                .leave_out(Reason::Syntax("`$((` without arithmetic"));
            self.pos = start;
        }

        self.bump_by(2)?;
        let first = self.cx.analysis.commands.len();
        self.substitution_body()?;
        word.parts.push(output(self.cx, first, quoted));
        Ok(())
    }

    /// Returns the letters, digits and underscores at the cursor.
    pub(super) fn name(&mut self) -> Parse<String> {
        let mut name = String::new();
        while let Some(b) = self
            .peek()
            .filter(|b| b.is_ascii_alphanumeric() || *b == b'_')
        {
            name.push(char::from(b));
            self.bump()?;
        }
        Ok(name)
    }

    /// Returns the commands of `$(..)` or `<(..)`, after the opening parenthesis.
    pub(super) fn substitution_body(&mut self) -> Parse<()> {
        self.cx.enter()?;

        // A here-document that began outside has its body after the line that ends outside.
        let outer = std::mem::take(&mut self.heredocs);
        self.repeating(false, Self::list)?;
        if !self.heredocs.is_empty() {
            return self.cx.stop("a here-document that a substitution cuts off");
        }

        self.heredocs = outer;
        if !self.take(")")? {
            return self.cx.stop("a substitution without its end");
        }

        self.cx.leave();
        Ok(())
    }

    /// A substitution in backticks.
    pub(super) fn backtick(&mut self, word: &mut Word, in_quotes: bool) -> Parse<()> {
        self.bump()?;
        let mut text: Vec<u8> = Vec::new();
        loop {
            let Some(&b) = self.src.get(self.pos) else {
                return self.cx.stop("a substitution without its end");
            };

            self.bump()?;
            match b {
                b'`' => break,
                b'\\' => match self.src.get(self.pos) {
                    Some(&next) if b"$`\\".contains(&next) || (next == b'"' && in_quotes) => {
                        text.push(next);
                        self.bump()?;
                    }
                    _ => text.push(b),
                },
                _ => text.push(b),
            }
        }

        let text = String::from_utf8_lossy(&text).into_owned();
        self.cx.enter()?;
        let first = self.cx.analysis.commands.len();
        Parser::new(&text, self.cx).script()?;
        self.cx.leave();
        word.push_value(output_name(self.cx, first), in_quotes);
        Ok(())
    }

    /// `${..}` after the brace.
    fn parameter(&mut self, word: &mut Word, quoted: bool) -> Parse<()> {
        if self.take("#}")? || self.take("?}")? || self.take("-}")? || self.take("!}")? {
            word.push_value(None, quoted);
            return Ok(());
        }

        let length = self.peek() == Some(b'#') && self.peek_at(1) != Some(b'#');
        if length {
            self.bump()?;
        }

        let indirect = self.peek() == Some(b'!');
        if indirect {
            self.cx.bash_only("`${!name}`");
            self.bump()?;
        }

        let name = self.parameter_name()?;
        let mut quoted_value = quoted && name != "@";
        let mut is_element = false;
        if self.peek() == Some(b'[') {
            self.cx.bash_only("an array");
            self.bump()?;
            let all = matches!(self.peek(), Some(b'@' | b'*')) && self.peek_at(1) == Some(b']');
            if all {
                quoted_value = false;
                self.bump_by(2)?;
                if indirect && self.take("}")? {
                    // The keys of an array.
                    word.push_value(None, false);
                    return Ok(());
                }
            } else if !self.arithmetic(b']', 1)? {
                return self.cx.stop("a subscript");
            }
            // Another element than the value of a loop.
            is_element = self.cx.loops.has(&name);
        }

        if indirect {
            self.cx.note(Reason::Expansion("`${!name}`"));
        }

        if self.take("}")? {
            if length {
                word.push_value(Some("#".to_owned()), true);
            } else if !indirect && !is_element && (is_name(&name) || name.len() == 1) {
                self.variable(word, name, quoted_value);
            } else {
                word.push_value(None, quoted_value);
            }

            return Ok(());
        }

        if !length && !indirect && !is_element && self.cut_ending(word, &name, quoted_value)? {
            return Ok(());
        }

        word.push_value(None, quoted_value);
        self.parameter_operator(&name, quoted)
    }

    fn parameter_name(&mut self) -> Parse<String> {
        match self.peek() {
            Some(b) if b.is_ascii_alphanumeric() || b == b'_' => {
                let name = self.name()?;
                if b.is_ascii_digit() && !name.bytes().all(|b| b.is_ascii_digit()) {
                    return self.cx.stop("an expansion");
                }

                Ok(name)
            }
            Some(b) if b"@*#?-$!".contains(&b) => {
                self.bump()?;
                Ok(char::from(b).to_string())
            }
            _ => self.cx.stop("an expansion"),
        }
    }

    /// Returns the operator after the name, up to the brace that ends the expansion.
    fn parameter_operator(&mut self, name: &str, quoted: bool) -> Parse<()> {
        let quotes_are_text = match (self.peek(), self.peek_at(1)) {
            (Some(b'@'), Some(operator)) => {
                self.cx.bash_only("`${name@..}`");
                if !b"QUuLEAKak".contains(&operator) {
                    self.cx.note(Reason::Expansion("`${name@..}`"));
                }

                false
            }
            (Some(b':'), Some(b'-' | b'=' | b'?' | b'+'))
            | (Some(b'-' | b'=' | b'?' | b'+'), _) => {
                let colon = self.peek() == Some(b':');
                let operator = self.peek_at(usize::from(colon));
                if quoted && self.quote_before_brace() != Some(b'}') {
                    self.cx.note(Reason::Expansion("a quote in an expansion"));
                }
                self.bump_by(1 + usize::from(colon))?;
                let value = self.parameter_rest(quoted)?;
                if operator == Some(b'=') {
                    self.cx.assign(name, Some(&value), false);
                }
                let (text, _) = script_of(&value);
                if !quoted && text.contains(char::is_whitespace) {
                    self.cx.defaults.push(text);
                }

                return Ok(());
            }
            (Some(b':'), _) => {
                self.cx.bash_only("`${name:offset}`");
                self.bump()?;
                if self.arithmetic(b'}', 1)? {
                    return Ok(());
                }

                return self.cx.stop("an expansion's offset");
            }
            (Some(b'/' | b'^' | b','), _) => {
                self.cx.bash_only("`${name/..}`");
                quoted
            }
            (Some(b'#' | b'%'), _) => quoted,
            _ => return self.cx.stop("an expansion"),
        };

        if quotes_are_text {
            let reason = Reason::Expansion("a quote in an expansion");
            match self.quote_before_brace() {
                Some(b'}') => {}
                Some(b'"') => self.cx.note(reason),
                // Whether it hides what follows depends on more than the analyzer knows.
                _ => self.cx.leave_out(reason),
            }
        }

        self.parameter_rest(quoted)?;
        Ok(())
    }

    /// Returns a quote that stands before the next brace, or the brace if there is none: a single
    /// quote if one may hide what follows, else a double quote. `None` if the brace is far away.
    fn quote_before_brace(&self) -> Option<u8> {
        let ahead = &self.src[self.pos..];
        let mut near = ahead[..ahead.len().min(256)].iter();
        let mut has_double = false;
        while let Some(&byte) = near.next() {
            match byte {
                b'\\' => {
                    near.next();
                }
                b'\'' => {
                    // As a quote and as text, plain characters up to its partner end nothing.
                    let text = near.as_slice();
                    let end = text.iter().position(|byte| *byte == b'\'');
                    let is_plain = |end: &usize| {
                        let text = &text[..*end];
                        let has_mark = text.iter().any(|byte| b"\"{}$`".contains(byte));
                        !has_mark && !text.ends_with(b"\\")
                    };
                    match end.filter(is_plain) {
                        Some(end) => near = text[end + 1..].iter(),
                        None => return Some(byte),
                    }
                }
                b'"' => has_double = true,
                b'}' => return Some(if has_double { b'"' } else { byte }),
                _ => {}
            }
        }
        None
    }

    /// Returns the word of `${x:-word}` and its like, up to the brace that ends the expansion.
    fn parameter_rest(&mut self, quoted: bool) -> Parse<Word> {
        let mut word = Word::default();
        loop {
            let Some(c) = self.peek() else {
                return self.cx.stop("an expansion without its end");
            };

            if quoted && matches!(c, b'\'' | b'"') {
                self.cx.bash_only("a quote in a quoted expansion");
            }

            match c {
                b'}' => {
                    self.bump()?;
                    return Ok(word);
                }
                b'\\' => {
                    self.bump()?;
                    let start = self.pos;
                    if self.pos < self.src.len() {
                        self.bump()?;
                    }

                    let text = String::from_utf8_lossy(&self.src[start..self.pos]).into_owned();
                    word.push_text(&text, true);
                }
                b'\'' if !quoted => self.single(&mut word)?,
                b'"' => self.double(&mut word)?,
                b'$' => self.dollar(&mut word, quoted)?,
                b'`' => self.backtick(&mut word, quoted)?,
                b'<' | b'>' if !quoted && self.peek_at(1) == Some(b'(') => {
                    self.cx.bash_only("`<(..)`");
                    self.bump_by(2)?;
                    self.substitution_body()?;
                    word.push_value(None, true);
                }
                _ => {
                    self.bump()?;
                    let text = String::from_utf8_lossy(&[c]).into_owned();
                    word.push_text(&text, quoted);
                }
            }
        }
    }

    /// Arithmetic up to `count` times `close`, which are consumed. `false`: it is none, and the
    /// cursor is anywhere.
    pub(super) fn arithmetic(&mut self, close: u8, count: usize) -> Parse<bool> {
        let mut depth = 0_usize;
        let mut word = Word::default();
        let mut sets = false;
        loop {
            let Some(c) = self.peek() else {
                return Ok(false);
            };

            if c == close && depth == 0 {
                if count == 2 && self.peek_at(1) != Some(close) {
                    return Ok(false);
                }

                self.bump_by(count)?;
                self.number_in(&word);
                if sets {
                    self.set_all(&word);
                }
                return Ok(true);
            }

            match c {
                b'(' => {
                    depth += 1;
                    self.bump()?;
                }
                b'[' => {
                    self.bump()?;
                    self.cx.enter()?;
                    let is_subscript = self.arithmetic(b']', 1)?;
                    self.cx.leave();
                    if !is_subscript {
                        return Ok(false);
                    }
                }
                b')' if depth > 0 => {
                    depth -= 1;
                    self.bump()?;
                }
                b')' | b']' => return Ok(false),
                b';' if count == 2 => self.bump()?,
                _ if b"+-*/%<>=!&|^~?:,".contains(&c) => sets |= self.operator(c)?,
                _ => self.arithmetic_part(c, &mut word)?,
            }
        }
    }

    /// A name, a number or an expansion of arithmetic at the cursor.
    fn arithmetic_part(&mut self, c: u8, word: &mut Word) -> Parse<()> {
        match c {
            b'$' => self.dollar(word, true),
            b'`' => self.backtick(word, true),
            b'0'..=b'9' => {
                while self
                    .peek()
                    .is_some_and(|b| b.is_ascii_alphanumeric() || b"#@_".contains(&b))
                {
                    self.bump()?;
                }
                Ok(())
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => {
                let name = self.name()?;
                word.push_value(Some(name), true);
                Ok(())
            }
            b' ' | b'\t' | b'\n' => self.bump(),
            b'"' | b'\'' => self.arithmetic_quote(c, word),
            b'\\' | b'{' | b'}' | b';' | b'#' => self.cx.stop("a mark in arithmetic"),
            _ => {
                self.cx.note(Reason::Expansion("arithmetic"));
                self.bump()
            }
        }
    }

    /// A text in quotes in arithmetic. It may not have marks at which the arithmetic could end.
    fn arithmetic_quote(&mut self, quote: u8, word: &mut Word) -> Parse<()> {
        if quote == b'\'' {
            self.cx.note(Reason::Expansion("arithmetic"));
        }
        self.bump()?;
        let mut open = Vec::new();
        loop {
            match self.peek() {
                Some(c) if c == quote && open.is_empty() => return self.bump(),
                // Arithmetic may evaluate the text, also one in single quotes.
                Some(c @ (b'$' | b'`')) => self.arithmetic_part(c, word)?,
                Some(c) if quote == b'"' && (c.is_ascii_alphanumeric() || c == b'_') => {
                    self.arithmetic_part(c, word)?;
                }
                Some(c @ (b'(' | b'[')) => {
                    open.push(if c == b'(' { b')' } else { b']' });
                    self.bump()?;
                }
                Some(c @ (b')' | b']')) if open.last() == Some(&c) => {
                    open.pop();
                    self.bump()?;
                }
                Some(b'\'') if quote == b'"' => self.bump()?,
                None | Some(b')' | b']' | b'{' | b'}' | b'\\' | b'"' | b'\'') => {
                    return self.cx.stop("a quote in arithmetic");
                }
                Some(_) => self.bump()?,
            }
        }
    }

    /// An operator of arithmetic at the cursor; returns `true` if it sets a variable.
    fn operator(&mut self, c: u8) -> Parse<bool> {
        let next = self.peek_at(1);
        let is_comparison = next == Some(b'=') && b"=<>!".contains(&c);
        let is_doubled = next == Some(c) && c != b'=';
        self.bump_by(1 + usize::from(is_comparison || is_doubled))?;
        Ok(c == b'=' && !is_comparison || is_doubled && b"+-".contains(&c))
    }

    /// Notes that arithmetic may set any of the variables that it names.
    fn set_all(&mut self, word: &Word) {
        let mut number = Word::default();
        number.push_value(Some("#".to_owned()), true);
        for part in &word.parts {
            match part.variable().filter(|name| !name.starts_with(LISTED)) {
                Some(name) if is_name(name) => self.cx.assign(name, Some(&number), false),
                None if matches!(part, Part::Value { .. }) => {
                    self.cx.note(Reason::Expansion("arithmetic"));
                }
                _ => {}
            }
        }
    }
}
