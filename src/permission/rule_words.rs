//! Commands that a rule to deny or to ask may be about.
//!
//! If a word of the rule is missing from a command, the rule may be about the command all the same,
//! unless the word names a subcommand, or the form of the command is known completely.

use std::borrow::Cow;

use super::form_words::FormWords;
use super::glob::{intersect, matches, tokens};
use super::line_paths::LinePaths;
use super::path_words::decoded;
use super::pattern::{CommandPattern, PatternWord, chars};
use super::programs::{runs_files, subcommand_words, unversioned_name, wraps};
use super::shell::{Part, SHELLS, SimpleCommand, Word};

/// Programs that run the files that their words name, in addition to those of [`runs_files`].
const TESTERS: &str = "pytest mocha jest vitest ava tap phpunit pest rspec playwright cypress bun";

impl CommandPattern {
    /// Returns `true` unless the command runs another program or subcommand than those of the
    /// pattern, or has a form in which a word of the pattern is certainly missing.
    pub(super) fn may_be_about(&self, command: &SimpleCommand, line: &LinePaths<'_>) -> bool {
        let texts: Vec<String> = self.words().iter().map(PatternWord::text).collect();
        let Some((program, arguments)) = texts.split_first() else {
            return false;
        };
        if self.may_be_about_wrapped(command, line) {
            return true;
        }
        let script = arguments.iter().find(|text| !text.starts_with('-'));
        let script = script.filter(|_| runs_files(&program.to_lowercase()));
        if !self.may_name_program_of(command) && script.is_none() {
            return false;
        }
        let Some(mut name) = command.program().map(|name| name.to_lowercase()) else {
            return intersect(
                &tokens(program),
                &tokens(file_name(&folded(&command.argv[0]))),
            );
        };
        let mut renamed = Cow::Borrowed(command);
        if let Some(subcommand) = name.strip_prefix("git-") {
            let words = ["git", subcommand].map(Word::from_text);
            renamed.to_mut().argv.splice(..1, words);
            renamed.to_mut().subcommand_words = vec![1];
            name.truncate(3);
        }
        let words = FormWords {
            name: &name,
            command: &renamed,
            line: *line,
        };
        if may_match_word(program, &name) || may_match_word(program, unversioned_name(&name)) {
            return arguments.iter().any(|word| word != "*") && words.may_be_about(&texts);
        }
        let file = script.or(Some(program).filter(|program| program.contains(['.', '/'])));
        let Some(file) = file else {
            return false;
        };
        let is_tester = TESTERS.split(' ').any(|tester| tester == name);
        (SHELLS.contains(&&*name) || runs_files(&name)) && words.may_run(file)
            || is_tester && words.names_file(file)
    }

    /// Returns `true` if the pattern names a wrapper and a program behind it, and may be about a
    /// command that the wrapper starts, perhaps through others.
    fn may_be_about_wrapped(&self, command: &SimpleCommand, line: &LinePaths<'_>) -> bool {
        let texts: Vec<String> = self.words().iter().map(PatternWord::text).collect();
        let Some(wrapper) = texts.first().filter(|name| command.via.contains(name)) else {
            return false;
        };
        let words: Vec<Word> = texts.iter().map(Word::from_text).collect();
        let own = subcommand_words(wrapper, &words);
        let Some(at) = own.first().filter(|_| wraps(wrapper)) else {
            return false;
        };
        let inner = self.with_words(self.words()[*at..].to_vec());
        // What only may run is not compared word by word, as behind no wrapper.
        let may_be_about = |inner: &Self| {
            inner.may_be_about(command, line)
                || command.is_unmodeled() && inner.may_be_started_by(command, false)
        };
        let mut spellings = inner.spellings().into_iter();
        spellings.any(|inner| inner.catches(command) || !command.guessed && may_be_about(&inner))
    }

    /// Returns `true` if the command is of another program that may do what the pattern is about:
    /// one with a similar name, one that runs scripts of a package or starts a builder, or one that
    /// runs git for a new version.
    pub(super) fn may_be_done_by_other(&self, command: &SimpleCommand) -> bool {
        const RUNNERS: &str = "\
            npm pnpm yarn bun npx bunx turbo nx lerna run-s run-p npm-run-all rush wireit node deno";
        let is_runner = |name: &str| RUNNERS.split(' ').any(|runner| runner == name);
        let texts: Vec<String> = self.words().iter().map(PatternWord::text).collect();
        let [program, arguments @ ..] = &texts[..] else {
            return false;
        };
        let name = command.program().unwrap_or_default().to_lowercase();
        let is_part = name.starts_with(program) || name.ends_with(program);
        if command.is_unmodeled() && program.len() > 2 && is_part && name != *program {
            return !arguments.is_empty();
        }
        let git_subcommands = work_of_release(&name, command);
        if program == "git" && !git_subcommands.is_empty() {
            let mut names = git_subcommands.split(' ');
            // A rule about all of git has no subcommand.
            return names.any(|name| {
                let subcommand = arguments.first();
                subcommand.is_none_or(|subcommand| subcommand == "*" || subcommand == name)
            });
        }
        if program == "ssh" && matches!(&*name, "rsync" | "scp" | "sftp") {
            let mut words = command.argv[1..].iter();
            return words.any(|word| word.to_string().contains(':'));
        }
        let are_runners = is_runner(program) && is_runner(&name) && *program != name;
        let task = match (&**program, arguments) {
            // `cmake --build` starts the builder that it was configured for.
            ("make" | "gmake" | "ninja", []) if name == "cmake" => {
                let mut words = command.argv[1..].iter();
                return words.any(|word| word.is("--build"));
            }
            ("make" | "gmake" | "ninja", [target, ..]) if name == "cmake" => target,
            ("npx" | "bunx", [script, ..]) if are_runners => script,
            (_, [run, script, ..]) if are_runners && run.starts_with("run") => script,
            (_, [publish, ..]) if are_runners && publish == "publish" => publish,
            _ => return false,
        };
        let mut words = command.argv[1..].iter();
        words.any(|word| may_name(task, folded(word).trim_start_matches('-')))
    }
}

/// Returns the subcommands of git that a command runs because it makes a new version of a package.
fn work_of_release(name: &str, command: &SimpleCommand) -> &'static str {
    let words = command.argv.get(1..).unwrap_or_default();
    let first = words.first().and_then(Word::literal).unwrap_or_default();
    let sets_version = words.iter().skip(1).any(|word| !word.starts_with_dash());
    let is_untagged = |word: &Word| {
        let text = word.literal_prefix();
        matches!(&*text, "--no-git-tag-version" | "--git-tag-version=false")
    };
    match (name, &*first) {
        ("lerna", "version") | ("cargo", "release") => "commit tag push",
        _ if words.iter().any(is_untagged) => "",
        ("yarn", "version") => "commit tag",
        // Without a version, they print that of the package.
        ("npm" | "pnpm", "version") if sets_version => "commit tag",
        _ => "",
    }
}

/// Returns `true` if a command and a rule may have the same subcommand, or the same program behind
/// a wrapper, as far as both name one. Each is given as its words, and the indices of those that
/// name the subcommand or the program.
pub(super) fn may_share_subcommand(
    (rule, rule_own): (&[String], &[usize]),
    (argv, own): (&[Word], &[usize]),
) -> bool {
    for (rule_at, at) in rule_own.iter().zip(own) {
        let text = rule[*rule_at].to_lowercase();
        if text.starts_with('*') {
            let may_be = |at: &usize| {
                argv[*at].literal().is_none() || may_match_word(&text, &folded(&argv[*at]))
            };
            let is_option = text.trim_start_matches('*').starts_with('-');
            return text == "*" || is_option || own.iter().any(may_be);
        }
        let word = folded(&argv[*at]);
        if !may_match_word(&text, &word) && !may_match_word(&text, file_name(&word)) {
            return false;
        }
    }
    true
}

/// Returns `true` if a word, or one of the names in it, may be the word of a rule. For a word of a
/// rule that begins with a wildcard, it is enough that the word may contain the literal text.
pub(super) fn may_name(rule_word: &str, word: &str) -> bool {
    let rule_word = rule_word.to_lowercase();
    let is_open = rule_word.starts_with('*');
    let is_known = |part: &&str| !is_open || part.contains(|c: char| !"*?".contains(c));
    let mut parts = word.split(is_mark).filter(is_known);
    may_match_word(&rule_word, word)
        || parts.any(|part| may_match_word(&rule_word, part))
        || overlaps(&rule_word, word)
        || rule_word.contains(is_mark) && word.contains(&rule_word)
}

/// Returns `true` if the character stands between names in a word.
fn is_mark(c: char) -> bool {
    !c.is_alphanumeric() && !"-_.*?".contains(c)
}

/// Returns `true` if a word with an unknown part (`*`) may contain the text of a rule's word that
/// begins with a wildcard: the word contains the text, a beginning of it right before the unknown
/// part, or an end of it right behind.
fn overlaps(rule_word: &str, word: &str) -> bool {
    let text = rule_word.trim_matches('*');
    let parts = word.split_once('*').zip(word.rsplit_once('*'));
    let parts = parts.filter(|_| rule_word.starts_with('*') && !word.contains("://"));
    parts.is_some_and(|((before, _), (_, after))| {
        let mut splits = text.char_indices().skip(1).map(|(at, _)| text.split_at(at));
        word.contains(text) || splits.any(|(a, b)| before.ends_with(a) || after.starts_with(b))
    })
}

/// Returns `true` if a text that a part of a word may become matches the word of a rule. In the
/// part, `*` is an unknown value, and `**` and `?` are globs. If the word of the rule begins with a
/// wildcard, a part with an unknown value is compared with its literal text: `*` and `ev*` may be
/// `*evil*`, but `www.ev*` is not taken to be.
pub(super) fn may_match_word(rule_word: &str, part: &str) -> bool {
    if !part.contains(['*', '?']) {
        rule_word == part
            || rule_word.contains(['*', '?']) && matches(&tokens(rule_word), &chars(part))
    } else if rule_word.starts_with('*') && part.replace("**", "").contains('*') {
        matches(&tokens(part), &chars(&rule_word.replace('*', "")))
    } else {
        intersect(&tokens(rule_word), &tokens(part))
    }
}

/// Returns the part after the last slash.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the word in lower case; what is not known is `*`, and `**` if it is a glob in no option.
/// Escapes of addresses are decoded, and their lists and ranges are wildcards, unless the word has
/// a blank or a double quote, as data has.
pub(super) fn folded(word: &Word) -> String {
    let mut texts = word.parts.iter().filter_map(Part::text);
    let is_data = texts.any(|text| text.contains(['"', ' ']));
    let word = decoded(word, !is_data);
    let texts = word.parts.iter().map(|part| match part {
        Part::Text { text, .. } => text.to_lowercase(),
        Part::Brace(c) | Part::Glob(c @ '?') => c.to_string(),
        Part::Home(_) => "/*".to_owned(),
        Part::Glob(_) if !word.starts_with_dash() => "**".to_owned(),
        Part::Glob(_) | Part::Value { .. } => "*".to_owned(),
    });
    texts.collect()
}
