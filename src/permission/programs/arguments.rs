//! The words of a command, read by the row of its program.

use std::collections::BTreeSet;

use super::super::shell::{Part, Word};
use super::model::{Dash, Entry, Program};

/// The words of a command: operands, options, and words that are not known.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a> {
    pub(crate) operands: Vec<&'a Word>,
    /// The indices of the operands.
    pub(crate) operand_indices: Vec<usize>,
    /// The indices of words that are options.
    pub(crate) options: Vec<usize>,
    /// The texts of these words, without a value behind a letter.
    pub(crate) names: Vec<String>,
    /// The index of the first operand, if the words from there on are a command.
    pub(crate) command: Option<usize>,
    /// The values of options, with their kinds.
    pub(crate) values: Vec<(&'static str, Word)>,
    /// The marks of options, with the options.
    pub(crate) marks: Vec<(&'static str, String)>,
    /// The values that stand in the word of a short option.
    pub(crate) attached: Vec<Word>,
    /// Options that the row does not have.
    pub(crate) unknown: Vec<UnknownOption>,
    /// The indices of words that may be an option when the command runs.
    pub(crate) uncertain: Vec<usize>,
    /// The indices of values that are files which are only read.
    pub(crate) read: Vec<usize>,
    /// The indices of words that are patterns.
    pub(crate) patterns: Vec<usize>,
    /// The indices of words that are, or end in, the text of an option.
    pub(crate) texts: Vec<usize>,
}

/// An option that the row does not have.
#[derive(Debug)]
pub(crate) struct UnknownOption {
    pub(crate) name: String,
    /// The word that may be its value.
    pub(crate) value: Option<Word>,
    /// True if the value stands in the word of the option.
    pub(crate) is_attached: bool,
}

impl<'a> Arguments<'a> {
    /// Reads the words from index `from` on.
    pub(crate) fn read(program: &'static Program, argv: &'a [Word], from: usize) -> Self {
        let mut arguments = Self::default();
        let leading_words = program.operands.split(' ').count() - 1;
        let ends_at_script = program.takes_any(&["code", "script", "host", "awk", "run"])
            && !program.takes("anywhere");
        let leading_hosts = usize::from(program.takes("login"));
        let mut only_operands = false;
        let mut index = from;
        while let Some(word) = argv.get(index) {
            index += 1;
            let prefix = word.literal_prefix();
            if !only_operands && prefix.len() > 1 && prefix.starts_with('-') {
                if prefix == "--" && word.literal().is_some() {
                    only_operands = true;
                    continue;
                }

                arguments.options.push(index - 1);
                index += arguments.option(program, argv, index - 1, &prefix);
                only_operands |= arguments.has_program();
                continue;
            }

            if !only_operands && is_uncertain(word) {
                arguments.uncertain.push(index - 1);
                if prefix == "-" {
                    arguments.add_any_option(program, word);
                }
            }

            if let Some(count) = words_before(program, &prefix) {
                index += count;
                continue;
            }

            if program.takes("command") && arguments.operands.len() == leading_words {
                arguments.command = Some(index - 1);
                break;
            }

            if only_operands && prefix.starts_with('-') && !ends_at_script {
                // It is for what the program starts.
                arguments.names.push(format!("--{prefix}"));
            }

            // What follows a script is read by that script.
            arguments.operands.push(word);
            arguments.operand_indices.push(index - 1);
            only_operands |= ends_at_script && arguments.operands.len() > leading_hosts;
        }

        arguments
    }

    /// Reads the option at an index. Returns the number of words after it that are its values.
    fn option(
        &mut self,
        program: &'static Program,
        argv: &[Word],
        index: usize,
        prefix: &str,
    ) -> usize {
        let (word, next) = (&argv[index], argv.get(index + 1));
        let is_long = prefix.starts_with("--") || program.has_one_dash;
        let (value_count, attached_count) = (self.values.len(), self.attached.len());
        let takes_next = if is_long {
            self.long(program, word, prefix, next)
        } else {
            self.short(program, word, prefix, next)
        };
        let attached = self.attached.get(attached_count);
        let end = attached.map(Word::literal_prefix).unwrap_or_default();
        let name = prefix.strip_suffix(&*end).unwrap_or(prefix);
        self.names.push(name.to_owned());
        if takes_next && next.is_some_and(Word::may_split) {
            // The value may be several words.
            self.uncertain.push(index + 1);
        }

        // Another version of the program may have the option without a value: what looks like an
        // option is read as one as well.
        let skips_next = takes_next && !next.is_some_and(is_like_option);
        let last_value = self.values[value_count..].last();
        if skips_next && last_value.is_some_and(|(kind, _)| is_read(program, kind)) {
            self.read.push(index + 1);
        }
        if takes_next == skips_next {
            let at = index + usize::from(takes_next);
            let may_split = argv.get(at).is_some_and(Word::may_split);
            match last_value {
                Some(("pattern", _)) if !may_split => self.patterns.push(at),
                Some(("text", _)) => self.texts.push(at),
                _ => {}
            }
        }

        let takes_second = is_long && self.takes_second();
        usize::from(skips_next) * (1 + usize::from(takes_second))
    }

    /// Returns `true` if the value of an option is the program that reads the other words.
    fn has_program(&self) -> bool {
        let mut kinds = self.values.iter().map(|(kind, _)| *kind);
        kinds.any(|kind| matches!(kind, "module" | "jar"))
    }

    /// Reads a long option; returns `true` if the next word is its value.
    fn long(&mut self, program: &Program, word: &Word, prefix: &str, next: Option<&Word>) -> bool {
        let option = prefix.split('=').next().unwrap_or_default();
        let name = format!("--{}", option.trim_start_matches('-'));
        let value = word.without_prefix(&format!("{option}="));
        let exact_entry = program.option(&name);
        let Some(entry) = exact_entry.or_else(|| program.abbreviated(&name)) else {
            self.add_unknown(program, name, || value, next);
            return false;
        };

        if exact_entry.is_none() && program.dash != Dash::Harmless {
            // It may be the beginning of another option as well.
            self.add_unknown(program, name.clone(), || value.clone(), next);
        }

        if value.is_none() && word.literal().is_none() {
            self.add_unknown(program, word.to_string(), || None, next);
        }

        // `--check=false`, `--check false`; a word such as `always` is a kind of yes.
        let is_no = |text: &str| matches!(text, "" | "false" | "off" | "no" | "0");
        let text = |word: &Word| word.literal().unwrap_or_default();
        let is_off = match &value {
            Some(value) => is_no(&text(value)) || !text(value).chars().all(char::is_alphanumeric),
            None => next.is_some_and(|next| is_no(&text(next))),
        };
        if entry.value.is_none() && is_off {
            self.add_unknown(program, name.clone(), || None, None);
        }

        let takes_next = entry.value.is_some() && !entry.is_attached && value.is_none();
        self.add(&entry, name, if takes_next { next.cloned() } else { value });
        takes_next
    }

    /// Reads a word of short options; returns `true` if the next word is the value of the last one.
    fn short(&mut self, program: &Program, word: &Word, prefix: &str, next: Option<&Word>) -> bool {
        let option = prefix.split('=').next().unwrap_or_default();
        let whole_word = program.option(&format!("-{option}"));
        if whole_word.is_some_and(|entry| entry.mark == "word") {
            return false;
        }

        let mut letters = BTreeSet::new();
        for (at, letter) in prefix.char_indices().skip(1) {
            if !letters.insert(letter) {
                // A letter that is read again has no value.
                continue;
            }

            let end = at + letter.len_utf8();
            let attached = || word.without_prefix(&prefix[..end]).filter(|w| w.len() > 0);
            let name = format!("-{letter}");
            let Some(entry) = program.option(&name[1..]) else {
                if letter.is_ascii_digit() {
                    continue;
                }

                self.add_unknown(program, name, attached, next);
                if program.dash == Dash::Harmless {
                    continue;
                }

                return false;
            };

            if entry.value == Some("number") {
                let number = attached().or_else(|| next.cloned());
                if !number.is_some_and(|number| is_number(&number)) {
                    // Some versions of the program take no value for this option.
                    self.add_unknown(program, prefix.to_owned(), || None, next);
                    return false;
                }
            }

            if entry.value.is_some() {
                let attached = attached();
                self.attached.extend(attached.clone());
                let takes_next = attached.is_none() && !entry.is_attached;
                let value = if takes_next { next.cloned() } else { attached };
                self.add(&entry, name, value);
                return takes_next;
            }

            self.add(&entry, name, None);
            let is_joined = |rest: &str| rest.contains(|c: char| !c.is_ascii_digit());
            if program.takes("single") && is_joined(&prefix[end..]) {
                self.add_unknown(program, prefix.to_owned(), || None, next);
                return false;
            }
        }

        if word.literal().is_none() {
            self.add_unknown(program, word.to_string(), || None, next);
            self.add_any_option(program, word);
        }

        false
    }

    /// Adds what the options of the program do if the word has wildcards: a file may have the name
    /// of any option.
    fn add_any_option(&mut self, program: &Program, word: &Word) {
        if word.is_glob() {
            let marks = program.added_marks().map(|mark| (mark, word.to_string()));
            self.marks.extend(marks);
        }
    }

    /// Removes the last mark if it is `second`; returns `true` if the last option has two values.
    fn takes_second(&mut self) -> bool {
        let is_second = |(mark, _): &mut (&str, String)| *mark == "second";
        self.marks.pop_if(is_second).is_some()
    }

    fn add(&mut self, entry: &Entry, name: String, value: Option<Word>) {
        if !entry.mark.is_empty() {
            self.marks.push((entry.mark, name));
        }
        if let (Some(kind), Some(value)) = (entry.value, value) {
            self.values.push((kind, value));
        }
    }

    /// Adds an option of which the value may stand in its word, or may be the next word.
    fn add_unknown(
        &mut self,
        program: &Program,
        name: String,
        attached: impl FnOnce() -> Option<Word>,
        next: Option<&Word>,
    ) {
        let (attached, next) = match program.dash {
            // It runs nothing.
            Dash::Harmless => (None, None),
            _ => (attached(), next),
        };
        let is_attached = attached.as_ref().is_some_and(|value| value.len() > 0);
        let value = attached.or_else(|| next.cloned());
        self.unknown.push(UnknownOption {
            name,
            value,
            is_attached,
        });
    }

    /// Returns `true` if the first operand is `text`.
    pub(crate) fn begins_with(&self, text: &str) -> bool {
        self.operands.first().is_some_and(|word| word.is(text))
    }

    /// Returns the index of the first operand.
    pub(crate) fn first_operand(&self) -> Option<usize> {
        self.operand_indices.first().copied()
    }

    /// Returns `true` if an option with this mark is given.
    pub(crate) fn has_mark(&self, mark: &str) -> bool {
        self.marks.iter().any(|(known, _)| *known == mark)
    }

    /// Returns the values of this kind.
    pub(crate) fn values_of(&self, kind: &str) -> impl Iterator<Item = &Word> {
        self.values
            .iter()
            .filter(move |(known, _)| *known == kind)
            .map(|(_, value)| value)
    }
}

/// Returns the number of words after this one if they and this one stand before the command of a
/// builder: `+nightly` of cargo, `workspace web` of yarn.
fn words_before(program: &Program, word: &str) -> Option<usize> {
    let is_toolchain = word.strip_prefix('+').is_some_and(|name| {
        let mut channels = ["nightly", "stable", "beta", "1."].iter();
        channels.any(|channel| name.starts_with(channel)) && !name.contains('/')
    });
    match word {
        "workspace" if program.takes("workspace") => Some(1),
        _ if program.takes("command") && program.builds && is_toolchain => Some(0),
        _ => None,
    }
}

/// Returns `true` for `10`, `+10`, `-10` and `0x10`.
fn is_number(word: &Word) -> bool {
    let text = word.literal().unwrap_or_default();
    text.trim_start_matches(['-', '+'])
        .starts_with(|c: char| c.is_ascii_digit())
}

/// Returns `true` if the value of an option is a file, or a folder, that is only read, unless the
/// program writes what its other words name.
fn is_read(program: &Program, kind: &str) -> bool {
    kind == "read" || program.takes("tar") && matches!(kind, "archive" | "cd")
}

/// Returns `true` if a word where the value of an option is expected looks like an option: no
/// number or text behind a dash, and not `--`, which would end the options.
fn is_like_option(word: &Word) -> bool {
    let prefix = word.literal_prefix();
    let is_mark = |c: char| c == '-' || c == '.' || c.is_ascii_digit();
    let is_named = |name: &str| {
        let name = name.trim_start_matches(is_mark);
        name.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let name = prefix.strip_prefix('-');
    name.is_some_and(|name| word.literal().is_none() || is_named(name))
}

/// Returns `true` if the word may begin with a dash when the command runs: a variable, a
/// substitution, or a glob that a file's name may match.
pub(crate) fn is_uncertain(word: &Word) -> bool {
    let prefix = word.literal_prefix();
    if word.literal().is_some() || !prefix.is_empty() && !word.may_split() {
        return word.literal().is_none() && prefix == "-";
    }

    let first = word.parts.first();
    !first.is_some_and(|part| matches!(part, Part::Home(_)) || part.variable() == Some("{}"))
}
