//! The normalization of command options for deny and ask rules.

use std::collections::BTreeSet;

use super::paths::lexical;
use super::programs::{first_operand, is_uncertain};
use super::shell::{Part, Word};

/// Short options and the long options with the same meaning, per program. These are the options
/// that rules are written about.
const SAME: &[(&str, &str)] = &[
    ("rm", "r=R=--recursive f=--force i=--interactive d=--dir"),
    ("cp", "r=R=--recursive f=--force a=--archive"),
    ("chmod", "R=--recursive"),
    ("chown", "R=--recursive"),
    (
        "git",
        "f=--force=--force-with-lease d=--delete D=--delete n=--no-verify q=--quiet a=--all m=--message",
    ),
    (
        "curl",
        "o=--output O=--remote-name k=--insecure d=--data X=--request T=--upload-file F=--form",
    ),
    ("grep", "r=R=--recursive"),
    (
        "docker",
        "f=--force v=--volume=--volumes p=--publish d=--detach i=--interactive t=--tty e=--env",
    ),
    ("npm", "g=--global f=--force D=--save-dev"),
    ("tar", "x=--extract=--get c=--create t=--list f=--file"),
];

/// Returns `true` if the flags `given` hold `wanted`, alone, among others or under its other name.
pub(super) fn has_flag(program: &str, given: &[String], wanted: &str) -> bool {
    let groups = groups_of(program);
    // Some programs accept long options with one dash.
    let is_same = |flag: &String| bare(flag) == bare(wanted) && bare(wanted).len() > 1;
    if !wanted.contains('=') && given.iter().any(is_same) {
        return true;
    }

    if wanted.starts_with("--") {
        let aliases = group_of(groups, wanted);
        return given.iter().any(|flag| is_long(flag, wanted, &aliases));
    }
    given.iter().any(|flag| flag == wanted)
        || wanted[1..].chars().all(|letter| {
            let aliases = group_of(groups, letter.encode_utf8(&mut [0; 4]));
            given.iter().any(|flag| has_letter(flag, letter, &aliases))
        })
}

/// Returns `true` if an option in `given` may be the other form, short or long, of `wanted`: it
/// begins with the same letter, and neither is known.
pub(super) fn may_have_flag(program: &str, given: &[String], wanted: &str) -> bool {
    let groups = groups_of(program);
    let is_known = |option: &str| !group_of(groups, option).is_empty();
    let is_long = |flag: &str| flag.starts_with("--");
    let letters = |flag: &str| {
        let letters = bare(flag).to_ascii_lowercase();
        let count = if is_long(flag) { 1 } else { letters.len() };
        letters.chars().take(count).collect::<String>()
    };
    let is_other = |flag: &&String| is_long(flag) != is_long(wanted);
    let is_open = |flag: &str, letter: char| {
        let letter = letter.to_string();
        !is_known(if is_long(flag) { flag } else { &letter })
    };
    let mut others = given.iter().filter(is_other);
    others.any(|flag| {
        letters(wanted).chars().any(|letter| {
            let is_given = letters(flag).contains(letter);
            is_given && is_open(flag, letter) && is_open(wanted, letter)
        })
    })
}

fn groups_of(program: &str) -> &'static str {
    let groups = SAME.iter().find(|(name, _)| *name == program);
    groups.map_or("", |(_, groups)| *groups)
}

/// The name of an option without dashes and value.
fn bare(flag: &str) -> &str {
    let name = flag.trim_start_matches('-');
    name.split('=').next().unwrap_or_default()
}

/// The options that mean the same as `option`, itself among them; none when it stands alone.
fn group_of<'a>(groups: &'a str, option: &str) -> Vec<&'a str> {
    let mut groups = groups.split(' ').map(|group| group.split('='));
    let option_group = groups.find(|group| group.clone().any(|known| known == option));
    option_group.into_iter().flatten().collect()
}

fn is_long(flag: &str, wanted: &str, same: &[&str]) -> bool {
    let name = flag.split('=').next().unwrap_or_default();
    if !name.starts_with("--") {
        return has_short(flag, same);
    }
    let abbreviates = !wanted.contains('=') && name.len() > 2 && wanted.starts_with(name);
    flag == wanted || name == wanted || abbreviates || same.contains(&name)
}

fn has_letter(flag: &str, letter: char, same: &[&str]) -> bool {
    if !flag.starts_with("--") {
        return flag[1..].contains(letter) || has_short(flag, same);
    }
    let name = flag.split('=').next().unwrap_or_default();
    let mut long_options = same.iter().filter(|option| option.len() > 1);
    name.len() > 2 && long_options.any(|option| option.starts_with(name))
}

/// Returns `true` if one of the letters in `same` is among the letters of `flag`.
fn has_short(flag: &str, same: &[&str]) -> bool {
    let mut letters = same.iter().filter(|option| option.len() == 1);
    letters.any(|letter| flag[1..].contains(letter))
}

/// The words as given but for the program's directory, and without options before the first
/// operand.
pub(super) fn variants(argv: &[Word]) -> Vec<Vec<Word>> {
    let mut argvs = named_variants(argv);
    let name = argv[0].basename().unwrap_or_default();
    if let Some(subcommand) = name.strip_prefix("git-") {
        let words = ["git", subcommand].map(Word::from_text);
        argvs.extend(named_variants(&[&words[..], &argv[1..]].concat()));
    }
    if argv[0].literal_prefix().contains('/') {
        argvs.push(argv.to_vec());
    }
    argvs
}

fn named_variants(argv: &[Word]) -> Vec<Vec<Word>> {
    let mut plain_argv = argv.to_vec();
    if let Some(name) = argv[0].basename() {
        plain_argv[0] = Word::from_text(name.clone());
        let mut index = first_operand(&name, &plain_argv);
        if plain_argv[index - 1].literal().as_deref() == Some("--") {
            // What follows is no option even if it looks like one.
            index -= 1;
        }

        if index > 1 && index < plain_argv.len() {
            let mut short_argv = vec![plain_argv[0].clone()];
            short_argv.extend_from_slice(&plain_argv[index..]);
            let script_argv = script(&name, &short_argv);
            return [plain_argv, short_argv]
                .into_iter()
                .chain(script_argv)
                .collect();
        }

        let script_argv = script(&name, &plain_argv);
        let other_argvs = script_argv.into_iter().chain(unversioned(&plain_argv));
        return [plain_argv.clone()]
            .into_iter()
            .chain(other_argvs)
            .collect();
    }

    vec![plain_argv]
}

/// The command with the name of its program without a version: `python3.12` is `python3`.
fn unversioned(argv: &[Word]) -> Vec<Vec<Word>> {
    let name = argv[0].basename().unwrap_or_default();
    let is_versioned = ["python", "pip"]
        .iter()
        .any(|known| name.starts_with(known));
    let major = name.split('.').next().unwrap_or_default();
    let plain = major.trim_end_matches(|c: char| c.is_ascii_digit());
    let names = [major, plain]
        .into_iter()
        .filter(|other| is_versioned && *other != name);
    let rename = |name: &str| [&[Word::from_text(name)][..], &argv[1..]].concat();
    names.map(rename).collect()
}

/// The words without the subcommand that runs a script.
fn script(name: &str, argv: &[Word]) -> Option<Vec<Word>> {
    let is_run = argv.get(1)?.starts_with_text("run");
    let runs_scripts = matches!(name, "npm" | "pnpm" | "yarn" | "bun");
    (is_run && runs_scripts).then(|| [&argv[..1], &argv[2..]].concat())
}

/// The words and the flags of a command, each in their order.
#[derive(Default)]
pub(super) struct WordsAndFlags {
    pub(super) words: Vec<String>,
    pub(super) flags: Vec<String>,
    /// The indices of words that may be values of the option before them.
    values: Vec<usize>,
    /// True if a word may be a flag that is only known when the shell runs.
    pub(super) is_partial: bool,
}

impl WordsAndFlags {
    /// The parts of a command, its program first; `None` when that is not known.
    pub(super) fn of(argv: &[Word]) -> Option<Self> {
        let mut parts = Self::default();
        parts.words.push(argv[0].basename()?);
        if parts.words[0].ends_with("tar")
            && let Some(letters) = argv.get(1).and_then(Word::literal)
            && !letters.starts_with('-')
        {
            parts.flags.push(format!("-{letters}"));
        }

        let mut only_words = false;
        for pair in argv.windows(2) {
            let word = &pair[1];
            if !only_words && pair[0].starts_with_dash() && !word.starts_with_dash() {
                parts.values.push(parts.words.len());
            }
            match word.literal() {
                Some(text) if only_words || !text.starts_with('-') || text.len() < 2 => {
                    parts.words.push(text);
                }
                Some(text) if text == "--" => only_words = true,
                Some(text) => parts.flags.push(text),
                None => {
                    parts.is_partial |= is_uncertain(word) && !has_fixed_end(word);
                    parts.words.push(word.to_string());
                }
            }
        }

        parts.add_git_flags();
        Some(parts)
    }

    /// Adds the flags that other words of git mean: `push origin +main`, `branch -d -f`.
    fn add_git_flags(&mut self) {
        let begins = |subcommand| self.begins_with(&["git".to_owned(), subcommand]);
        let is_given = |flag| has_flag("git", &self.flags, flag);
        let has = |mark: char| self.words.iter().any(|word| word.starts_with(mark));
        let is_push = begins("push".to_owned());
        let flags = [
            ("--force", is_push && (has('+') || is_given("--mirror"))),
            (
                "--delete",
                is_push && (has(':') || is_given("--prune") || is_given("--mirror")),
            ),
            (
                "-D",
                begins("branch".to_owned()) && is_given("-d") && is_given("-f"),
            ),
        ];
        let flags = flags
            .into_iter()
            .filter(|(_, is_meant)| *is_meant)
            .map(|(flag, _)| flag.to_owned())
            .collect::<Vec<_>>();
        self.flags.extend(flags);
    }

    /// Returns `true` if it begins with these words when some of its words are values of options.
    pub(super) fn may_begin_with(&self, wanted: &[String]) -> bool {
        let mut counts = BTreeSet::from([0]);
        for (at, word) in self.words.iter().enumerate() {
            let is_value = self.values.contains(&at);
            let is_wanted = |count: &usize| wanted.get(*count).is_some_and(|text| text == word);
            let next_counts = counts.iter().copied().filter(|_| is_value);
            let wanted_counts = counts.iter().filter(|count| is_wanted(count));
            counts = next_counts
                .chain(wanted_counts.map(|count| count + 1))
                .collect();
            if counts.contains(&wanted.len()) {
                return true;
            }
        }
        false
    }

    /// Returns `true` if the command may do what the subcommand of `pattern` does without its name:
    /// an option has the name, or the program does it by default.
    pub(super) fn may_mean(&self, pattern: &Self) -> bool {
        let Some((last, first)) = pattern.words.split_last() else {
            return false;
        };
        // `git remote get-url --push` pushes nothing.
        let is_short = last.len() < 5 && first == ["git"];
        let is_option = |flag: &String| !is_short && bare(flag) == last;
        let is_about = |flag: &String| matches!(bare(flag), "version" | "help" | "V" | "h" | "v");
        let is_default = pattern.begins_with(&self.words) && !self.flags.iter().any(is_about);
        let is_option = self.begins_with(&first[..first.len().min(1)])
            && first.len() == 1
            && self.flags.iter().any(is_option);
        is_option || is_default && !first.is_empty() && pattern.flags.is_empty()
    }

    pub(super) fn begins_with(&self, wanted: &[String]) -> bool {
        let mut pairs = self.words.iter().zip(wanted).enumerate();
        self.words.len() >= wanted.len()
            && pairs.all(|(at, (word, wanted))| {
                word == wanted
                    || lexical(word) == *wanted
                    || (at == 0 && word.eq_ignore_ascii_case(wanted))
            })
    }
}

/// Returns `true` if a glob ends in text that is in no short option, such as `*.o`.
fn has_fixed_end(word: &Word) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    match word.parts.last() {
        Some(Part::Text { text, .. }) => word.is_glob() && !text.chars().all(is_letter),
        _ => false,
    }
}
