//! The normalization of command options for deny and ask rules.

use super::paths::lexical;
use super::programs::{
    first_operand, has_targets, is_uncertain, is_versioned, runs_files, works_inside,
};
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

/// Returns `true` if an option in `given` may mean `wanted`: it is the same, has the same letter, is
/// part of the same long name, or both force.
pub(super) fn may_have_flag(program: &str, given: &[String], wanted: &str) -> bool {
    let forces = |flag: &str| matches!(flag, "-f" | "--force" | "--hard" | "--discard-changes");
    let is_long = |flag: &str| flag.starts_with("--") || flag.len() > 4;
    let name = bare(wanted).to_lowercase();
    let letters = if is_long(wanted) {
        &name[..]
    } else {
        bare(wanted)
    };
    let count = if is_long(wanted) { 1 } else { letters.len() };
    if wanted == "--" {
        return given.iter().any(|flag| flag == wanted);
    }
    let has = |flag: &String, letter: char| {
        let flag_name = bare(flag).to_lowercase();
        if is_long(flag) && is_long(wanted) {
            name.starts_with(&flag_name) || flag_name.starts_with(&name)
        } else if flag.starts_with("--") {
            flag_name.starts_with(&*letter.to_lowercase().to_string())
        } else if wanted.starts_with("--") {
            flag_name.contains(letter)
        } else {
            bare(flag).contains(letter)
        }
    };
    has_flag(program, given, wanted)
        || forces(wanted) && given.iter().any(|flag| forces(flag))
        || letters
            .chars()
            .take(count)
            .all(|letter| given.iter().any(|flag| has(flag, letter)))
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
            let other_argvs = script_argv.into_iter().chain(unversioned(&plain_argv));
            return [plain_argv.clone(), short_argv]
                .into_iter()
                .chain(other_argvs)
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
    let major = name.split('.').next().unwrap_or_default();
    let names = [major, unversioned_name(&name)].into_iter();
    let names = names.filter(|other| unversioned_name(&name) != name && *other != name);
    let rename = |name: &str| [&[Word::from_text(name)][..], &argv[1..]].concat();
    names.map(rename).collect()
}

/// The name of a program without a version, if such names of it are known.
pub(super) fn unversioned_name(name: &str) -> &str {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if is_versioned(plain) { plain } else { name }
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
        for word in &argv[1..] {
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

    /// Returns `true` if the program may do what the word behind its name in `pattern` says without
    /// that word: an option has the name, or the program does it by default.
    pub(super) fn may_mean(&self, pattern: &Self) -> bool {
        let Some(last) = pattern.words.get(1..).and_then(<[_]>::last) else {
            return false;
        };
        // `git remote get-url --push` pushes nothing.
        let is_short = last.len() < 5 && pattern.words[0] == "git";
        let is_option = |flag: &String| !is_short && bare(flag) == last;
        let name = self.words[0].as_str();
        let shows_more = works_inside(name) && !runs_files(name) || has_targets(name);
        let is_about = |flag: &String| match bare(flag) {
            "v" => !shows_more,
            name => matches!(name, "version" | "help" | "V" | "h"),
        };
        let is_default = pattern.begins_with(&self.words) && !self.flags.iter().any(is_about);
        is_default && pattern.flags.is_empty()
            || pattern.words.len() == 2
                && self.begins_with(&pattern.words[..1])
                && self.flags.iter().any(is_option)
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
