//! Redirections and here-documents.

use std::ops::Range;
use std::sync::Arc;

use super::analysis::{Reason, SimpleCommand, Use};
use super::context::Parse;
use super::files::{is_ignore_list, shows_plain_names};
use super::inputs;
use super::lexer::Group;
use super::parser::Parser;
use super::word::{Part, Word};

/// A here-document whose body begins after the next newline.
#[derive(Debug)]
pub(super) struct Pending {
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
    /// True if it is the standard input.
    is_standard: bool,
    /// The command it is the input of.
    pub(super) command: Option<usize>,
    /// The commands of the group that it is the input of.
    group: Range<usize>,
}

impl Parser<'_> {
    /// Reads the redirections after a compound command, and gives the input to its commands, which
    /// begin at index `first`.
    pub(super) fn redirections_after_compound(&mut self, first: usize) -> Parse<()> {
        let first_document = self.heredocs.len();
        // It has the redirections of the group, and is no command of the analysis.
        let mut group = SimpleCommand::default();
        loop {
            self.blanks()?;
            if !self.redirection(&mut group)? {
                break;
            }
        }

        let commands = &self.cx.analysis.commands[first..];
        let mut targets = group.redirections.iter();
        let writes_list = targets.any(|at| is_ignore_list(&self.cx.analysis.redirections[*at].1));
        // `shows_plain_names` ignores what git prints, which is written into the list here.
        let is_plain = |command: &SimpleCommand| !command.is("git") && shows_plain_names(command);
        self.cx.shows_hidden |= writes_list && !commands.iter().all(is_plain);

        let end = self.cx.analysis.commands.len();
        for document in self.heredocs.iter_mut().skip(first_document) {
            document.group = first..end;
            if document.is_standard {
                group.input = Some(Word::unknown());
            }
        }

        if end > first + 1
            && let Some(text) = group.input.take()
        {
            // Each command reads the part of the text that the commands before it have left.
            self.cx.keep_text(&text);
            group.input = Some(Word::unknown());
            group.shared_input = Some(Arc::new(text));
        }

        for command in &mut self.cx.analysis.commands[first..] {
            if group.piped.is_some() {
                command.piped.get_or_insert(None);
            }
            if command.input.is_none() || command.is_other_input && group.input.is_some() {
                command.input.clone_from(&group.input);
                command.input_file.clone_from(&group.input_file);
                command.shared_input.clone_from(&group.shared_input);
                command.is_other_input = group.is_other_input;
            }
        }
        Ok(())
    }

    /// Skips the number or `{name}` before the operator of a redirection, if there is one. Returns
    /// `true` if only bash accepts it, and `None` for another word in braces.
    fn descriptor(&mut self) -> Parse<Option<bool>> {
        if self.peek() != Some(b'{') {
            let mut digit_count = 0;
            while self.peek().is_some_and(|b| b.is_ascii_digit()) {
                digit_count += 1;
                self.bump()?;
            }
            return Ok(Some(digit_count > 1));
        }

        self.bump()?;
        let name = self.name()?;
        if name.is_empty()
            || self.peek() != Some(b'}')
            || !matches!(self.peek_at(1), Some(b'<' | b'>'))
        {
            return Ok(None);
        }

        self.bump()?;
        self.cx.assign(&name, Some(&Word::from_text("10")), false);
        Ok(Some(true))
    }

    /// Parses a redirection of `command`. Returns `false` if none begins at the cursor.
    pub(super) fn redirection(&mut self, command: &mut SimpleCommand) -> Parse<bool> {
        let start = self.pos;
        let Some(is_bash_only) = self.descriptor()? else {
            self.pos = start;
            return Ok(false);
        };

        let is_operator = match self.peek() {
            Some(b'<' | b'>') => self.pos != start || self.peek_at(1) != Some(b'('),
            Some(b'&') => self.pos == start && self.peek_at(1) == Some(b'>'),
            _ => false,
        };

        if !is_operator {
            self.pos = start;
            return Ok(false);
        }

        let number = self.src[start..self.pos].to_owned();
        if is_bash_only {
            self.cx
                .bash_only("a redirection of a file that is named or above 9");
        }

        const OPERATORS: [&str; 12] = [
            "<<<", "<<-", "<<", "<&", "<>", "<", "&>>", "&>", ">>", ">&", ">|", ">",
        ];
        let mut operator = "";
        for candidate in OPERATORS {
            if self.take(candidate)? {
                operator = candidate;
                break;
            }
        }

        if matches!(operator, "<<<" | "&>" | "&>>") {
            self.cx.bash_only("`<<<` or `&>`");
        }

        self.blanks()?;
        let is_standard = number.iter().all(|byte| *byte == b'0');
        if matches!(operator, "<<" | "<<-") {
            self.here_document(operator == "<<-", is_standard)?;
            return Ok(true);
        }

        let count = self.cx.analysis.paths.len();
        let is_input = operator.starts_with('<');
        if is_input {
            self.input(operator, is_standard, command)?;
        } else {
            self.targets(operator, command)?;
        }
        // By another name, such as `/dev/stdout` after `1< file`, the file is opened once more, to
        // be read or to be written.
        if is_input && matches!(&number[..], b"1" | b"2") || !is_input && number == b"0" {
            let paths = self.cx.analysis.paths.iter().skip(count);
            let words: Vec<Word> = paths.map(|(_, word)| word.clone()).collect();
            for word in words {
                self.cx.add_path(Use::Read, word.clone());
                self.cx.add_path(Use::Target, word);
            }
        }
        Ok(true)
    }

    /// Parses the word behind the operator of an input. The last standard input counts, and a text
    /// on another descriptor only without one.
    fn input(
        &mut self,
        operator: &str,
        is_standard: bool,
        command: &mut SimpleCommand,
    ) -> Parse<()> {
        let former_input = (command.input.clone(), command.input_file.clone());
        let has_standard_input = former_input.0.is_some() && !command.is_other_input;
        self.targets(operator, command)?;
        if !is_standard && has_standard_input {
            (command.input, command.input_file) = former_input;
            self.cx.hide_script();
            return Ok(());
        }

        command.is_other_input = !is_standard;
        if is_standard {
            // Nobody reads the documents before it.
            let documents = self.heredocs.iter_mut().rev();
            let is_own =
                |document: &&mut Pending| document.command.is_none() && document.group.is_empty();
            documents
                .take_while(is_own)
                .for_each(|document| document.is_standard = false);
        }
        Ok(())
    }

    /// Parses the word behind the operator of a redirection, of which braces make several words.
    fn targets(&mut self, operator: &str, command: &mut SimpleCommand) -> Parse<()> {
        // A here-string keeps its braces.
        let targets: Vec<Word> = match operator {
            "<<<" => self.word()?.into_iter().collect(),
            _ => self.expanded_words(Group::End)?,
        };
        if targets.is_empty() {
            return self.cx.stop("a redirection without a target");
        }

        // Several targets are an error, except if all but one expand to nothing.
        let has_choice = targets.len() > 1;
        let opens_file = !matches!(operator, "<<<" | "<&" | ">&");
        for target in targets.into_iter().filter(|word| !word.parts.is_empty()) {
            // `-` is a file here, not the output as for an option.
            let is_dash = opens_file && target.is("-");
            let target = if is_dash {
                Word::from_text("./-")
            } else {
                target
            };
            let count = self.cx.analysis.paths.len();
            self.add_target(operator, target.clone(), command);
            // `2>&1` names no file.
            if self.cx.analysis.paths.len() > count {
                let redirections = &mut self.cx.analysis.redirections;
                command.redirections.push(redirections.len());
                redirections.push((None, target));
            }
        }
        if has_choice && operator.starts_with('<') {
            command.input_file = Some(Word::unknown());
        }
        Ok(())
    }

    /// Notes the file, the connection or the text that a redirection names.
    fn add_target(&mut self, operator: &str, target: Word, command: &mut SimpleCommand) {
        let text = target.literal();
        if operator == "<<<" {
            command.input = Some(target);
            return;
        }

        if matches!(operator, "<&" | ">&")
            && let Some(text) = &text
            && !text.is_empty()
            && text
                .strip_suffix('-')
                .unwrap_or(text)
                .bytes()
                .all(|b| b.is_ascii_digit())
        {
            if operator == "<&" {
                command.input = Some(Word::unknown());
            }
            return;
        }

        if matches!(operator, "<&" | ">&") {
            self.cx.bash_only("`>&` and a file");
        }

        let target_text = target.to_string();
        let connects = |word: &Word| {
            let path = super::super::paths::lexical(&word.to_string());
            path.starts_with("/dev/tcp") || path.starts_with("/dev/udp")
        };
        let guesses = self.cx.guesses(&target);
        if guesses.iter().chain([&target]).any(connects) || self.may_connect(&target) {
            self.cx.note(Reason::Network(target_text));
            return;
        }

        if target.literal_prefix().starts_with("/dev/") && text.is_none() {
            if target.literal_prefix() == "/dev/fd/" {
                // `> >(command)`: the command is in the list. `< <(command)` is a pipe.
                if operator == "<" {
                    command.piped = Some(inputs::output_in(&target));
                    command.input = None;
                    command.input_file = None;
                }
                return;
            }

            self.cx.note(Reason::Network(target_text));
        }

        if operator.starts_with('<') {
            self.cx.add_path(Use::Read, target.clone());
            // The number of a descriptor is no file.
            if operator != "<&" {
                command.input_file = Some(target.clone());
            }
            command.input = Some(Word::unknown());
            if operator == "<>" {
                self.cx.add_path(Use::Write, target);
            }
        } else {
            self.cx.add_path(Use::Write, target);
        }
    }

    /// Returns `true` for `"$d/host/80"` with a variable that may be `/dev/tcp`, or begin so.
    fn may_connect(&self, target: &Word) -> bool {
        let is_value = |part: &Part| matches!(part, Part::Value { .. }) && !part.is_folder();
        let is_unknown = target.parts.first().is_some_and(is_value);
        let text = target.to_string();
        let is_number = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
        let has_port = text
            .rsplit_once('/')
            .is_some_and(|(_, port)| is_number(port));
        is_unknown && (has_port || text.contains("tcp/") || text.contains("udp/"))
    }

    /// Parses the delimiter of a here-document, whose body is read later.
    fn here_document(&mut self, strip_tabs: bool, is_standard: bool) -> Parse<()> {
        let Some(word) = self.word()? else {
            return self.cx.stop("a here-document without a delimiter");
        };

        let mut delimiter = String::new();
        let mut quoted = false;
        for part in &word.parts {
            match part {
                Part::Text { text, quoted: q } => {
                    delimiter.push_str(text);
                    quoted |= q;
                }
                _ => return self.cx.stop("a here-document's delimiter"),
            }
        }

        if delimiter.contains('\n') {
            return self.cx.stop("a here-document's delimiter");
        }

        self.heredocs.push(Pending {
            delimiter,
            quoted,
            strip_tabs,
            is_standard,
            command: None,
            group: 0..0,
        });

        Ok(())
    }

    /// Reads the bodies that begin here.
    pub(super) fn here_documents(&mut self) -> Parse<()> {
        let documents = std::mem::take(&mut self.heredocs);
        for (index, pending) in documents.iter().enumerate() {
            let body = self.here_body(pending)?;
            let word = if pending.quoted {
                Word::from_text(body)
            } else {
                self.expandable(&body)?
            };

            match pending.command {
                Some(at) => {
                    // `exec` gives it to a later `read`.
                    if self.cx.analysis.commands[at].is("exec") {
                        self.cx.keep_text(&word);
                    }
                    let command = &mut self.cx.analysis.commands[at];
                    if pending.is_standard {
                        // Its own text, not the one of a group.
                        command.shared_input = None;
                        command.input = Some(word);
                        command.is_other_input = false;
                    } else if command.input.is_none() || command.is_other_input {
                        command.input = Some(word);
                        command.is_other_input = true;
                    } else {
                        self.cx.keep_text(&word);
                        self.cx.hide_script();
                    }
                }
                None => {
                    // `read` in a loop may take it.
                    self.cx.keep_text(&word);
                    // The last one of the group is its input.
                    let later = documents[index + 1..].iter();
                    let mut later = later.take_while(|next| next.group == pending.group);
                    if !pending.is_standard {
                        self.cx.hide_script();
                    } else if !later.any(|next| next.is_standard) {
                        self.share_input(pending.group.clone(), word);
                    }
                }
            }
        }

        Ok(())
    }

    /// Makes the text of a document the shared input of the commands of a group whose input is not
    /// known.
    fn share_input(&mut self, group: Range<usize>, text: Word) {
        let text = Arc::new(text);
        let unknown = Some(Word::unknown());
        for command in &mut self.cx.analysis.commands[group] {
            if command.input == unknown {
                command.shared_input = Some(text.clone());
            }
        }
    }

    fn here_body(&mut self, pending: &Pending) -> Parse<String> {
        let mut body = String::new();
        loop {
            if self.pos >= self.src.len() {
                // The shell warns and takes what there is.
                self.cx
                    .note(Reason::Syntax("a here-document without its end"));
                return Ok(body);
            }

            let mut line = self.line()?;
            while !pending.quoted && joins(&line) && self.pos < self.src.len() {
                line.pop();
                line.push_str(&self.line()?);
            }

            let text = if pending.strip_tabs {
                line.trim_start_matches('\t')
            } else {
                &line
            };

            if text == pending.delimiter {
                return Ok(body);
            }
            // In a substitution, bash ends it at a line that begins so and has the parenthesis.
            let after = text.strip_prefix(&*pending.delimiter);
            if self.cx.depth > 0 && after.is_some_and(|after| after.contains(')')) {
                return self
                    .cx
                    .stop("a parenthesis behind the end of a here-document");
            }

            body.push_str(text);
            body.push('\n');
        }
    }

    /// Returns the rest of the line; the cursor is after its newline.
    fn line(&mut self) -> Parse<String> {
        let start = self.pos;
        while self.src.get(self.pos).is_some_and(|&b| b != b'\n') {
            self.bump()?;
        }
        let line = String::from_utf8_lossy(&self.src[start..self.pos]).into_owned();
        if self.pos < self.src.len() {
            self.bump()?;
        }
        Ok(line)
    }

    /// Returns the text of an unquoted here-document, its substitutions parsed.
    fn expandable(&mut self, body: &str) -> Parse<Word> {
        self.cx.enter()?;
        let mut inner = Parser::new(body, self.cx);
        let word = inner.text_until(None)?;
        self.cx.leave();
        Ok(word)
    }
}

/// Returns `true` if the line ends in a backslash that is not escaped itself.
fn joins(line: &str) -> bool {
    line.bytes().rev().take_while(|&b| b == b'\\').count() % 2 == 1
}
