//! The findings and limits that the parsers of nested texts share.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::analysis::{Analysis, Files, Reason, SimpleCommand, Use};
use super::environment::{
    is_harmless, is_local, is_outer, is_run, is_set_by_shell, names_files, written_files,
};
use super::evaluated::{evaluates, is_evaluated};
use super::inputs::has_output;
use super::loops::Loops;
use super::word::{LISTED, OUTER, Part, Word};
use crate::backend::Shell;

/// The maximum length of a command, in bytes; longer ones are not analyzed.
pub(crate) const MAX_LENGTH: usize = 64 * 1024;
/// The maximum nesting depth of substitutions, groups and scripts in words.
pub(super) const MAX_DEPTH: usize = 40;
/// The maximum number of characters examined; characters of nested scripts count each time.
pub(super) const MAX_WORK: usize = 16 * MAX_LENGTH;
/// The maximum number of simple commands of one analysis.
pub(super) const MAX_COMMANDS: usize = 8 * 1024;
/// The maximum number of words of all wrapped commands together.
pub(super) const MAX_WORDS: usize = 64 * 1024;
/// The maximum number of paths whose use is known.
const MAX_PATHS: usize = 32 * 1024;
/// The maximum number of words that a word with variables is examined as.
pub(super) const MAX_GUESSES: usize = 16;

/// The end of parsing. The reason is among the findings, unless the command is read again.
#[derive(Debug)]
pub(super) struct Stop;

pub(super) type Parse<T> = Result<T, Stop>;

/// A text that a program runs because of a variable or an option.
#[derive(Debug)]
pub(super) struct DeferredScript {
    /// The name of the variable or option.
    pub(super) source: String,
    pub(super) text: String,
    /// True if it may not run.
    pub(super) is_guess: bool,
}

/// The findings of an analysis, its counts of work, and the state of the script being parsed.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) analysis: Analysis,
    /// The shell that runs the script being parsed.
    pub(super) shell: Shell,
    /// True while a script is read as by a shell without the syntax of bash.
    pub(super) is_posix: bool,
    /// True if such a shell, which may run the script being parsed, finds other commands in it.
    pub(super) has_other_reading: bool,
    /// True while a script that zsh runs is parsed: patterns in it may run code.
    pub(super) is_zsh: bool,
    pub(super) work: usize,
    pub(super) words: usize,
    pub(super) depth: usize,
    /// The work for texts that were made of words and of what commands print, in characters.
    pub(super) text_work: Cell<usize>,
    /// No further command is taken.
    pub(super) is_full: bool,
    /// True while commands are added that only may run, of which nothing has to be understood.
    pub(super) is_guessing: bool,
    /// The wrappers of the script being parsed.
    pub(super) via: Vec<String>,
    /// True while the first command that does more than make a folder runs in the shell itself, and
    /// each other one only after all before it have succeeded.
    pub(super) is_chain: bool,
    /// True if a change of folder is in a group or a pipe, or only may run.
    pub(super) has_other_changes: bool,
    /// True in what the shell itself may run several times, but is read once.
    pub(super) repeats: bool,
    /// The input that the shell was given by `exec`.
    pub(super) input: Option<Word>,
    /// The number of pipes that feed the script being parsed.
    pub(super) piped: usize,
    /// The loops around the cursor.
    pub(super) loops: Loops,
    /// Values that variables may hold, without those that are only known when the shell runs.
    pub(super) constants: BTreeMap<String, Vec<Word>>,
    /// Scripts that are examined after the commands that name them.
    pub(super) later: Vec<DeferredScript>,
    /// Variables and their values, which are harmless if the script does not set the variables in
    /// these values.
    pub(super) values: Vec<(String, Word)>,
    /// Variables that may hold something else than a number.
    pub(super) texts: BTreeSet<String>,
    /// Variables that arithmetic looks at.
    pub(super) numbers: BTreeSet<String>,
    /// Programs whose output is known in part.
    pub(super) printers: BTreeSet<String>,
    /// The indices of commands that print a text of the script.
    pub(super) printers_of_text: Vec<usize>,
    /// Those of them before a pipe or in `<(..)`.
    pub(super) feeding_printers: BTreeSet<usize>,
    /// True if an earlier reading found that the command sets variables that `~` is replaced by.
    pub(super) has_own_home: bool,
    /// True if the script sets `HOME`, `PWD`, `OLDPWD` or `DIRSTACK`, other than for one program.
    pub(super) sets_folders: bool,
    /// Files that variables may make programs write.
    pub(super) possible_files: Vec<Word>,
    /// True if the text of the command has the name of the setting `extglob`.
    pub(super) has_extglob: bool,
    /// True if the command makes a script that is only known when the shell runs it.
    pub(super) hides_script: bool,
    /// The default values in the expansions of the word being parsed.
    pub(super) defaults: Vec<String>,
    /// Texts with substitutions, which run if the shell evaluates the texts.
    pub(super) kept_texts: BTreeSet<String>,
    /// Those of them that were examined.
    pub(super) examined_texts: BTreeSet<String>,
    /// The number of commands whose words were searched for such texts.
    pub(super) searched_commands: usize,
    /// True if a construct of the script may evaluate a text that is not written as code.
    pub(super) evaluates: bool,
    /// True if a command gives a program another name.
    pub(super) has_alias: bool,
    /// True if the shell may replace the aliases of the script.
    pub(super) expands_aliases: bool,
    /// True if the name of a program may start another one.
    pub(super) renames: bool,
    /// True if a search may read hidden files because of a list that the command writes.
    pub(super) shows_hidden: bool,
}

impl Context {
    /// Records a reason. Of a command that only may run, only limits are recorded; of more than
    /// 64 reasons, the first of each weight.
    pub(super) fn note(&mut self, reason: Reason) {
        self.evaluates |= evaluates(&reason);
        if self.is_guessing && !matches!(reason, Reason::Limit(_)) {
            return;
        }
        let reasons = &mut self.analysis.opaque;
        let is_first = reasons
            .iter()
            .all(|known| known.weight() != reason.weight());
        if (is_first || reasons.len() < 64) && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    /// Notes the use of a path, unless there are too many.
    pub(super) fn add_path(&mut self, path_use: Use, word: Word) {
        if self.has_room_for_path() {
            self.analysis.paths.push((path_use, word));
        }
    }

    /// Adds what only may run, of which nothing has to be understood.
    pub(super) fn guessing(&mut self, add: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.is_guessing, true);
        add(self);
        self.is_guessing = outer;
    }

    /// Counts characters of a text that is made. Returns `false` if there are too many, which is
    /// noted at the end of the analysis.
    pub(super) fn spend_text_work(&self, len: usize) -> bool {
        let work = self.text_work.get().saturating_add(len);
        self.text_work.set(work);
        work <= MAX_WORK
    }

    /// Returns `false`, and notes it, if the analysis has as many paths as are compared.
    pub(super) fn has_room_for_path(&mut self) -> bool {
        let has_room = self.analysis.paths.len() < MAX_PATHS;
        if !has_room {
            self.leave_out(Reason::Limit("number of paths"));
        }
        has_room
    }

    /// Notes that the command at `index` is given program text, which may name any file.
    pub(super) fn inline_code(&mut self, index: usize, name: &str) {
        self.note(Reason::InlineCode(name.to_owned()));
        let command = &mut self.analysis.commands[index];
        command.is_code = true;
        command.files = Files::Changed;
    }

    /// Notes a construct that other shells than bash read differently, unless bash runs the script.
    pub(super) fn bash_only(&mut self, what: &'static str) {
        if self.shell != Shell::Bash {
            self.note(Reason::BashOnly(what));
        }
    }

    /// Notes a construct of bash in which other shells find commands. Returns `false` while the
    /// script is read as by such a shell.
    pub(super) fn reads_as_bash(&mut self, what: &'static str) -> bool {
        self.bash_only(what);
        self.has_other_reading |= self.shell != Shell::Bash;
        !self.is_posix
    }

    pub(super) fn stop<T>(&mut self, why: &'static str) -> Parse<T> {
        self.leave_out(Reason::Syntax(why));
        Err(Stop)
    }

    pub(super) fn limit<T>(&mut self, what: &'static str) -> Parse<T> {
        self.leave_out(Reason::Limit(what));
        Err(Stop)
    }

    /// Notes that a part of the command is not examined. It counts as unread if it is sure to run,
    /// or if no further command is taken: then nothing behind it is examined either.
    pub(super) fn leave_out(&mut self, reason: Reason) {
        if !self.is_guessing || self.is_full {
            self.analysis.unread.get_or_insert(reason.clone());
        }
        self.note(reason);
    }

    /// Examines a text that may be no command of a shell: what is left out of it does not count.
    pub(super) fn examine_text(&mut self, examine: impl FnOnce(&mut Self)) {
        let unread = self.analysis.unread.clone();
        examine(self);
        if !self.is_full {
            self.analysis.unread = unread;
        }
    }

    pub(super) fn enter(&mut self) -> Parse<()> {
        if self.depth >= MAX_DEPTH {
            return self.limit("nesting");
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Adds a command and returns its index.
    pub(super) fn add(&mut self, mut command: SimpleCommand) -> Parse<usize> {
        command.guessed |= self.is_guessing;
        // A `cd` in a group or a substitution may not apply to the commands after it.
        self.is_chain =
            self.is_chain && (self.depth == 0 || self.chain_has_begun() && !command.is("cd"));
        self.has_other_changes |= self.depth > 0 && command.is("cd");
        if command.input.is_none() {
            command.input.clone_from(&self.input);
            // Behind a pipe, the standard input is the pipe.
            command.is_other_input = command.input.is_some() && command.piped.is_some();
        }
        let words = command.argv.iter().chain(&command.input);
        let length: usize = words.map(Word::len).sum();
        self.words += command.argv.len() + length / 32;
        if self.analysis.commands.len() >= MAX_COMMANDS || self.words > MAX_WORDS {
            self.is_full = true;
            return self.limit("number of commands");
        }
        self.record_last(&command);
        for at in command.redirections.iter().filter(|_| !command.guessed) {
            self.analysis.redirections[*at].0 = Some(self.analysis.commands.len());
        }
        let mut printers = ["echo", "printf", "cat"].iter();
        if !command.guessed && printers.any(|name| command.is(name)) {
            self.printers_of_text.push(self.analysis.commands.len());
        }
        self.analysis.commands.push(command);
        Ok(self.analysis.commands.len() - 1)
    }

    /// Notes the value of `$_` after a command, unless it has variables: their values are examined
    /// later, as commands of their own.
    fn record_last(&mut self, command: &SimpleCommand) {
        self.loops.change("_");
        let word = command.argv.last().cloned().unwrap_or_default();
        let values = self.constants.entry("_".to_owned()).or_default();
        if values.contains(&word) || word.is_dynamic() && !command.guessed {
            return;
        }
        if word.is_glob() || values.len() >= MAX_GUESSES {
            self.analysis.unknown.insert("_".to_owned());
        } else {
            values.push(word);
        }
    }

    /// Returns `true` if a command stands before the cursor that does more than make a folder. The
    /// folder is only certain if the first such command is a `cd`.
    pub(super) fn chain_has_begun(&self) -> bool {
        let mut commands = self.analysis.commands.iter();
        commands.any(|command| !command.is("mkdir"))
    }

    /// Returns `true` if the script being parsed runs for another user.
    pub(super) fn has_other_home(&self) -> bool {
        const NAMES: [&str; 5] = ["sudo", "doas", "pkexec", "gosu", "su-exec"];
        self.via.iter().any(|name| NAMES.contains(&name.as_str()))
    }

    /// Notes that the shell variable `name` may get `value`. `exported` is `true` if programs see
    /// the variable.
    pub(super) fn assign(&mut self, name: &str, value: Option<&Word>, exported: bool) {
        self.loops.change(name);
        self.record(name, value, exported);
    }

    /// Notes that programs do not see the variable `name`.
    pub(super) fn unset(&mut self, name: &str) {
        self.loops.change(name);
        if !is_harmless(name, Some(&Word::default())) {
            self.note(Reason::Variable(name.to_owned()));
        }
        self.analysis.unknown.insert(name.to_owned());
    }

    /// Notes a value of a variable as `assign` does, except that it may be the word of a loop.
    pub(super) fn record(&mut self, name: &str, value: Option<&Word>, exported: bool) {
        self.record_table(name, value);
        self.sets_folders |= matches!(name, "HOME" | "PWD" | "OLDPWD" | "DIRSTACK");
        let is_harmless =
            is_harmless(name, value) && value.is_some_and(|value| self.is_foreign(value));
        if let Some(value) = value.filter(|value| is_harmless && value.is_dynamic()) {
            self.values.push((name.to_owned(), value.clone()));
        }
        if !is_harmless && (exported || !is_local(name)) {
            self.note(Reason::Variable(name.to_owned()));
        }

        if !is_harmless && (exported || names_files(name) || is_run(name)) {
            self.act_on(name, value, exported);
        }

        let text = value.and_then(Word::literal);
        // A glob becomes file names, which are no numbers.
        let is_number = text.as_ref().map_or_else(
            || value.is_some_and(Word::is_number),
            |text| text.is_empty() || text.parse::<i64>().is_ok(),
        );
        if !is_number {
            self.texts.insert(name.to_owned());
            self.evaluates |= is_evaluated(name);
        }

        let is_part_known = |part: &Part| match part {
            Part::Value { name, .. } => name.as_deref().is_some_and(is_outer) || is_listed(part),
            _ => true,
        };
        match value.filter(|value| value.parts.iter().all(is_part_known)) {
            Some(value) => {
                let is_listed = value.parts.iter().any(is_listed);
                let listed_words = self.constants.get(LISTED).filter(|_| is_listed);
                let mut words = listed_words.cloned().unwrap_or_default();
                words.push(value.clone());
                let values = self.constants.entry(name.to_owned()).or_default();
                for word in words.into_iter().take(MAX_GUESSES + 1) {
                    if values.len() > MAX_GUESSES {
                        // A word with more values is not examined as each of them.
                        self.analysis.unknown.insert(name.to_owned());
                        break;
                    }
                    if !values.contains(&word) {
                        values.push(word);
                    }
                }
            }
            None => {
                self.analysis.unknown.insert(name.to_owned());
                self.record_output(name, value);
            }
        }
    }

    /// Notes the files that programs may write, and the scripts that they may run, because of a
    /// variable. Without a new value, one that was set before is exported now.
    fn act_on(&mut self, name: &str, value: Option<&Word>, exported: bool) {
        let values = match value {
            Some(value) => [self.guesses(value), vec![value.clone()]].concat(),
            None => self.constants.get(name).cloned().unwrap_or_default(),
        };
        if !self.spend_text_work(values.iter().map(Word::len).sum()) {
            return;
        }
        for value in &values {
            let files = written_files(name, value);
            if names_files(name) {
                files
                    .into_iter()
                    .for_each(|file| self.add_path(Use::Target, file));
            } else if exported && self.possible_files.len() < MAX_PATHS {
                self.possible_files.extend(files);
            } else if exported {
                self.leave_out(Reason::Limit("number of paths"));
                return;
            }
            self.hides_script |= is_run(name) && has_output(value);
            let Some(text) = value.literal() else {
                continue;
            };
            // Git runs what stands behind a `!`.
            let script = text.strip_prefix('!').filter(|_| exported);
            if let Some(script) = script.or(is_run(name).then_some(&*text)) {
                self.run_later(name, script.to_owned());
            }
        }
    }

    /// Notes that the variable is a table of other programs for names, or that the shell replaces
    /// aliases because of it. Keeps the text of its value.
    fn record_table(&mut self, name: &str, value: Option<&Word>) {
        let is_table = |name: &str| matches!(name, "BASH_CMDS" | "BASH_ALIASES");
        self.renames |= is_table(name);
        self.expands_aliases |= name == "POSIXLY_CORRECT";
        let Some(value) = value else {
            return;
        };
        if value.literal().is_some_and(|text| is_table(&text)) {
            // By a reference, the variable is that table.
            self.renames = true;
            self.note(Reason::Variable(name.to_owned()));
        }
        self.keep_text(value);
    }

    /// Returns `true` if no part of the value is a home folder, a name of a file or a variable that
    /// the script sets.
    pub(super) fn is_foreign(&self, value: &Word) -> bool {
        let is_own = |part: &Part| match part {
            Part::Value { name, .. } => {
                let name = name.as_deref().unwrap_or(LISTED);
                name.starts_with(LISTED)
                    || matches!(name, "_" | OUTER)
                    || self.constants.contains_key(name)
            }
            part => matches!(part, Part::Home(_)),
        };
        !self.analysis.makes(value) && !value.parts.iter().any(is_own)
    }

    /// Returns `true` if a program of which the output is known in part may be another one.
    pub(super) fn is_deceived(&self) -> bool {
        let is_defined = |name: &String| self.analysis.functions.contains(name);
        !self.printers.is_empty() && (self.has_alias || self.printers.iter().any(is_defined))
    }

    /// Notes that `text` is run as a command because of `from`.
    pub(super) fn run_later(&mut self, from: &str, text: String) {
        if self.later.len() < 1024 {
            self.later.push(DeferredScript {
                source: from.to_owned(),
                text,
                is_guess: self.is_guessing,
            });
        } else {
            self.leave_out(Reason::Limit("number of commands"));
        }
    }

    /// Returns the words that a word may be when its variables hold what this script assigns.
    pub(super) fn guesses(&mut self, word: &Word) -> Vec<Word> {
        let is_assigned = |part: &Part| match part {
            Part::Value { name, .. } => name
                .as_ref()
                .is_some_and(|n| self.constants.contains_key(n)),
            _ => false,
        };
        if !word.parts.iter().any(is_assigned) {
            return Vec::new();
        }

        let mut all = vec![Word::default()];
        let mut len = 0;
        for part in &word.parts {
            let own = Word {
                parts: vec![part.clone()],
            };
            let values = match part {
                Part::Value { name, .. } => match name.as_ref().map(|n| self.constants.get(n)) {
                    Some(Some(values)) => values.as_slice(),
                    _ => std::slice::from_ref(&own),
                },
                _ => std::slice::from_ref(&own),
            };

            // A few values, each many times, would become a text without a limit.
            len += values.iter().map(Word::len).max().unwrap_or_default();
            let is_long = len > MAX_LENGTH || self.work + len > MAX_WORK;
            if all.len() * values.len() > MAX_GUESSES || is_long {
                if self.work + len > MAX_WORK {
                    self.work = MAX_WORK + 1;
                }
                self.analysis.sets_any = true;
                return Vec::new();
            }

            if let [value] = values {
                let parts = &value.parts;
                all.iter_mut()
                    .for_each(|head| head.parts.extend_from_slice(parts));
                continue;
            }
            let join = |head: &Word, tail: &Word| Word {
                parts: [&head.parts[..], &tail.parts].concat(),
            };
            all = all
                .iter()
                .flat_map(|head| values.iter().map(move |tail| join(head, tail)))
                .collect();
        }

        self.work += len * all.len();
        all
    }

    /// Returns `true` if arithmetic looks at a variable that may hold something else than a number:
    /// it runs the substitutions in that text.
    pub(super) fn has_unsafe_numbers(&self) -> bool {
        self.numbers.iter().any(|name| {
            self.analysis.sets_any || self.texts.contains(name) || is_set_by_shell(name)
        })
    }

    /// Values are harmless only if no command sets their variables.
    pub(super) fn check_values(&mut self) {
        for (name, value) in std::mem::take(&mut self.values) {
            if !self.is_foreign(&value) {
                self.note(Reason::Variable(name));
            }
        }
        if self.has_unsafe_numbers() {
            self.note(Reason::Expansion("arithmetic"));
        }
    }
}

/// Returns `true` for a value that is the names of existing files, which a program lists.
fn is_listed(part: &Part) -> bool {
    part.variable() == Some(LISTED)
}
