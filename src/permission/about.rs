//! Commands that a rule to deny or to ask may be about.

use std::borrow::Cow;
use std::ops::Range;

use super::clues::without_group;
use super::glob::{intersect, matches, tokens};
use super::options::{WordsAndFlags, may_have_flag, unversioned_name};
use super::path_words::decoded;
use super::pattern::{CommandPattern, PatternWord, chars};
use super::programs::{first_operand, has_targets, is_group, runs_files};
use super::shell::{Part, SHELLS, SimpleCommand, Word};

/// The maximum length of a word with wildcards that is compared; a longer one may be any.
const MAX_WORD: usize = 4096;

impl CommandPattern {
    /// Returns `true` if the command runs the program of the pattern and no fixed word of the
    /// pattern is missing in it. Neither the order of the words counts, nor the part of a word in
    /// which an operand is. [`same`] states when a part that is not known may be what a word of the
    /// pattern names.
    pub(super) fn may_be_about(&self, command: &SimpleCommand) -> bool {
        let texts: Vec<String> = self.words().iter().map(PatternWord::text).collect();
        let Some((program, fixed)) = texts.split_first().filter(|_| self.may_name(command)) else {
            return false;
        };
        let Some(mut name) = command.program().map(|name| name.to_lowercase()) else {
            return intersect(&tokens(program), &tokens(last(&plain(&command.argv[0]))));
        };
        let mut argv = Cow::Borrowed(&command.argv);
        if let Some(subcommand) = name.strip_prefix("git-") {
            let words = ["git", subcommand].map(Word::from_text);
            argv = Cow::Owned([&words[..], &argv[1..]].concat());
            name.truncate(3);
        }
        let runs_scripts = runs_scripts(&name);
        if same(program, &name) || same(program, unversioned_name(&name)) {
            // Each word may be a target, or a script.
            let has_verb = !has_targets(&name) && !runs_scripts;
            let verbs = own_words(command, &argv).filter(|_| has_verb);
            let parts = self.parts().zip(WordsAndFlags::of(&argv));
            let may_mean = parts.is_some_and(|(pattern_parts, mut parts)| {
                if has_targets(&name) && first_operand(&name, &argv) == argv.len() {
                    parts.words.truncate(1);
                }
                parts.may_mean(&pattern_parts)
            });
            return may_mean || has_all(&name, fixed, &argv, verbs.as_deref());
        }
        runs_scripts && program.contains(['.', '/']) && has_all(&name, &texts, &argv, None)
    }

    /// Returns `true` if a program with a similar name, or another one that runs the scripts of a
    /// package, is given the fixed words of the pattern.
    pub(super) fn may_be_about_alike(&self, command: &SimpleCommand) -> bool {
        const RUNNERS: &str =
            "npm pnpm yarn bun npx turbo nx lerna run-s run-p npm-run-all rush wireit";
        let is_runner = |name: &str| RUNNERS.split(' ').any(|runner| runner == name);
        let texts: Vec<String> = self.words().iter().map(PatternWord::text).collect();
        let [program, fixed @ ..] = &texts[..] else {
            return false;
        };
        let name = command.program().unwrap_or_default().to_lowercase();
        let is_part = name.starts_with(program) || name.ends_with(program);
        if command.is_unmodeled() && program.len() > 2 && is_part {
            return has_all(&name, fixed, &command.argv, None);
        }
        let is_script = is_runner(program) && is_runner(&name) && *program != name;
        match fixed {
            [run, script @ ..] if is_script && run.starts_with("run") => {
                has_all(&name, script, &command.argv, None)
            }
            _ => false,
        }
    }
}

/// The words of the subcommand, if the program has any.
fn own_words(command: &SimpleCommand, argv: &[Word]) -> Option<Vec<String>> {
    match &command.subcommand {
        Some(verbs) => Some(verbs.words.clone()),
        None if command.guessed => Some(WordsAndFlags::of(argv)?.words.split_off(1)),
        None => None,
    }
}

/// Returns `true` if the program runs a file that its words name.
fn runs_scripts(name: &str) -> bool {
    SHELLS.contains(&name) || runs_files(name)
}

/// The indices of the words among which the script of an interpreter stands: `-m` and its value, or
/// all words up to the first operand. Empty for other programs.
fn script(name: &str, argv: &[Word]) -> Range<usize> {
    if !runs_scripts(name) {
        return 0..0;
    }
    let module = argv.iter().position(|word| word.starts_with_text("-m"));
    module.map_or_else(|| 1..first_operand(name, argv) + 1, |at| at..at + 2)
}

/// Returns `true` if there are fixed words and each may be in the command. `verbs` are the words of
/// its subcommand.
fn has_all(name: &str, fixed: &[String], argv: &[Word], verbs: Option<&[String]>) -> bool {
    let Some(parts) = WordsAndFlags::of(argv) else {
        return true;
    };
    let fixed = fixed.iter().filter(|word| *word != "*");
    let is_option = |word: &&String| word.trim_start_matches('*').starts_with('-');
    let (options, operands): (Vec<&String>, Vec<&String>) = fixed.partition(is_option);
    let is_given = |option: &&String| match &*option.replace('*', "") {
        "-" => true,
        "--" => argv
            .iter()
            .any(|word| word.literal().as_deref() == Some("--")),
        option => parts.is_partial || may_have(name, verbs, argv, &parts.flags, option),
    };
    if options.is_empty() && operands.is_empty() || !options.iter().all(is_given) {
        return false;
    }

    let is_known = |text: &String| !text.contains(['$', '*', '?', '[']);
    let operands = match (&operands[..], verbs) {
        ([group, operands @ ..], Some(_)) if matches!(&***group, "container" | "image") => operands,
        (operands, _) => operands,
    };
    let (verb, operands) = match (operands.split_first(), verbs) {
        (Some((verb, operands)), Some([_, ..])) if !verb.starts_with('*') => (Some(verb), operands),
        _ => (None, operands),
    };
    let verbs = verbs.unwrap_or_default();
    let is_same = verb.is_none_or(|verb| {
        let word = without_group(verbs).first();
        word.is_some_and(|word| !is_known(word) || fits(verb, &word.to_lowercase()))
    });
    // If the subcommand is known, a word behind it that is not known is no other subcommand.
    let has_group = verbs.first().is_some_and(|word| is_group(word));
    let count = 1 + usize::from(has_group);
    let is_path_known = !verbs.is_empty() && verbs.iter().take(count).all(is_known);
    let script = script(name, argv);
    let words: Vec<String> = argv.iter().map(plain).collect();
    let is_resource = |word: &str| {
        let is_second = verbs
            .get(1)
            .is_none_or(|verbs| verbs.to_lowercase() == word);
        matches!(name, "kubectl" | "oc") && (word.contains('/') || is_second)
    };
    let holds = |operand: &str, at: usize, word: &str| {
        let skips_unknown = operand.starts_with('*') && is_path_known;
        let is_skipped = skips_unknown && argv[at].literal().is_none();
        overlaps(operand, word)
            || !is_skipped && may_hold(operand, word, name, is_resource(word))
            || !is_skipped && script.contains(&at) && is_module(operand, last(word))
    };
    is_same
        && operands.iter().all(|operand| {
            let operand = operand.to_lowercase();
            let mut words = words.iter().enumerate().skip(1);
            words.any(|(at, word)| holds(&operand, at, word))
        })
}

/// Returns `true` if options of the command may mean `option`. The first `-f` of a program of
/// containers is not `--force` if it names the file that they are built or started from.
fn may_have(
    name: &str,
    verbs: Option<&[String]>,
    argv: &[Word],
    flags: &[String],
    option: &str,
) -> bool {
    let is_container = matches!(name, "docker" | "podman" | "nerdctl" | "docker-compose");
    let builds = verbs.is_some_and(|verbs| verbs.first().is_some_and(|verb| verb == "build"));
    let mut pairs = argv.windows(2);
    let pair = pairs.find(|pair| pair[0].starts_with_text("-f"));
    let file = pair.and_then(|pair| pair[1].literal()).unwrap_or_default();
    let names_file = builds || file.ends_with(".yml") || file.ends_with(".yaml");
    let mut flags = flags.to_vec();
    if is_container && names_file && option.starts_with("--") {
        let at = flags.iter().position(|flag| flag == "-f");
        at.map(|at| flags.remove(at));
    }
    may_have_flag(name, &flags, option)
}

/// Returns `true` if the word of a command may be, or have as a part, what the word of a rule
/// names.
fn may_hold(rule_word: &str, word: &str, name: &str, is_resource: bool) -> bool {
    let is_any = match word {
        ":" | "@" | "head" => name == "git",
        "all" => is_resource,
        _ => word.len() > MAX_WORD && word.contains(['*', '?']),
    };
    // The value may stand behind any letter.
    let letters = word.strip_prefix('-').filter(|word| !word.starts_with('-'));
    let value = letters.and_then(|letters| letters.get(1..));
    let is_value = value.is_some_and(|value| same(&format!("*{rule_word}"), value));
    let splits = is_resource || word.contains("://");
    is_any
        || is_value
        || fits(rule_word, word)
        || word.split(|c| "=,:@+?#&;|".contains(c)).any(|part| {
            let mut names = part.split('/').filter(|_| splits);
            let resource = part.split('/').next().unwrap_or_default();
            fits(rule_word, part)
                || names.any(|name| fits(rule_word, name))
                || is_resource && is_short(rule_word, resource)
        })
}

/// Returns `true` if a part of a word may be what the word of a rule names, or has the same last
/// name, with or without an ending. An absolute path of a rule has the last name only of a path
/// that may be absolute.
fn fits(rule_word: &str, part: &str) -> bool {
    fn trimmed(text: &str) -> &str {
        let name = text.trim_start_matches("./").trim_end_matches('/');
        if name.is_empty() { text } else { name }
    }
    let (rule_word, part) = (trimmed(rule_word), trimmed(part));
    let (rule_name, name) = (last(rule_word), last(part));
    let has_same_base = !rule_word.starts_with('/') || part.starts_with(['/', '.']);
    let stem = name.split('.').next().unwrap_or_default();
    let is_stem = !stem.is_empty() && !name.contains('*') && !rule_name.contains('.');
    same(rule_word, part)
        || has_same_base
            && !matches!(rule_name, "" | "*")
            && (same(rule_name, name) || is_stem && same(rule_name, stem))
}

/// Returns `true` if the word of a rule is a file that an interpreter runs as a module, or without
/// its ending.
fn is_module(rule_word: &str, file: &str) -> bool {
    let (stem, _) = last(rule_word).split_once('.').unwrap_or_default();
    let module = file.rsplit('.').next().unwrap_or_default();
    let folder = rule_word.rsplit('/').nth(1).unwrap_or_default();
    !stem.is_empty() && same(stem, module) || stem == "index" && same(folder, file)
}

/// Returns `true` if a text that a part of a word may become matches the word of a rule. If that
/// word begins with a wildcard, a part with a value has to match its literal text alone: `*` and
/// `ev*` may be `*evil*`, but `www.ev*` is not taken to be. Globs are `**` and `?`.
pub(super) fn same(rule_word: &str, part: &str) -> bool {
    if !part.contains(['*', '?']) {
        rule_word == part
            || rule_word.contains(['*', '?']) && matches(&tokens(rule_word), &chars(part))
    } else if rule_word.starts_with('*') && part.replace("**", "").contains('*') {
        matches(&tokens(part), &chars(&rule_word.replace('*', "")))
    } else {
        intersect(&tokens(rule_word), &tokens(part))
    }
}

/// Returns `true` if a word that is known in part has a part of the text of a rule's word that
/// begins with a wildcard: it stands in the word, ends before what is not known, or begins behind.
fn overlaps(rule_word: &str, word: &str) -> bool {
    let mut texts = rule_word.split('*').filter(|text| !text.is_empty());
    let Some(first) = texts.next().filter(|_| rule_word.starts_with('*')) else {
        return false;
    };
    let last = texts.next_back().unwrap_or(first);
    let parts = word.split_once('*').zip(word.rsplit_once('*'));
    parts.is_some_and(|((before, _), (_, after))| {
        let mut ends = first.char_indices().map(|(at, c)| at + c.len_utf8());
        let mut starts = last.char_indices();
        !word.contains("://")
            && (word.contains(first)
                || ends.any(|end| before.ends_with(&first[..end]))
                || starts.any(|(start, _)| after.starts_with(&last[start..])))
    })
}

/// Returns `true` if one of two names of resources may be short for the other.
fn is_short(rule_word: &str, part: &str) -> bool {
    let is_part = |short: &str, long: &str| {
        let mut letters = long.chars();
        short.chars().next().is_some_and(|c| long.starts_with(c))
            && short.chars().all(|c| letters.any(|letter| letter == c))
    };
    let part = part.split('.').next().unwrap_or_default();
    is_part(rule_word, part) || is_part(part, rule_word)
}

/// The part after the last slash.
pub(super) fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The word in lower case; what is not known is `*`, and `**` if it is a glob in no option. Escapes
/// of addresses are decoded, and their lists and ranges are wildcards, unless the word has a blank
/// or a double quote, as data has.
pub(super) fn plain(word: &Word) -> String {
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
