//! Simple commands: assignments, words, redirections.

use crate::permission::programs::{Program, model, wraps};

use super::analysis::{Reason, SimpleCommand};
use super::compound::is_name;
use super::context::Parse;
use super::lexer::Group;
use super::parser::{Parser, Stage};
use super::shells::SHELLS;
use super::word::Word;

/// Builtins whose arguments are assignments, arrays included.
const DECLARES: [&str; 5] = ["declare", "typeset", "local", "export", "readonly"];

/// The name of a variable and its value, if that is known.
type Assignment = (String, Option<Word>);

/// Returns `true` if programs see the variables that are declared so.
pub(super) fn exports(argv: &[Word]) -> bool {
    let flags = |word: &Word| {
        let prefix = word.literal_prefix();
        prefix.starts_with('-') && prefix.contains('x')
    };
    argv[0].literal().is_none_or(|name| name == "export") || argv.iter().any(flags)
}

/// Returns `true` if the value of a declaration may be the text of an array.
fn is_array(value: &Word, argv: &[Word]) -> bool {
    let is_option = |word: &Word| {
        let prefix = word.literal_prefix();
        prefix.starts_with('-') && prefix.contains(['a', 'A'])
    };
    let prefix = value.literal_prefix();
    prefix.starts_with('(') || prefix.is_empty() && value.is_dynamic() && argv.iter().any(is_option)
}

/// Returns `true` if a text begins with a bracket, and a blank or a mark that ends a word is before
/// the bracket that closes it.
fn has_blank_in_subscript(text: &[u8]) -> bool {
    let is_end = |byte: &&u8| b" \t\n;&|()<>]".contains(*byte);
    let end = text.iter().take(512).find(is_end);
    text.first() == Some(&b'[') && end.is_some_and(|byte| *byte != b']')
}

impl Parser<'_> {
    /// A simple command, or a function definition that looks like one at first.
    pub(super) fn simple(&mut self) -> Parse<Stage> {
        let mut command = SimpleCommand {
            via: self.cx.via.clone(),
            repeats: self.cx.repeats,
            ..SimpleCommand::default()
        };

        let first_document = self.heredocs.len();
        let mut assigned = Vec::new();
        let mut any = false;
        loop {
            self.blanks()?;
            if self.redirection(&mut command)? {
                any = true;
                continue;
            }

            if self.assignment_of(&mut command, &mut assigned)? {
                any = true;
                continue;
            }

            if command.argv.is_empty() && self.reserved() == Some("time") && !any {
                break;
            }

            let first = command.argv.is_empty();
            // A name of a function may end so, and `!(` begins a negated subshell.
            let group = if first { Group::End } else { Group::Name };
            let default_count = self.cx.defaults.len();
            let words = self.expanded_words(group)?;
            let defaults = self.cx.defaults.split_off(default_count);
            if !defaults.is_empty() && (first || self.starts_words(&command)) {
                self.run_defaults(defaults);
            }
            if words.is_empty() {
                break;
            }

            command.argv.extend(words);
            any = true;
            if first && self.function_follows()? {
                return self.defined(&command);
            }
        }

        if !any {
            return self.cx.stop("a command is missing");
        }

        self.assign_all(&command, assigned);
        if self.cx.piped > 0 {
            command.piped.get_or_insert(None);
        }

        let is_exec = command.program().is_some_and(|name| name == "exec");
        if is_exec && command.argv.len() == 1 {
            let has_document = self.heredocs.len() > first_document;
            let document = has_document.then(Word::unknown);
            let input = command.input.clone().filter(|_| !command.is_other_input);
            let pipe = command.piped.is_some().then(Word::unknown);
            self.cx.input = input.or(document).or(pipe).or(self.cx.input.take());
        }

        let at = self.cx.add(command)?;
        for document in self.heredocs.iter_mut().skip(first_document) {
            document.command = Some(at);
        }
        Ok(Some(at))
    }

    /// An assignment at the cursor, before a program or after a builtin that declares; `false` if
    /// there is none.
    fn assignment_of(
        &mut self,
        command: &mut SimpleCommand,
        assigned: &mut Vec<Assignment>,
    ) -> Parse<bool> {
        // Behind a quoted name, or a path, the words are ordinary ones: their values are split.
        let program = command.argv.first().and_then(Word::plain);
        let declares = program.is_some_and(|name| DECLARES.contains(&name.as_str()));
        if !command.argv.is_empty() && !declares {
            return Ok(false);
        }
        let start = self.pos;

        let default_count = self.cx.defaults.len();
        let Some((name, value)) = self.assignment()? else {
            return Ok(false);
        };
        for text in self.cx.defaults.split_off(default_count) {
            self.cx.add_possible_value(&name, text);
        }
        let subscript = self.src[start..self.pos].strip_prefix(name.as_bytes());
        if declares && subscript.is_some_and(has_blank_in_subscript) {
            // Bash reads it as several words here.
            self.cx.leave_out(Reason::Syntax("a blank in a subscript"));
        }

        if !declares {
            command.assignments.push(name.clone());
            assigned.push((name, value));
            return Ok(true);
        }

        if value.as_ref().is_some_and(Word::may_split) {
            self.cx.bash_only("an unquoted value of a declaration");
        }

        if value
            .as_ref()
            .is_some_and(|value| is_array(value, &command.argv))
        {
            // The text of an array is expanded again.
            let builtin = command.program().unwrap_or_default();
            self.cx.note(Reason::Builtin(builtin));
        }

        let exported = exports(&command.argv);
        self.cx.assign(&name, value.as_ref(), exported);
        Ok(true)
    }

    /// Notes the assignments before a command, or without one.
    fn assign_all(&mut self, command: &SimpleCommand, assigned: Vec<Assignment>) {
        let exported = !command.argv.is_empty();
        let reads = command.program().is_some_and(|name| name == "read");
        let sets_folders = self.cx.sets_folders;
        for (name, value) in assigned {
            // For `read`, it splits this one line.
            if !reads || name != "IFS" {
                self.cx.assign(&name, value.as_ref(), exported);
            }
        }
        if exported && !self.reads_scripts(command) {
            // Its words are expanded before the variables are set.
            self.cx.sets_folders = sets_folders;
        }
    }

    /// Returns `true` if the shell, or another one, may read a script for this command.
    fn reads_scripts(&self, command: &SimpleCommand) -> bool {
        let Some(name) = command.program() else {
            return true;
        };
        let runs = |row: &Program| row.takes_any(&["command", "find"]) || row.runs_code();
        self.cx.analysis.functions.contains(&name)
            || model(&name, &command.argv).program.is_none_or(runs)
    }

    /// Examines the default values of a word, which may be a program and its words.
    fn run_defaults(&mut self, defaults: Vec<String>) {
        self.cx.guessing(|cx| {
            for text in defaults {
                cx.run_later("${..}", text);
            }
        });
    }

    /// Returns `true` if the command may start a program that a later word of it names.
    fn starts_words(&self, command: &SimpleCommand) -> bool {
        const STARTERS: [&str; 12] = [
            "command", "eval", "exec", "find", "parallel", "runuser", "script", "sg", "su", "trap",
            "watch", "xargs",
        ];
        command.program().is_none_or(|name| {
            wraps(&name)
                || STARTERS.contains(&&*name)
                || SHELLS.contains(&&*name)
                || self.cx.analysis.functions.contains(&name)
        })
    }

    fn function_follows(&mut self) -> Parse<bool> {
        let start = self.pos;
        self.blanks()?;
        if self.take("(")? {
            self.blanks()?;
            if self.take(")")? {
                return Ok(true);
            }
            return self.cx.stop("a parenthesis out of place");
        }
        self.pos = start;
        Ok(false)
    }

    fn defined(&mut self, command: &SimpleCommand) -> Parse<Stage> {
        let name = match command.argv.as_slice() {
            [word] if command.assignments.is_empty() => word.literal(),
            _ => None,
        };
        let Some(name) = name else {
            return self.cx.stop("a function's name");
        };
        self.function(name)?;
        Ok(None)
    }

    /// `name=value`, `name+=value`, `name[..]=value`, `name=(..)` at the cursor.
    fn assignment(&mut self) -> Parse<Option<Assignment>> {
        let start = self.pos;
        let name = self.name()?;
        if !is_name(&name) {
            self.pos = start;
            return Ok(None);
        }

        let mut element = false;
        if self.peek() == Some(b'[') {
            // Only an assignment if `]=` follows; else it is a pattern such as `a[bc]`.
            if !self.subscript_assigns() || !self.cx.reads_as_bash("an array") {
                self.pos = start;
                return Ok(None);
            }

            self.bump()?;
            if !self.arithmetic(b']', 1)? {
                return self.cx.stop("a subscript");
            }

            element = true;
        }

        let appends = self.take("+=")?;
        if !appends && !self.take("=")? {
            self.pos = start;
            return Ok(None);
        }

        if appends {
            self.cx.bash_only("`+=`");
        }

        if self.peek() == Some(b'(') {
            self.cx.bash_only("an array");
            self.bump()?;
            self.array(&name)?;
            // The shell takes what follows for a part of the word, also a `#`.
            let next = self.peek();
            if next.is_some_and(|b| !b" \t\n;&|)<>".contains(&b)) {
                self.cx.note(Reason::Syntax("text joined to an array"));
                self.word()?;
            }
            return Ok(Some((name, None)));
        }

        let value = match self.peek() {
            Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')') | None => Some(Word::default()),
            _ => self.word()?,
        };

        let Some(value) = value else {
            return self.cx.stop("an assignment");
        };

        let is_known = !appends && !element;
        if !is_known {
            self.cx.keep_text(&value);
        }
        Ok(Some((name, is_known.then_some(value))))
    }

    fn subscript_assigns(&self) -> bool {
        let mut depth = 0_usize;
        let rest = &self.src[self.pos..];
        for (at, b) in rest.iter().enumerate().take(512) {
            match b {
                b'[' => depth += 1,
                b']' => {
                    depth -= 1;
                    if depth == 0 {
                        let after = &rest[at + 1..];
                        return after.starts_with(b"=")
                            || after.starts_with(b"+=")
                            || after.starts_with(b"\\\n");
                    }
                }
                _ => {}
            }
        }

        false
    }

    fn array(&mut self, name: &str) -> Parse<()> {
        self.cx.enter()?;
        loop {
            self.newlines()?;
            if self.take(")")? {
                self.cx.leave();
                return Ok(());
            }

            if has_blank_in_subscript(&self.src[self.pos..]) {
                // Bash reads up to the bracket that closes.
                self.cx.leave_out(Reason::Syntax("a blank in a subscript"));
            }
            if self.peek() == Some(b'[') && self.subscript_assigns() {
                self.bump()?;
                if !self.arithmetic(b']', 1)? {
                    return self.cx.stop("a subscript");
                }

                self.take("+")?;
                self.take("=")?;
                if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b')')) {
                    continue;
                }
            }

            let words = self.expanded_words(Group::Name)?;
            if words.is_empty() {
                return self.cx.stop("an array");
            }

            for word in &words {
                self.cx.assign(name, Some(word), false);
            }
        }
    }
}
