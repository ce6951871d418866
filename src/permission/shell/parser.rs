//! Lists, pipelines and the choice of a command: the spine of the grammar.
//!
//! A recursive descent over bytes; depth and work are counted in [`Context`]. Line joins
//! (`\` newline) vanish in [`Parser::peek`], so that `cu\⏎rl` is one word everywhere but in single
//! quotes.

use std::ops::Range;

use crate::permission::programs::is_program;

use super::analysis::Reason;
use super::compound::is_name;
use super::context::{Context, MAX_WORK, Parse};
use super::heredoc::Pending;
use super::plain_grammar::unusual;
use super::shells::SHELLS;
use super::word::Word;

pub(super) struct Parser<'a> {
    pub(super) src: &'a [u8],
    pub(super) pos: usize,
    pub(super) heredocs: Vec<Pending>,
    pub(super) cx: &'a mut Context,
}

/// A stage of a pipeline: the index of its simple command; `None` for any other command.
pub(super) type Stage = Option<usize>;

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, cx: &'a mut Context) -> Self {
        Self {
            src: text.as_bytes(),
            pos: 0,
            heredocs: Vec::new(),
            cx,
        }
    }

    /// Returns the byte at the cursor, after line joins.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while self.src[self.pos..].starts_with(b"\\\n") {
            self.pos += 2;
        }
        self.src.get(self.pos).copied()
    }

    /// Returns the byte `ahead` of the cursor, after line joins.
    pub(super) fn peek_at(&mut self, ahead: usize) -> Option<u8> {
        self.peek();
        let mut at = self.pos;
        for _ in 0..ahead {
            at += 1;
            while self.src.get(at..).is_some_and(|s| s.starts_with(b"\\\n")) {
                at += 2;
            }
        }
        self.src.get(at).copied()
    }

    pub(super) fn bump(&mut self) -> Parse<()> {
        self.pos += 1;
        self.cx.work += 1;
        if self.cx.work > MAX_WORK {
            return self.cx.limit("nested scripts");
        }
        Ok(())
    }

    pub(super) fn bump_by(&mut self, count: usize) -> Parse<()> {
        for _ in 0..count {
            self.peek();
            self.bump()?;
        }
        Ok(())
    }

    /// Consumes `text` if it is next.
    pub(super) fn take(&mut self, text: &str) -> Parse<bool> {
        for (ahead, byte) in text.bytes().enumerate() {
            if self.peek_at(ahead) != Some(byte) {
                return Ok(false);
            }
        }
        self.bump_by(text.len())?;
        Ok(true)
    }

    /// Skips blanks and a comment.
    pub(super) fn blanks(&mut self) -> Parse<()> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.bump()?;
        }
        if self.peek() == Some(b'#') {
            while self.src.get(self.pos).is_some_and(|&b| b != b'\n') {
                self.bump()?;
            }
        }
        Ok(())
    }

    /// Skips blanks, comments and newlines.
    pub(super) fn newlines(&mut self) -> Parse<()> {
        loop {
            self.blanks()?;
            if self.src.get(self.pos) != Some(&b'\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    fn newline(&mut self) -> Parse<()> {
        self.bump()?;
        self.here_documents()
    }

    /// A whole text.
    pub(super) fn script(&mut self) -> Parse<()> {
        self.list()?;
        if self.peek().is_some() {
            return self.cx.stop("something that closes nothing");
        }
        if !self.heredocs.is_empty() {
            return self.cx.stop("a here-document without its end");
        }
        Ok(())
    }

    /// Commands up to something that ends a list; how many there were.
    pub(super) fn list(&mut self) -> Parse<usize> {
        let mut count = 0;
        let mut may_stay = false;
        loop {
            self.newlines()?;
            if self.at_list_end()? {
                return Ok(count);
            }

            let first = self.cx.analysis.commands.len();
            // A `cd` behind another command may not have run: what follows may stay in the folder.
            self.cx.has_other_changes |= may_stay;
            self.and_or()?;
            let mut commands = self.cx.analysis.commands[first..].iter().skip(1);
            may_stay |= commands.any(|command| command.is("cd"));
            count += 1;
            self.cx.is_chain &= self.cx.depth > 0 || count == 1;
            self.blanks()?;
            match self.peek() {
                Some(b';') if self.peek_at(1) != Some(b';') && self.peek_at(1) != Some(b'&') => {
                    self.bump()?;
                }
                Some(b'&') => {
                    self.bump()?;
                    self.cx.is_chain = false;
                    for command in &mut self.cx.analysis.commands[first..] {
                        self.cx.has_other_changes |= command.is("cd");
                        command.background = true;
                    }
                }
                Some(b'\n') => {}
                _ => {
                    if self.at_list_end()? {
                        return Ok(count);
                    }

                    return self.cx.stop("two commands with nothing between them");
                }
            }
        }
    }

    /// A list that may not be empty.
    pub(super) fn filled_list(&mut self) -> Parse<()> {
        self.cx.enter()?;
        let count = self.list()?;
        self.cx.leave();
        if count == 0 {
            return self.cx.stop("an empty list");
        }
        Ok(())
    }

    fn at_list_end(&mut self) -> Parse<bool> {
        Ok(match self.peek() {
            None | Some(b')') => true,
            Some(b';') if matches!(self.peek_at(1), Some(b';' | b'&')) => true,
            _ => matches!(
                self.reserved(),
                Some("}" | "fi" | "done" | "then" | "else" | "elif" | "do" | "esac")
            ),
        })
    }

    fn and_or(&mut self) -> Parse<()> {
        loop {
            self.pipeline()?;
            self.blanks()?;
            if self.take("||")? {
                self.cx.is_chain = false;
                self.cx.has_other_changes = true;
            } else if !self.take("&&")? {
                return Ok(());
            }
            self.newlines()?;
        }
    }

    /// Skips the `!` at the cursor.
    fn negation(&mut self) -> Parse<()> {
        // The commands behind the first one then run if it fails.
        self.cx.is_chain = self.cx.is_chain && self.cx.chain_has_begun();
        if self.peek_at(1) == Some(b'(') && self.cx.has_extglob {
            // With `extglob`, it is the beginning of a word.
            self.cx
                .leave_out(Reason::Syntax("a parenthesis behind `!`"));
        }
        self.bump_by(1)
    }

    fn pipeline(&mut self) -> Parse<()> {
        loop {
            self.blanks()?;
            match self.reserved() {
                Some("!") => self.negation()?,
                Some("time") => {
                    self.bump_by(4)?;
                    self.blanks()?;
                    for option in ["-p", "--"] {
                        if self.word_ahead().as_deref() == Some(option) {
                            self.bump_by(2)?;
                            self.blanks()?;
                        }
                    }

                    self.check_time();
                    if matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b')')) {
                        return Ok(());
                    }
                }
                _ => break,
            }
        }

        let mut before: Stage = None;
        let mut sources = 0..0;
        let mut first = true;
        loop {
            if !first {
                self.cx.piped += 1;
            }

            let start = self.cx.analysis.commands.len();
            let stage = self.command()?;
            if !first {
                self.cx.piped -= 1;
                if let Some(at) = stage {
                    self.cx.analysis.commands[at].piped = Some(before);
                }
                self.feed(start, &sources);
            }

            first = false;
            before = stage;
            sources = start..self.cx.analysis.commands.len();
            self.blanks()?;
            if self.peek() == Some(b'|') && self.peek_at(1) != Some(b'|') {
                self.bump()?;
                self.cx.feed_from(start);
                // Each stage is a subshell, in which a `cd` ends.
                let is_change = stage.is_some_and(|at| self.cx.analysis.commands[at].is("cd"));
                self.cx.has_other_changes |= is_change;
                self.cx.is_chain = self.cx.is_chain && self.cx.chain_has_begun() && !is_change;
                if self.peek() == Some(b'&') {
                    self.cx.bash_only("`|&`");
                    self.bump()?;
                }

                self.newlines()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Sets `sources`, the commands before the pipe, in the commands from `start` on that the pipe
    /// feeds, if a group stands on a side of it.
    fn feed(&mut self, start: usize, sources: &Range<usize>) {
        for command in &mut self.cx.analysis.commands[start..] {
            if command.piped == Some(None) && command.sources.is_empty() {
                command.sources = sources.clone();
            }
        }
    }

    /// Notes `time` as a construct of bash, unless the name of a program follows: other shells may
    /// run a program `time`, to which an assignment, a group or an option means something else.
    fn check_time(&mut self) {
        let begins_name = |b: u8| b.is_ascii_alphanumeric() || b"_./\\'\"$".contains(&b);
        let is_assignment = self.word_ahead().is_none_or(|word| word.contains('='));
        if !self.peek().is_some_and(begins_name) || is_assignment || self.reserved().is_some() {
            self.cx.bash_only("`time`");
        }
    }

    /// Returns the text from the cursor to the next blank or operator, quotes included, without
    /// consuming it; `None` if it is not visible ASCII, or has more than 12 bytes.
    pub(super) fn word_ahead(&mut self) -> Option<String> {
        let mut word = String::new();
        loop {
            match self.peek_at(word.len()) {
                None
                | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>') => {
                    return Some(word);
                }
                Some(b) if b.is_ascii_graphic() && word.len() < 12 => word.push(char::from(b)),
                Some(_) => return None,
            }
        }
    }

    /// Returns the reserved word at the cursor, not consumed.
    pub(super) fn reserved(&mut self) -> Option<&'static str> {
        const WORDS: [&str; 22] = [
            "!", "{", "}", "[[", "if", "then", "else", "elif", "fi", "for", "select", "while",
            "until", "do", "done", "case", "esac", "in", "function", "coproc", "time", "]]",
        ];
        let word = self.word_ahead()?;
        WORDS.into_iter().find(|reserved| *reserved == word)
    }

    /// One command of any kind.
    fn command(&mut self) -> Parse<Stage> {
        self.blanks()?;
        let first = self.cx.analysis.commands.len();
        if self.compound()? {
            self.redirections_after_compound(first)?;
            return Ok(None);
        }

        match self.reserved() {
            Some("function") => {
                self.cx.bash_only("`function`");
                self.bump_by(8)?;
                self.blanks()?;
                let Some(name) = self.word()?.and_then(|word| word.literal()) else {
                    return self.cx.stop("a function without a name");
                };

                self.blanks()?;
                let start = self.pos;
                if self.take("(")? {
                    self.blanks()?;
                    if !self.take(")")? {
                        // The body is a subshell.
                        self.pos = start;
                    }
                }

                self.function(name)?;
                Ok(None)
            }
            Some("coproc") => {
                self.cx.bash_only("`coproc`");
                self.bump_by(6)?;
                self.coproc()
            }
            Some("!" | "in" | "]]" | "time") | None => self.simple(),
            Some("[[") => {
                let stage = self.simple()?;
                if let Some(at) = stage {
                    // There is no such program, but its redirections open their files.
                    self.cx.analysis.commands[at].argv.clear();
                }
                Ok(stage)
            }
            Some(_) => self.cx.stop("a reserved word out of place"),
        }
    }

    /// Parses the body of the function `name`, with the redirections behind it.
    pub(super) fn function(&mut self, name: String) -> Parse<()> {
        if !is_name(&name) {
            self.cx.bash_only("a function's name");
        }

        if is_program(&name) || SHELLS.contains(&&*name) {
            // Commands of this name do something else than what is known of them.
            self.cx.note(Reason::Builtin(name.clone()));
        }

        self.cx.analysis.functions.push(name);
        // It may be called behind the loops, and in others.
        self.cx.loops.change_all();
        self.newlines()?;
        // Whoever calls it decides what its parameters are.
        self.cx.analysis.sets_any = true;
        let piped = std::mem::replace(&mut self.cx.piped, 1);
        let first = self.cx.analysis.commands.len();
        let is_body = self.compound()?;
        if !is_body {
            return self.cx.stop("a function without a body");
        }
        self.redirections_after_compound(first)?;
        self.cx.piped = piped;
        Ok(())
    }

    fn coproc(&mut self) -> Parse<Stage> {
        self.cx.enter()?;
        self.blanks()?;
        let start = self.pos;
        if self.reserved().is_none() && self.peek() != Some(b'(') {
            // A name only stands before a compound command.
            let name: Option<Word> = self.word()?;
            self.blanks()?;
            let named = matches!(
                self.reserved(),
                Some("{" | "[[" | "if" | "for" | "select" | "while" | "until" | "case")
            ) || self.peek() == Some(b'(');
            match name.and_then(|name| name.plain()) {
                Some(name) if named => self.cx.assign(&name, None, false),
                _ => self.pos = start,
            }
        }

        let stage = self.command()?;
        self.cx.leave();
        Ok(stage)
    }

    /// Parses a whole text. If another shell than bash may run it and finds other commands in it,
    /// those only may run.
    pub(super) fn read(cx: &mut Context, text: &str) {
        let (depth, piped) = (cx.depth, cx.piped);
        cx.has_other_reading = false;
        // A parser that stops has noted why.
        let _noted = Parser::new(text, cx).script();
        if let Some(what) = unusual(text) {
            let reason = Reason::Unusual(what);
            if !cx.is_guessing {
                cx.analysis.unusual.get_or_insert(reason.clone());
            }
            cx.note(reason);
        }
        if !cx.has_other_reading || cx.work > MAX_WORK {
            return;
        }
        (cx.depth, cx.piped) = (depth, piped);
        cx.is_posix = true;
        cx.examine_evaluation(|cx| {
            let _noted = Parser::new(text, cx).script();
        });
        cx.is_posix = false;
    }

    /// Parses `text` as a script found behind `via`. Its errors are noted, they do not stop the
    /// outer parser: what it runs may be incomplete, and that is noted too.
    pub(super) fn nested(cx: &mut Context, text: &str, via: Vec<String>, piped: bool) {
        if cx.enter().is_err() {
            return;
        }
        let depth = cx.depth;
        let outer_via = std::mem::replace(&mut cx.via, via);
        let outer_piped = std::mem::replace(&mut cx.piped, usize::from(piped));
        Parser::read(cx, text);
        cx.via = outer_via;
        cx.piped = outer_piped;
        cx.depth = depth;
        cx.leave();
    }
}
