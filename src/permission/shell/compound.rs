//! Compound commands: groups, subshells, loops, conditions, tests.

use super::analysis::Reason;
use super::context::Parse;
use super::lexer::Group;
use super::parser::Parser;
use super::word::Word;

impl Parser<'_> {
    /// A compound command, if one begins at the cursor.
    pub(super) fn compound(&mut self) -> Parse<bool> {
        if self.peek() == Some(b'(') {
            self.cx.enter()?;
            self.repeating(false, Self::subshell)?;
            self.cx.leave();
            return Ok(true);
        }

        let Some(word) = self.reserved() else {
            return Ok(false);
        };

        if !matches!(
            word,
            "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[["
        ) {
            return Ok(false);
        }

        match word {
            "select" => self.cx.bash_only("`select`"),
            "[[" if !self.cx.reads_as_bash("`[[`") => return Ok(false),
            _ => {}
        }

        self.bump_by(word.len())?;
        self.cx.enter()?;
        match word {
            "{" => {
                self.filled_list()?;
                self.expect("}")?;
            }
            "if" => self.conditions()?,
            "while" | "until" => self.repeating(true, |parser| {
                parser.filled_list()?;
                parser.body()
            })?,
            "for" | "select" => self.loop_over(word)?,
            "case" => self.case()?,
            _ => self.test()?,
        }

        self.cx.leave();
        Ok(true)
    }

    /// Reads commands that the shell itself may run several times, or not.
    pub(super) fn repeating<T>(
        &mut self,
        repeats: bool,
        read: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<T> {
        let outer = std::mem::replace(&mut self.cx.repeats, repeats);
        let result = read(self);
        self.cx.repeats = outer;
        result
    }

    fn expect(&mut self, word: &'static str) -> Parse<()> {
        if self.reserved() == Some(word) {
            self.bump_by(word.len())
        } else {
            self.cx.stop("a compound command without its end")
        }
    }

    fn body(&mut self) -> Parse<()> {
        self.expect("do")?;
        self.filled_list()?;
        self.expect("done")
    }

    fn subshell(&mut self) -> Parse<()> {
        if self.peek_at(1) == Some(b'(') && self.cx.reads_as_bash("`((`") {
            let start = self.pos;
            self.bump_by(2)?;
            if self.arithmetic(b')', 2)? {
                return Ok(());
            }

            // Bash takes it for arithmetic if its parentheses end together.
            self.cx.leave_out(Reason::Syntax("`((` without arithmetic"));
            self.pos = start;
        }

        self.bump()?;
        self.filled_list()?;
        if self.take(")")? {
            Ok(())
        } else {
            self.cx.stop("a group without its end")
        }
    }

    fn conditions(&mut self) -> Parse<()> {
        self.filled_list()?;
        self.expect("then")?;
        self.filled_list()?;
        loop {
            match self.reserved() {
                Some("elif") => {
                    self.bump_by(4)?;
                    self.filled_list()?;
                    self.expect("then")?;
                    self.filled_list()?;
                }
                Some("else") => {
                    self.bump_by(4)?;
                    self.filled_list()?;
                    return self.expect("fi");
                }
                _ => return self.expect("fi"),
            }
        }
    }

    fn loop_over(&mut self, keyword: &str) -> Parse<()> {
        self.blanks()?;
        if self.peek() == Some(b'(') && self.peek_at(1) == Some(b'(') {
            self.cx.bash_only("`for ((`");
            self.bump_by(2)?;
            if !self.arithmetic(b')', 2)? {
                return self.cx.stop("a loop's arithmetic");
            }
        } else {
            return self.loop_over_words(keyword);
        }

        self.repeating(true, Self::loop_body)
    }

    /// `name in words`, and the body.
    fn loop_over_words(&mut self, keyword: &str) -> Parse<()> {
        let name = self.word()?.and_then(|word| word.plain());
        let Some(name) = name.filter(|name| is_name(name)) else {
            return self.cx.stop("a loop without a variable");
        };

        self.newlines()?;
        if keyword == "select" || self.reserved() != Some("in") {
            self.cx.assign(&name, None, false);
        }
        let mut words = Vec::new();
        if self.reserved() == Some("in") {
            self.bump_by(2)?;
            loop {
                self.blanks()?;
                let next_words = self.expanded_words(Group::Name)?;
                if next_words.is_empty() {
                    break;
                }
                words.extend(next_words);
            }
        }

        for word in &words {
            self.cx.record(&name, Some(word), false);
        }
        if keyword == "select" {
            words.clear();
        }
        self.body_for(&name, &words)
    }

    pub(super) fn loop_body(&mut self) -> Parse<()> {
        self.blanks()?;
        if self.peek() == Some(b';') {
            self.bump()?;
        }

        self.newlines()?;
        if self.reserved() == Some("{") {
            self.cx.bash_only("a loop in braces");
            self.bump_by(1)?;
            self.filled_list()?;
            return self.expect("}");
        }

        self.body()
    }

    fn case(&mut self) -> Parse<()> {
        self.blanks()?;
        if self.word()?.is_none() {
            return self.cx.stop("a case without a word");
        }

        self.newlines()?;
        self.expect("in")?;
        loop {
            self.newlines()?;
            if self.reserved() == Some("esac") {
                return self.bump_by(4);
            }

            self.take("(")?;
            loop {
                self.blanks()?;
                if self.word_with(Group::Text)?.is_none() {
                    return self.cx.stop("a case pattern");
                }

                self.blanks()?;
                if self.take("|")? {
                    continue;
                }

                if self.take(")")? {
                    break;
                }

                return self.cx.stop("a case pattern");
            }

            self.cx.enter()?;
            self.list()?;
            self.cx.leave();
            if self.take(";;&")? || self.take(";&")? {
                self.cx.bash_only("`;&`");
            } else if !self.take(";;")? {
                self.newlines()?;
                return self.expect("esac");
            }
        }
    }

    /// `[[ .. ]]`. If it compares numbers, each word may be arithmetic.
    fn test(&mut self) -> Parse<()> {
        let mut words: Vec<Word> = Vec::new();
        let mut next_group = Group::End;
        loop {
            self.newlines()?;
            if self.word_ahead().as_deref() == Some("]]") {
                self.bump_by(2)?;
                break;
            }

            let group = std::mem::replace(&mut next_group, Group::End);
            if self.take("&&")? || self.take("||")? || self.take("(")? || self.take(")")? {
                continue;
            }

            let process = matches!(self.peek(), Some(b'<' | b'>')) && self.peek_at(1) == Some(b'(');
            if !process && (self.take("<")? || self.take(">")?) {
                continue;
            }

            let Some(word) = self.word_with(group)? else {
                return self.cx.stop("a test");
            };
            if matches!(word.plain().as_deref(), Some("==" | "=" | "!=")) {
                next_group = Group::Text;
            }

            if word.plain().as_deref() == Some("=~") {
                self.blanks()?;
                self.regex()?;
            }
            words.push(word);
        }

        let is = |word: &Word, operators: &str| {
            let text = word.plain().unwrap_or_default();
            operators.split(' ').any(|operator| operator == text)
        };
        let compares = words.iter().any(|word| is(word, "-eq -ne -lt -le -gt -ge"));
        let looks_up = words.iter().any(|word| is(word, "-v -R"));
        for word in words.iter().filter(|word| !word.starts_with_dash()) {
            if compares {
                self.compared_number(word);
            }
            if compares || looks_up {
                self.cx.keep_text(word);
            }
            if looks_up && !word.literal().is_some_and(|text| is_name(&text)) {
                self.cx.note(Reason::Expansion("a test of a variable"));
            }
        }
        Ok(())
    }

    /// Notes the variables of a number that `[[` compares: it is arithmetic, even in quotes.
    fn compared_number(&mut self, word: &Word) {
        match word.literal() {
            Some(text) if text.trim().parse::<i64>().is_ok() => {}
            Some(text) if is_name(&text) => {
                self.cx.numbers.insert(text);
            }
            _ => self.number_in(word),
        }
    }

    pub(super) fn number_in(&mut self, word: &Word) {
        let is_plain = |b: u8| b.is_ascii_digit() || b" +-*/%".contains(&b);
        for part in &word.parts {
            if let Some(name) = part.variable().filter(|name| is_name(name)) {
                self.cx.numbers.insert(name.to_owned());
            } else if !part.is_number() && !part.text().is_some_and(|t| t.bytes().all(is_plain)) {
                self.cx.note(Reason::Expansion("arithmetic"));
            }
        }
    }

    /// A regular expression after `=~`: parentheses and bars are part of it.
    fn regex(&mut self) -> Parse<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'(') => depth += 1,
                Some(b')') if depth > 0 => depth -= 1,
                Some(b'|') if depth > 0 || self.peek_at(1) != Some(b'|') => {}
                Some(b' ' | b'\t') if depth > 0 => {}
                Some(b'<' | b'>' | b'&' | b';' | b'\n') if depth > 0 => {
                    return self.cx.stop("a regular expression");
                }
                _ => match self.word()? {
                    Some(_) => continue,
                    None => return Ok(()),
                },
            }

            self.bump()?;
        }
    }
}

/// Returns `true` if `text` may name a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
