//! Commands that a rule to deny or to ask may be about.

use std::borrow::Cow;
use std::ops::Range;

use super::clues::{program_glob, without_group};
use super::glob::{GlobToken, character, folded, intersect, matches, tokens};
use super::options::{WordsAndFlags, may_have_flag, unversioned_name};
use super::pattern::{CommandPattern, PatternWord};
use super::programs::{first_operand, has_targets, is_group, runs_files};
use super::shell::{Part, SHELLS, SimpleCommand, Word};

/// A word of a pattern, or of a command as far as it is known.
type Tokens = [GlobToken];

impl CommandPattern {
    /// Returns `true` if the command runs the program of the pattern and no fixed word of the
    /// pattern is certainly missing in it. Neither the order of the words counts, nor the part of a
    /// word in which an operand is.
    pub(super) fn may_be_about(&self, command: &SimpleCommand) -> bool {
        let Some((program, words)) = self.words().split_first() else {
            return false;
        };
        let fixed: Vec<_> = words.iter().filter_map(PatternWord::tokens).collect();
        let is_named = |name: &str| {
            let name: Vec<char> = name.chars().collect();
            let program = program.tokens();
            program.is_none_or(|program| matches(program, &name))
        };
        if !self.may_name(command) {
            return false;
        }
        let Some(mut name) = command.program().map(|name| name.to_lowercase()) else {
            let name = program_glob(&command.argv[0]);
            let program = program.tokens();
            return program.is_none_or(|program| intersect(program, &name));
        };
        let mut argv = Cow::Borrowed(&command.argv);
        if let Some(subcommand) = name.strip_prefix("git-") {
            let words = ["git", subcommand].map(Word::from_text);
            argv = Cow::Owned([&words[..], &argv[1..]].concat());
            name.truncate(3);
        }
        let runs_scripts = runs_scripts(&name);
        if is_named(&name) || is_named(unversioned_name(&name)) {
            // Each word may be a target, or a script.
            let has_verb = !has_targets(&name) && !runs_scripts;
            let own = own_words(command, &argv).filter(|_| has_verb);
            let parts = self.parts().zip(WordsAndFlags::of(&argv));
            let may_mean = parts.is_some_and(|(own, mut parts)| {
                if first_operand(&name, &argv) == argv.len() {
                    parts.words.truncate(1);
                }
                parts.may_mean(&own)
            });
            return may_mean || !fixed.is_empty() && has_all(&name, &fixed, &argv, own.as_deref());
        }
        program.tokens().is_some_and(|program| {
            program.iter().any(|token| is_mark(*token, "./"))
                && runs_scripts
                && has_all(&name, &[&[program], &fixed[..]].concat(), &argv, None)
        })
    }

    /// Returns `true` if a program with a similar name, or another one that runs the scripts of a
    /// package, is given the fixed words of the pattern.
    pub(super) fn may_be_about_alike(&self, command: &SimpleCommand) -> bool {
        const RUNNERS: &str =
            "npm pnpm yarn bun npx turbo nx lerna run-s run-p npm-run-all rush wireit";
        let is_runner = |name: &str| RUNNERS.split(' ').any(|runner| runner == name);
        let texts = self.words().iter().filter_map(PatternWord::tokens);
        let texts: Vec<&Tokens> = texts.collect();
        let [program, fixed @ ..] = &texts[..] else {
            return false;
        };
        let program: String = program.iter().filter_map(character).collect();
        let name = command.program().unwrap_or_default().to_lowercase();
        let is_part = name.starts_with(&program) || name.ends_with(&program);
        let is_like = command.is_unmodeled() && program.len() > 2 && is_part;
        let is_script = is_runner(&program) && is_runner(&name) && program != name;
        let is_run = |word: &&Tokens| word.iter().filter_map(character).eq("run".chars());
        let script = fixed.iter().copied().filter(|word| !is_run(word));
        let script: Vec<_> = script.collect();
        let runs = is_script && script.len() < fixed.len() && !script.is_empty();
        is_like && !fixed.is_empty() && has_all(&name, fixed, &command.argv, None)
            || runs && has_all(&name, &script, &command.argv, None)
    }
}

/// The words of the subcommand, if the program has any.
fn own_words(command: &SimpleCommand, argv: &[Word]) -> Option<Vec<String>> {
    match &command.subcommand {
        Some(own) => Some(own.words.clone()),
        None if command.guessed => Some(WordsAndFlags::of(argv)?.words.split_off(1)),
        None => None,
    }
}

/// Returns `true` if the program runs a file that its words name.
fn runs_scripts(name: &str) -> bool {
    SHELLS.contains(&name) || runs_files(name)
}

/// The indices of the words of which one is the script of an interpreter, with its options.
fn script(name: &str, argv: &[Word]) -> Range<usize> {
    if !runs_scripts(name) {
        return 0..0;
    }
    let module = argv.iter().position(|word| word.starts_with_text("-m"));
    module.map_or_else(|| 1..first_operand(name, argv) + 1, |at| at..at + 2)
}

/// Returns `true` for a group of subcommands that docker leaves out.
fn is_container(word: &Tokens) -> bool {
    let text: String = word.iter().filter_map(character).collect();
    matches!(&*text, "container" | "image")
}

/// Returns `true` if each of the fixed words may be in the command. `own` are the words of its
/// subcommand.
fn has_all(name: &str, fixed: &[&Tokens], argv: &[Word], own: Option<&[String]>) -> bool {
    let Some(parts) = WordsAndFlags::of(argv) else {
        return true;
    };
    let is_option = |word: &&Tokens| {
        let first = word.iter().find(|token| **token != GlobToken::Many);
        first.is_some_and(|token| is_mark(*token, "-"))
    };
    let (options, operands): (Vec<&Tokens>, Vec<&Tokens>) =
        fixed.iter().copied().partition(is_option);
    let has_end = argv
        .iter()
        .any(|word| word.literal().as_deref() == Some("--"));
    let is_given = |option: &&Tokens| {
        let option: String = option.iter().filter_map(character).collect();
        if option == "--" {
            return has_end;
        }
        option.len() < 2 || parts.is_partial || may_have_flag(name, &parts.flags, &option)
    };
    if !options.iter().all(is_given) {
        return false;
    }

    let is_open = |word: &&Tokens| word.first() == Some(&GlobToken::Many);
    let is_known = |text: &String| !text.contains(['$', '*', '?', '[']);
    let operands = match &operands[..] {
        [group, operands @ ..] if own.is_some() && is_container(group) => operands,
        operands => operands,
    };
    let (verb, operands) = match (operands.split_first(), own) {
        (Some((verb, operands)), Some(own)) if !is_open(verb) && !own.is_empty() => {
            (Some((*verb, own)), operands)
        }
        _ => (None, operands),
    };
    let is_same = verb.is_none_or(|(verb, own)| {
        let word = without_group(own).first();
        word.is_some_and(|word| !is_known(word) || fits(verb, &tokens(&word.to_lowercase())))
    });
    let script = script(name, argv);
    // The words behind a subcommand that is known name none.
    let path = own.map_or(0, |own| {
        1 + own.first().map_or(0, |word| usize::from(is_group(word)))
    });
    let is_path_known = own.is_some_and(|own| own.iter().take(path).all(is_known));
    let words: Vec<_> = argv.iter().map(decoded).collect();
    is_same
        && operands.iter().all(|operand| {
            let operand: Vec<GlobToken> = operand.iter().flat_map(|token| folded(*token)).collect();
            let skips_unknown = is_open(&&operand[..]) && is_path_known;
            let mut words = words.iter().enumerate().skip(1);
            words.any(|(at, word)| {
                (!skips_unknown || argv[at].literal().is_some())
                    && may_hold(&operand, word, name, script.contains(&at))
            })
        })
}

/// The maximum length of a word with wildcards that is compared; a longer one may be any.
const MAX_WORD: usize = 4096;

/// Returns `true` if the word of a command may be, or have as a part, what the word of a rule
/// names.
fn may_hold(wanted: &Tokens, word: &Tokens, name: &str, is_script: bool) -> bool {
    let is_cluster = name == "kubectl" || name == "oc";
    let is_mark = |token: &GlobToken| is_mark(*token, "=,:@+?#&;|");
    let text: Option<String> = word.iter().map(character).collect();
    let is_git_any = matches!(text.as_deref(), Some(":" | "@" | "head"));
    if name == "git" && is_git_any
        || is_cluster && text.as_deref() == Some("all")
        || text.is_none() && word.len() > MAX_WORD
    {
        return true;
    }
    if let Some(text) = text.filter(|text| text.starts_with('-') && !text.starts_with("--")) {
        // The value may stand behind any letter.
        let any = [&[GlobToken::Many], &wanted[..]].concat();
        return text.len() > 2 && matches(&any, &text.chars().skip(2).collect::<Vec<_>>())
            || word.split(is_mark).any(|part| fits(wanted, part));
    }

    let is_address = word
        .windows(3)
        .any(|part| part == [GlobToken::Char(':'), SLASH, SLASH]);
    let slash = |token: &GlobToken| *token == SLASH;
    fits(wanted, word)
        || is_script
            && word
                .split(slash)
                .next_back()
                .is_some_and(|file| is_module(wanted, file))
        || word.split(is_mark).any(|part| {
            let mut names = part.split(slash);
            fits(wanted, part)
                || (is_address || is_cluster) && names.any(|part| fits(wanted, part))
                || is_cluster && part.split(slash).any(|part| is_short(wanted, part))
        })
}

const SLASH: GlobToken = GlobToken::Char('/');
const DOT: GlobToken = GlobToken::Char('.');

/// Returns `true` if a part of a word may be what the word of a rule names, or has the same last
/// name, with or without an ending.
fn fits(wanted: &Tokens, part: &Tokens) -> bool {
    let (wanted, part) = (without_slash(wanted), without_slash(part));
    let slash = |token: &GlobToken| *token == SLASH;
    let last = |tokens: &'_ Tokens| {
        let at = tokens.iter().rposition(slash);
        at.map_or(0, |at| at + 1)
    };
    let (wanted_name, name) = (&wanted[last(wanted)..], &part[last(part)..]);
    if fits_part(wanted, part) || wanted_name == [GlobToken::Many] || wanted_name.is_empty() {
        return fits_part(wanted, part);
    }
    let dot = |token: &GlobToken| *token == DOT;
    let is_text = name.iter().all(|token| character(token).is_some());
    let is_stem = |stem: &Tokens| is_text && !stem.is_empty();
    let is_outside = !matches!(wanted, [SLASH, ..]) || matches!(part, [SLASH | DOT, ..]);
    let mut stems = name.split(dot).filter(|_| !wanted_name.contains(&DOT));
    is_outside
        && (fits_part(wanted_name, name)
            || stems
                .next()
                .is_some_and(|stem| is_stem(stem) && fits_part(wanted_name, stem)))
}

/// Returns `true` if the word of a rule is a file that an interpreter runs as a module, or without
/// its ending.
fn is_module(wanted: &Tokens, file: &Tokens) -> bool {
    let dot = |token: &GlobToken| *token == DOT;
    let slash = |token: &GlobToken| *token == SLASH;
    let name = wanted.split(slash).next_back().unwrap_or_default();
    let stem = name.split(dot).next().unwrap_or_default();
    let module = file.split(dot).next_back();
    let mut names = wanted.rsplit(slash).skip(1);
    let is_index = stem.iter().filter_map(character).eq("index".chars());
    if is_index && names.next().is_some_and(|folder| fits_part(folder, file)) {
        return true;
    }
    !stem.is_empty() && name.contains(&DOT) && module.is_some_and(|module| fits_part(stem, module))
}

/// Returns `true` if a text that a part of a word stands for matches the word of a rule. One that
/// begins with a wildcard matches no more of what is not known than it names.
fn fits_part(wanted: &Tokens, part: &Tokens) -> bool {
    let characters: Option<Vec<char>> = part.iter().map(character).collect();
    match characters {
        Some(text) => matches(wanted, &text),
        None if wanted.first() == Some(&GlobToken::Many) => {
            let text: Vec<char> = wanted.iter().filter_map(character).collect();
            matches(part, &text)
        }
        None => intersect(wanted, part),
    }
}

/// Returns `true` if one of two names of resources may be short for the other.
fn is_short(wanted: &Tokens, part: &Tokens) -> bool {
    let letters = |tokens: &Tokens| -> String {
        let dot = |token: &&GlobToken| **token != GlobToken::Char('.');
        tokens
            .iter()
            .take_while(dot)
            .filter_map(character)
            .collect()
    };
    let is_part = |short: &str, long: &str| {
        let mut letters = long.chars();
        !short.is_empty()
            && short.chars().next() == long.chars().next()
            && short.chars().all(|c| letters.any(|letter| letter == c))
    };
    let (wanted, part) = (letters(wanted), letters(part));
    is_part(&wanted, &part) || is_part(&part, &wanted)
}

fn without_slash(tokens: &Tokens) -> &Tokens {
    match tokens {
        [GlobToken::Char('.'), GlobToken::Char('/'), tokens @ ..] if !tokens.is_empty() => {
            without_slash(tokens)
        }
        [tokens @ .., GlobToken::Char('/')] if !tokens.is_empty() => tokens,
        _ => tokens,
    }
}

/// The word in lower case, without escapes of addresses; what is not known is a wildcard.
fn decoded(word: &Word) -> Vec<GlobToken> {
    let mut tokens = Vec::new();
    for part in &word.parts {
        match part {
            Part::Text { text, .. } => {
                let mut chars = text.chars();
                while let Some(c) = chars.next() {
                    let rest = chars.as_str();
                    let code = rest.get(..2).filter(|_| c == '%');
                    if let Some(code) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                        tokens.push(GlobToken::Char(char::from(code)));
                        chars = rest[2..].chars();
                        continue;
                    }
                    if matches!(c, '*' | '?') {
                        // The program may expand it.
                        tokens.push(GlobToken::Many);
                        continue;
                    }
                    let end = if c == '[' { ']' } else { '}' };
                    let is_plain = |c: char| c.is_ascii_alphanumeric() || ",-.".contains(c);
                    let list = Some(rest).filter(|_| matches!(c, '[' | '{'));
                    let list_end = list.and_then(|list| list.find(|c| !is_plain(c)));
                    match list_end.and_then(|at| rest[at..].strip_prefix(end)) {
                        Some(rest) => {
                            tokens.push(GlobToken::Many);
                            chars = rest.chars();
                        }
                        None => tokens.push(GlobToken::Char(c)),
                    }
                }
            }
            Part::Brace(c) => tokens.push(GlobToken::Char(*c)),
            Part::Glob('?') => tokens.push(GlobToken::One),
            Part::Home(_) => tokens.extend([SLASH, GlobToken::Many]),
            Part::Glob(_) | Part::Value { .. } => tokens.push(GlobToken::Many),
        }
    }
    tokens.into_iter().flat_map(folded).collect()
}

fn is_mark(token: GlobToken, marks: &str) -> bool {
    matches!(token, GlobToken::Char(c) if marks.contains(c))
}
