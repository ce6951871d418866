//! The words of a command, compared with those of a rule by the command's form.

use crate::util::path::lexical;

use super::line_paths::LinePaths;
use super::options::{WordsAndFlags, has_flag, may_have_flag};
use super::programs::{Complete, Form, subcommand_words, wraps};
use super::rule_words::{file_name, folded, may_match_word, may_name, may_share_subcommand};
use super::shell::{SimpleCommand, Word};

/// The maximum number of words that are compared as paths with each word of a rule; one of more may
/// be any.
const MAX_PATHS: usize = 256;

/// Kinds of resources, each with its other names but for plurals.
const KINDS: &str = "\
    pod=po deployment=deploy service=svc namespace=ns node=no secret configmap=cm ingress=ing job \
    cronjob=cj statefulset=sts daemonset=ds replicaset=rs event=ev persistentvolumeclaim=pvc";

/// The words of a command of the program `name`.
pub(super) struct FormWords<'a> {
    pub(super) name: &'a str,
    pub(super) command: &'a SimpleCommand,
    pub(super) line: LinePaths<'a>,
}

impl FormWords<'_> {
    /// Returns `true` unless a word of the rule, which has these texts, is certainly missing.
    pub(super) fn may_be_about(&self, rule: &[String]) -> bool {
        let (argv, own) = (&self.command.argv, &self.command.subcommand_words);
        let rule_words: Vec<Word> = rule.iter().map(Word::from_text).collect();
        let mut rule_own = subcommand_words(self.name, &rule_words);
        if self.command.is_about_itself() || !may_share_subcommand((rule, &rule_own), (argv, own)) {
            return false;
        }
        if self.command.is_unmodeled() {
            let first = rule[1].to_lowercase();
            let has = |word: &Word| word.literal().is_none() || folded(word).contains(&first);
            return first.contains('*') || argv[1..].iter().any(has);
        }
        if let Some(open) = rule_own.iter().position(|at| is_open(&rule[*at])) {
            let text = &*rule[rule_own[open]];
            if text != "*" && !is_option(&text) {
                return true;
            }
            rule_own.truncate(open);
        }
        if wraps(self.name)
            && let ([own, ..], [rule_own, ..]) = (&own[..], &rule_own[..])
        {
            return self.may_wrap(*own, &rule[*rule_own..]);
        }
        if rule_own.len() > own.len() {
            return !self.has_other_default(rule, &rule_own);
        }
        self.may_have_all(rule, &rule_own)
    }

    /// Returns `true` if a group of git without a subcommand runs another one than the rule's.
    fn has_other_default(&self, rule: &[String], rule_own: &[usize]) -> bool {
        let (argv, own) = (&self.command.argv, &self.command.subcommand_words);
        let group = own.first().and_then(|at| argv[*at].literal());
        let defaults = match (self.name, group.as_deref()) {
            ("git", Some("remote" | "reflog")) => "show list",
            ("git", Some("stash")) => "push save",
            _ => return false,
        };
        let is_default = |at: &usize| {
            defaults
                .split(' ')
                .any(|word| may_match_word(&rule[*at], word))
        };
        let is_option = |word: &Word| word.literal().is_some_and(|text| text.starts_with('-'));
        argv[own[0] + 1..].iter().all(is_option) && !rule_own.iter().any(is_default)
    }

    /// Returns `true` if no word of a rule behind its subcommand is certainly missing.
    fn may_have_all(&self, rule: &[String], rule_own: &[usize]) -> bool {
        let (argv, own) = (&self.command.argv, &self.command.subcommand_words);
        let subcommand = own.first().and_then(|at| argv[*at].literal());
        let Some(form) = Form::of(self.name, &subcommand.unwrap_or_default()) else {
            return true;
        };
        let Some(complete) = form.read(self.name, argv, own) else {
            return true;
        };
        let is_behind = |at: &usize| !rule_own.contains(at) && rule[*at] != "*";
        let fixed = (1..rule.len()).filter(is_behind).map(|at| &*rule[at]);
        let (options, operands): (Vec<&str>, Vec<&str>) = fixed.partition(is_option);
        let start = own.last().map_or(1, |at| at + 1);
        let lacks_option = |option: &&str| self.lacks_option(&complete, option, rule);
        let names = |operand: &str| {
            let mut words = argv[start..].iter();
            words.any(|word| may_name(operand, &folded(word)))
        };
        let lacks_operand = |(at, operand): (usize, &&str)| {
            let is_open = is_open(operand);
            is_open && !names(operand)
                || !is_open && self.lacks(&complete, operand, at, operands.len())
        };
        !options.iter().any(lacks_option) && !operands.iter().enumerate().any(lacks_operand)
    }

    /// Returns `true` if a rule, from its word of the program behind a wrapper on, may be about the
    /// command behind the wrapper, which begins at `start`.
    fn may_wrap(&self, start: usize, rule: &[String]) -> bool {
        let argv = self.command.argv[start..].to_vec();
        let name = argv[0].basename().unwrap_or_default().to_lowercase();
        let command = SimpleCommand {
            subcommand_words: subcommand_words(&name, &argv),
            argv,
            ..self.command.clone()
        };
        let words = FormWords {
            name: &name,
            command: &command,
            line: self.line,
        };
        rule.len() < 2 || name != file_name(&rule[0]) || words.may_be_about(rule)
    }

    /// Returns `true` if no option of the command may mean the option of a rule.
    fn lacks_option(&self, complete: &Complete<'_>, rule_word: &str, rule: &[String]) -> bool {
        let Complete { form, program, .. } = complete;
        let argv = &self.command.argv;
        let option = rule_word.replace('*', "");
        let option = option.split('=').next().unwrap_or_default();
        let name = option.trim_start_matches('-');
        let dashed = |option: &str| match option.trim_start_matches('-') {
            name if program.has_one_dash && name.len() > 1 => format!("--{name}"),
            _ => option.to_owned(),
        };
        let option = dashed(option);
        let is_long = option.starts_with("--");
        let key = if is_long { &option } else { name };
        // The value may be given in another way, or be the default.
        let mut pairs = rule.windows(2);
        let has_operand = pairs.any(|pair| pair[0] == rule_word && !pair[1].starts_with('-'));
        let programs = [Some(*program), complete.globals].into_iter().flatten();
        let mut entries = programs.filter_map(|program| program.option(key));
        let has_value = entries.any(|e| e.value.is_some() && (!e.is_attached || has_operand));
        let is_single = is_long || name.chars().count() == 1;
        if name.is_empty() || form.operands == "flags" && is_single && has_value {
            return false;
        }

        // `-nprod` is `-n prod`.
        let letter = letter_with_value(complete, name).filter(|_| !is_single);
        if letter.is_some_and(|letter| self.may_have_value(letter, &name[1..])) {
            return false;
        }

        let others_of_letter = letter.map(|letter| self.others_of_letter(*form, letter));
        let others_of_letter = others_of_letter.unwrap_or_default();
        let mut others = form.including(&option).chain(others_of_letter);
        let Some(mut given) = WordsAndFlags::of(argv) else {
            return false;
        };
        // `-f compose.yml` is not `--force`.
        let is_file = |flag: &String| {
            let is_short = is_long && !flag.starts_with("--");
            let entry = flag.get(1..2).and_then(|letter| program.option(letter));
            is_short && entry.is_some_and(|entry| matches!(entry.value, Some("file" | "read")))
        };
        let file = given.flags.iter().position(is_file);
        file.map(|at| given.flags.remove(at));
        let flags: Vec<String> = given.flags.iter().map(|flag| dashed(flag)).collect();
        let includes = |other: &str| match other {
            "." => self.names_root(&complete.arguments.operands),
            _ => {
                let begins = |word: &Word| {
                    word.starts_with_text(other)
                        || other.ends_with('*') && word.to_string().starts_with(other)
                };
                argv[1..].iter().any(begins)
                    || other.starts_with('-') && has_flag(self.name, &flags, other)
            }
        };
        !others.any(includes) && !may_have_flag(self.name, &flags, &option)
    }

    /// Returns `true` if the option of this letter, or its long name, may be given with the value.
    fn may_have_value(&self, letter: &str, value: &str) -> bool {
        let (short, value) = (format!("-{letter}"), value.to_lowercase());
        let is_option = |word: &Word| {
            let text = word.literal_prefix();
            let name = text.split('=').next().unwrap_or_default();
            if name.starts_with("--") {
                has_flag(self.name, &[name.to_owned()], &short)
            } else {
                name.starts_with('-') && name.ends_with(letter)
            }
        };
        let argv = &self.command.argv;
        (1..argv.len()).any(|at| {
            let mut words = argv[at..].iter().take(2);
            is_option(&argv[at]) && words.any(|word| may_name(&value, &folded(word)))
        })
    }

    /// Returns the options and words that do what the option of this letter does and more, without
    /// its other names.
    fn others_of_letter(&self, form: Form, letter: &str) -> Vec<&'static str> {
        let short = [format!("-{letter}")];
        let others = form.including(&short[0]);
        let others = others.filter(|other| !has_flag(self.name, &short, other));
        others.collect()
    }

    /// Returns `true` if an operand may be this folder, one around it, or a pattern of paths.
    fn names_root(&self, operands: &[&Word]) -> bool {
        let is_root = |word: &&&Word| {
            let path = lexical(&word.literal_prefix());
            let is_around = path == "." || path.starts_with("..");
            word.is_dynamic() || is_around || path.starts_with(['/', ':', '*'])
        };
        let is_open = |word: &Word| word.literal_prefix().starts_with([':', '*']);
        let roots = || operands.iter().filter(is_root);
        roots().count() > 16 || roots().any(|w| is_open(w) || self.line.may_meet(".", w))
    }

    /// Returns `true` if no operand of the command may be what the operand of a rule is, the one at
    /// index `at` of `count`.
    fn lacks(&self, complete: &Complete<'_>, rule_word: &str, at: usize, count: usize) -> bool {
        let form = complete.form;
        let name = rule_word.replace('*', "").to_lowercase();
        let mut options = complete.arguments.options.iter();
        let is_part = |at: &usize| folded(&self.command.argv[*at]).contains(&name);
        let mut all = form.including("*").chain(form.including(&name));
        let is_all = |other: &str| {
            let mut words = self.command.argv.iter().map(Word::literal_prefix);
            words.any(|word| word.split('=').next() == Some(other))
        };
        if name.is_empty() || options.any(is_part) || all.any(is_all) {
            return false;
        }

        let operands = &complete.arguments.operands;
        let words = complete.words(&self.command.argv);
        let names = || words.iter().any(|word| may_name(rule_word, &folded(word)));
        let is_setting = |word: &&&Word| word.literal_prefix().contains('=');
        match form.operands {
            "paths" => !self.may_name_path(complete, &words, rule_word),
            "modes" if at == 0 => {
                let mode = operands.first().and_then(|word| word.literal());
                !complete.arguments.has_mark("first")
                    && mode.is_some_and(|mode| is_other_mode(rule_word, &mode))
            }
            "modes" => !self.may_name_path(complete, &words, rule_word),
            "refs" => {
                let is_plain = |word: &&Word| {
                    let text = word.literal().unwrap_or_default();
                    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
                    let is_head = text.to_uppercase().contains("HEAD");
                    let is_path = text.split('/').any(|name| matches!(name, "" | "." | ".."));
                    text.chars().all(is_known) && !is_head && !is_path
                };
                operands.len() > 1
                    && operands.len() >= count
                    && !(at == 0 && self.line.renames_remotes)
                    && words.iter().all(is_plain)
                    && !names()
            }
            // `/x/` may be a pattern of scripts.
            "names" if words.iter().any(|word| word.starts_with_text("/")) => false,
            // `npm run` lists the scripts.
            "names" if words.is_empty() && complete.start > 1 => true,
            "names" => {
                operands.iter().filter(|word| !is_setting(word)).count() >= count && !names()
            }
            "kinds" => at == 0 && has_other_kinds(rule_word, operands),
            _ => false,
        }
    }

    /// Returns `true` if the command may name, or be given, the path of a rule.
    fn may_name_path(&self, complete: &Complete<'_>, words: &[&Word], rule_word: &str) -> bool {
        let here = Word::from_text(".");
        let is_input = |word: &&Word| word.is("-");
        let has_none = complete.arguments.operands.is_empty();
        let has_input = words.iter().any(is_input);
        let command = self.command;
        // `exec` may have opened the input.
        let is_unknown = command.input == Some(Word::unknown()) && command.input_file.is_none();
        let is_fed = has_input && command.piped.is_some() || is_unknown && (has_input || has_none);
        let is_git = self.name == "git";
        // A pattern of git, which the shell does not expand.
        let is_pattern = |word: &&Word| {
            let text = word.literal().unwrap_or_default();
            text.starts_with(':') || text.contains(['*', '?', '['])
        };
        let is_open = is_git && words.iter().any(is_pattern);
        let is_default = has_none && (is_git || complete.program.operands.ends_with("=."));
        let paths = words.iter().copied().chain(&command.input_file);
        let mut paths = paths.chain(is_default.then_some(&here));
        is_fed
            || is_open
            || words.len() > MAX_PATHS
            || paths.any(|word| self.line.may_meet(rule_word, word))
    }

    /// Returns `true` if a word may name the file of a rule, which may be in another folder.
    pub(super) fn names_file(&self, file: &str) -> bool {
        let file = file_name(file).to_lowercase();
        let mut words = self.command.argv[1..].iter();
        words.any(|word| {
            folded(word)
                .split(['/', ':', '='])
                .any(|name| may_match_word(&file, name))
        })
    }

    /// Returns `true` if a shell or an interpreter may run the file of a rule, which it may name
    /// with another folder or ending, or as a module.
    pub(super) fn may_run(&self, file: &str) -> bool {
        let file = file_name(file).to_lowercase();
        let is_file = |name: &str| {
            let names = [
                name,
                stem(name),
                name.rsplit('.').next().unwrap_or_default(),
            ];
            let mut names = names.into_iter().filter(|name| !name.is_empty());
            names.any(|name| may_match_word(&file, name) || may_match_word(stem(&file), name))
        };
        let may_be = |word: &Word| {
            let text = folded(word);
            let is_folder = text.ends_with(['/', '.']);
            let is_part = text.starts_with('-') && text.contains(stem(&file));
            is_folder || is_part || text.split(['/', '=', ':', ',', '@']).any(is_file)
        };
        let command = self.command;
        let mut words = command.argv[1..].iter().chain(&command.input_file);
        !command.is_about_itself() && words.any(may_be)
    }
}

/// Returns the first letter of a short option, if it takes a value.
fn letter_with_value<'n>(complete: &Complete<'_>, name: &'n str) -> Option<&'n str> {
    let programs = [Some(complete.program), complete.globals].into_iter();
    let mut programs = programs.flatten();
    name.get(..1).filter(|letter| {
        programs.any(|program| {
            let entry = program.option(letter);
            entry.is_some_and(|entry| entry.value.is_some())
        })
    })
}

/// Returns `true` if the word of a rule begins with a wildcard.
fn is_open(text: &str) -> bool {
    text.starts_with('*')
}

/// Returns `true` if the word of a rule is an option, perhaps behind a wildcard.
fn is_option(word: &&str) -> bool {
    word.trim_start_matches('*').starts_with('-')
}

/// Returns the text without the ending of its name.
fn stem(text: &str) -> &str {
    match text.rsplit_once('.') {
        Some((stem, ending)) if !ending.contains('/') && !stem.is_empty() => stem,
        _ => text,
    }
}

/// Returns `true` if all kinds of resources are known, and a command has none of a rule's.
fn has_other_kinds(rule_word: &str, operands: &[&Word]) -> bool {
    let operands = operands.iter().map(|word| folded(word)).enumerate();
    let kinds = operands.filter(|(at, word)| *at == 0 || word.contains('/'));
    let kinds: Vec<String> = kinds.map(|(_, word)| word).collect();
    let kinds = kinds_of(&kinds.join(","));
    let rule_kinds = kinds_of(rule_word.trim_end_matches('*'));
    let pair = kinds.zip(rule_kinds);
    pair.is_some_and(|(kinds, rule_kinds)| !kinds.iter().any(|kind| rule_kinds.contains(kind)))
}

/// Returns the kinds of resources that a word lists, such as `pods,svc` and `deployments.apps/web`;
/// `None` if one is not known.
fn kinds_of(text: &str) -> Option<Vec<&'static str>> {
    let text = text.to_lowercase();
    let kinds = text.split(',').map(|kind| {
        let kind = kind.split(['/', '.']).next()?;
        let is_kind = |name: &str| matches!(kind.strip_prefix(name), Some("" | "s" | "es"));
        let mut kinds = KINDS.split_ascii_whitespace();
        kinds.find(|names| names.split('=').any(is_kind))
    });
    kinds.collect()
}

/// Returns `true` if the modes of files are octal, and differ.
fn is_other_mode(rule_mode: &str, mode: &str) -> bool {
    let octal = |mode: &str| u32::from_str_radix(mode, 8).ok();
    let modes = octal(rule_mode).zip(octal(mode));
    modes.is_some_and(|(rule_mode, mode)| rule_mode & 0o777 != mode & 0o777)
}
