//! Names in the words of programs that are not modeled.

use super::glob::{GlobToken, matches, tokens};
use super::paths::{Segment, text_of};
use super::pattern::{CommandPattern, PatternWord, chars};
use super::programs::{first_operand, has_targets, is_console, is_group, is_program, known};
use super::shell::{Part, SHELLS, SimpleCommand, Word};

impl CommandPattern {
    /// The patterns that mean the same to a rule to deny or to ask: other names of the program, a
    /// program without its folder, and the script of a package without `run`.
    pub(super) fn other_names(&self) -> Vec<Self> {
        let mut others = Vec::new();
        let mut add = |words| others.push(self.with_words(words));
        let is = |at: usize, texts: &str| {
            let text = |word: &PatternWord| match word {
                PatternWord::Word(tokens) => text_of(&Segment::Name(tokens.clone())),
                PatternWord::Any => None,
            };
            let word = self.words().get(at).and_then(text).unwrap_or_default();
            texts.split(' ').any(|text| text == word)
        };
        let slash = GlobToken::Char('/');
        let pairs = "ssh=autossh sudo=sudoedit apt=apt-get yarn=yarnpkg pnpm=pnpx python=python3 \
                     pip=pip3 node=nodejs docker-compose=docker+compose rm=grm cp=gcp sed=gsed \
                     awk=gawk find=gfind xargs=gxargs tar=gtar";
        for (name, other) in pairs
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='))
        {
            for (from, to) in [(name, other), (other, name)] {
                let from: Vec<&str> = from.split('+').collect();
                if from.iter().enumerate().all(|(at, text)| is(at, text)) {
                    let word = |text| PatternWord::Word(tokens(text));
                    let words = to.split('+').map(word);
                    let words = words.chain(self.words()[from.len()..].iter().cloned());
                    add(words.collect());
                }
            }
        }
        match self.words().split_first() {
            Some((PatternWord::Word(tokens), rest)) if tokens.first() == Some(&slash) => {
                let at = tokens.iter().rposition(|token| *token == slash);
                let name = tokens[at.map_or(0, |at| at + 1)..].to_vec();
                add([&[PatternWord::Word(name)][..], rest].concat());
            }
            Some((program, [_, script @ ..]))
                if !script.is_empty() && is(0, "npm pnpm yarn bun") && is(1, "run") =>
            {
                add([std::slice::from_ref(program), script].concat());
            }
            _ => {}
        }
        others
    }

    /// Returns `true` if a program that is not modeled may start the pattern's program, or be that
    /// program. Plain words that do not contain the program's name start nothing. If a rule to
    /// allow names the program, all words do that are not the name itself.
    pub(super) fn may_be_started_by(&self, command: &SimpleCommand, is_named: bool) -> bool {
        let Some(PatternWord::Word(program)) = self.words().first() else {
            return !is_named;
        };

        let slash = GlobToken::Char('/');
        let start = program.iter().rposition(|token| *token == slash);
        let program = &program[start.map_or(0, |at| at + 1)..];
        let program: Vec<_> = program.iter().flat_map(folded_token).collect();
        let many = [GlobToken::Many];
        let part = [&many[..], &program, &many[..]].concat();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_option = |text: &str| text.starts_with('-') && !is_flag(text);
        let may_name_program = |word: &Word| {
            let text = folded(&word.literal().unwrap_or_default());
            let name = text.rsplit(|c| *c == '/').next().unwrap_or_default();
            let text: String = text.iter().collect();
            if is_named {
                return matches(&program, name);
            }
            text.is_empty()
                || !text.chars().all(is_plain)
                || is_option(&text)
                || matches(&part, name)
        };
        // `git-lfs` is a part of git.
        let own_name = command.program().unwrap_or_default();
        let own_name = own_name.split('-').next().unwrap_or_default();
        !is_named && matches(&program, &folded(own_name))
            || command.argv.iter().skip(1).any(may_name_program)
    }

    /// Returns `true` if another program may do what the pattern is about: one that is not modeled
    /// and whose name begins or ends with the name of the pattern's, with the same subcommand, such
    /// as `pipx install`, or one that runs the same script of a package.
    pub(super) fn is_like(&self, command: &SimpleCommand) -> bool {
        const RUNNERS: &str =
            "npm pnpm yarn bun npx turbo nx lerna run-s run-p npm-run-all rush wireit";
        let is_runner = |name: &str| RUNNERS.split(' ').any(|runner| runner == name);
        // What stands behind a wildcard is an operand, or the end of a name.
        let texts = self.words().iter().map(literal_prefix);
        let texts: Vec<String> = texts.take_while(|text| !text.is_empty()).collect();
        let [program, subcommand, operands @ ..] = &texts[..] else {
            return false;
        };
        let name = command.program().unwrap_or_default().to_lowercase();
        let has = |text: &String| {
            command
                .argv
                .iter()
                .skip(1)
                .any(|word| word.starts_with_text(text))
        };
        let is_part = name.starts_with(&**program) || name.ends_with(&**program);
        let is_other = *program != name && is_runner(program) && is_runner(&name);
        let is_script = subcommand.starts_with("run") && is_other;
        command.is_unmodeled() && program.len() > 2 && is_part && has(subcommand)
            || is_script && operands.first().is_some_and(has)
    }

    /// Returns the number of words that a rule has to spell out to allow the command, if it has
    /// another subcommand of the pattern's program, or the same one in other words, and may do what
    /// the pattern is about.
    pub(super) fn may_be_done_by(&self, command: &SimpleCommand) -> Option<usize> {
        // What stands behind a wildcard is an operand, or the end of a name.
        let texts = self.words().iter().map(literal_prefix);
        let texts = texts.take_while(|text| !text.is_empty());
        let (options, texts): (Vec<_>, Vec<_>) = texts.partition(|text| text.starts_with('-'));
        let own = command.subcommand.as_ref()?;
        let (program, words) = texts.split_first()?;
        let name = command.program()?;
        if *program != name.to_lowercase() {
            return None;
        }
        if runs_file(words, &name, &command.argv) {
            return Some(2);
        }
        // A rule about an option is about commands with this option, or another spelling of it.
        let has = |option: &String| own.options.iter().any(|own| may_be_option(own, option));
        let has_options = options.iter().all(has);
        // `docker container rm` is `docker rm`.
        let word_count = words.len();
        let (words, own_words) = (without_group(words), without_group(&own.words));
        let has_other_group = own_words.len() + word_count != own.words.len() + words.len();
        let mut pairs = words.iter().zip(own_words);
        let shared = match pairs.position(|(word, own)| word != own) {
            None if has_other_group && !words.is_empty() && words.len() <= own_words.len() => {
                return has_options.then_some(2);
            }
            shared => shared?,
        };

        // `:app:publish`, `deploy[prod]`
        let has_word = |target: &String| {
            let mut words = words.iter();
            words.any(|word| target.contains(word.as_str()) || may_name(target, word, false))
        };
        let has_target = has_targets(&name) && own_words.iter().any(has_word);
        let (word, own_word) = (&words[shared], &own_words[shared]);
        let has_group = is_group(&own_words[0]) || is_group(&name);
        let is_subcommand = shared == 0 || has_group;
        let spells = |option: &String| {
            let name = option.trim_start_matches('-');
            (word.len() > 4 && name.contains(word.as_str()) || name.strip_suffix('s') == Some(word))
                && !name.starts_with("no-")
        };
        let is_known = known(&name, own_words, &own.options, shared).is_some_and(|known| {
            let is_other = known.is_alone() || !own.options.iter().any(spells);
            is_other && (!has_options || !known.may_do(words))
        });
        // The words behind other subcommands are what they are about.
        let is_cluster = name == "kubectl" || name == "oc";
        let is_named = |word: &String| {
            let mut operands = own_words[shared..].iter();
            operands.any(|own| may_name(own, word, is_cluster && own_word == own))
        };
        let is_about = !is_subcommand && has_options && words[shared..].iter().all(is_named);
        let is_open = is_subcommand && (!is_known || has_target) || is_about;
        is_open.then_some(shared + 2)
    }

    /// The number of its first words that a rule to allow spells out.
    pub(super) fn spelled(&self) -> usize {
        let is_text = |word: &&PatternWord| match word {
            PatternWord::Any => false,
            PatternWord::Word(tokens) => !tokens.contains(&GlobToken::Many),
        };
        self.words().iter().take_while(is_text).count()
    }

    /// The number of its first words that a rule to allow spells out, without options and without
    /// the values of options before the first operand.
    pub(super) fn named(&self) -> usize {
        let words = self.words()[..self.spelled()].iter().map(literal_prefix);
        let argv: Vec<Word> = words.map(Word::from_text).collect();
        let Some(name) = argv.first().and_then(Word::basename) else {
            return 0;
        };
        let operands = &argv[first_operand(&name, &argv)..];
        1 + operands
            .iter()
            .filter(|word| !word.starts_with_dash())
            .count()
    }

    /// Returns `true` if the words after the first `known` that a rule to allow does not spell out
    /// are plain: options without values, and operands.
    pub(super) fn covers(&self, argv: &[Word], known: usize) -> bool {
        let spelled = self.spelled();
        let mut follows_option = false;
        let mut is_package = spelled > 1;
        for word in &argv[spelled.max(known).min(argv.len())..] {
            let prefix = word.literal_prefix();
            let Some(text) = word.literal() else {
                let has_parent = word.to_string().split('/').any(|name| name == "..");
                if prefix.is_empty()
                    || prefix.starts_with('-')
                    || word.is_dynamic()
                    || has_parent
                    || follows_option
                {
                    return false;
                }
                continue;
            };

            if text == "--" {
                // What follows may be a program.
                follows_option = true;
                continue;
            }

            if text.len() > 1 && text.starts_with('-') {
                if !is_flag(&text) {
                    return false;
                }
                follows_option = true;
                continue;
            }

            let is_number = text.bytes().all(|b| b.is_ascii_digit());
            if follows_option && !is_number
                || text.starts_with(['+', '@'])
                || text.starts_with("ext::")
                || is_script_address(&text)
                || text.contains(|c: char| "()<>;&|$`\"'{}\\! \n".contains(c))
                || !is_package && text.split_whitespace().any(may_start)
                || text
                    .split_once('=')
                    .is_some_and(|(_, value)| !is_value(value))
                || text.split('/').any(|name| name == "..")
            {
                return false;
            }
            if is_console(&text) && argv.len() > spelled.max(2) {
                // What follows is code.
                return false;
            }
            is_package |= matches!(&*text, "install" | "help");
            follows_option = false;
        }

        true
    }
}

/// The characters of a word before its first wildcard.
fn literal_prefix(word: &PatternWord) -> String {
    let PatternWord::Word(tokens) = word else {
        return String::new();
    };

    let characters = tokens.iter().map_while(|token| match token {
        GlobToken::Char(c) => Some(*c),
        _ => None,
    });
    characters.collect()
}

/// Returns `true` if the words of a rule name a file that an interpreter runs, and a command of it
/// runs that file in another folder, without its ending, or as a module.
fn runs_file(words: &[String], program: &str, argv: &[Word]) -> bool {
    let Some((script, operands)) = words
        .split_first()
        .filter(|(script, _)| script.contains('.'))
    else {
        return false;
    };
    let (folder, file) = script.rsplit_once('/').unwrap_or(("", script));
    let (stem, _) = file.split_once('.').unwrap_or((file, ""));
    let is_file = |text: &str| {
        let name = text.rsplit('/').next().unwrap_or_default();
        let module = name.rsplit('.').next().unwrap_or_default();
        let is_folder = stem == "index" && folder.rsplit('/').next() == Some(name);
        let is_named = name == file || name == stem || module == stem;
        !name.is_empty() && (is_named || is_folder)
    };
    let is_given = |text: &String| {
        argv.iter()
            .any(|word| word.literal().as_ref() == Some(text))
    };
    script_of(program, argv).is_some_and(|text| is_file(&text)) && operands.iter().all(is_given)
}

/// The file or the module that an interpreter runs.
fn script_of(program: &str, argv: &[Word]) -> Option<String> {
    let at = first_operand(program, argv);
    let mut options = (1..at).filter_map(|at| Some((at, argv[at].literal()?)));
    let module = options.find_map(|(at, text)| match text.strip_prefix("-m") {
        Some("") => argv.get(at + 1)?.literal(),
        None if text == "-jar" => argv.get(at + 1)?.literal(),
        module => module.map(str::to_owned),
    });
    module.or_else(|| argv.get(at)?.literal())
}

/// The words of a subcommand without a group that docker also leaves out.
fn without_group(words: &[String]) -> &[String] {
    match words {
        [group, subcommand @ ..] if matches!(&**group, "container" | "image") => subcommand,
        _ => words,
    }
}

/// Returns `true` if two options begin with the same letter, `-g` and `--global`, or if both
/// discard changes.
fn may_be_option(option: &str, other: &str) -> bool {
    let letter = |text: &str| text.trim_start_matches('-').chars().next();
    let forces = |text: &str| matches!(text, "-f" | "--force" | "--hard" | "--discard-changes");
    letter(option) == letter(other) || forces(option) && forces(other)
}

/// Returns `true` if the operand of a command may be what the word of a rule names: all of it or
/// its last part is the same, up to what is not known. Resources of clusters have short names.
fn may_name(operand: &str, word: &str, is_resource: bool) -> bool {
    let is_any = matches!(operand, ":" | "@" | "HEAD");
    let prefix = operand.split(['$', '[']).next().unwrap_or_default();
    let mut pattern = tokens(prefix);
    if pattern.len() < operand.chars().count() {
        pattern.push(GlobToken::Many);
    }
    let ends = operand.rsplit([':', '/', '@', '=', '+']).next();
    let end = tokens(
        ends.filter(|_| !operand.contains(['$', '[']))
            .unwrap_or_default(),
    );
    let is_same = |pattern: &[GlobToken]| matches(pattern, &chars(word));
    let is_short = |short: &str, long: &str| {
        let mut letters = long.chars();
        short.chars().next() == long.chars().next()
            && short.chars().all(|c| letters.any(|l| l == c))
    };
    let resource = operand.split('/').next().unwrap_or_default();
    is_any
        || is_same(&pattern)
        || is_same(&end)
        || is_resource
            && (resource == "all" || is_short(resource, word) || is_short(word, resource))
}

/// Returns `true` if the word is the address of a file with an ending, which may be a script.
fn is_script_address(text: &str) -> bool {
    let address = text.split_once("://").map_or("", |(_, address)| address);
    let path = address.split_once('/').map_or("", |(_, path)| path);
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.contains('.'))
}

/// Returns `true` if the value of a setting is a number or a switch.
fn is_value(value: &str) -> bool {
    matches!(value, "true" | "false" | "auto" | "always" | "never")
        || !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit())
}

/// Returns `true` if the operand names a program that the other words are for, or announces one.
/// Verbs that many programs have as subcommands name none.
fn may_start(text: &str) -> bool {
    const VERBS: &str = "test install make type export import convert cut diff find sort split \
         time join link host file patch env info stat sum date kill wait read set local watch \
         script mail open at top tree fold expand tail head alias history source which task go \
         rm .";
    let is_verb = VERBS.split_ascii_whitespace().any(|verb| verb == text);
    matches!(text, "exec" | "x") || SHELLS.contains(&text) || is_program(text) && !is_verb
}

/// Returns `true` for `-x` and `--long`, with no value but a number or a switch. More letters may
/// be an option with the name of a program.
fn is_flag(text: &str) -> bool {
    let (name, value) = text.split_once('=').unwrap_or((text, "true"));
    let letters = name.trim_start_matches('-');
    let is_name = letters
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_value(value) && is_name && (name.starts_with("--") || letters.len() < 3)
}

fn folded(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn folded_token(token: &GlobToken) -> Vec<GlobToken> {
    match token {
        GlobToken::Char(c) => c.to_lowercase().map(GlobToken::Char).collect(),
        wildcard => vec![*wildcard],
    }
}

/// The part after the last slash, as a pattern.
pub(super) fn program_glob(word: &Word) -> Vec<GlobToken> {
    let mut tokens = Vec::new();
    for part in &word.parts {
        match part {
            Part::Text { text, .. } => tokens.extend(text.chars().map(GlobToken::Char)),
            Part::Glob('?') => tokens.push(GlobToken::One),
            Part::Brace(c) => tokens.push(GlobToken::Char(*c)),
            _ => tokens.push(GlobToken::Many),
        }
    }

    match tokens
        .iter()
        .rposition(|token| *token == GlobToken::Char('/'))
    {
        Some(slash) => tokens.split_off(slash + 1),
        None => tokens,
    }
}

/// Returns `true` for an address that may lead out of the folder before the star of a pattern.
pub(super) fn may_climb(text: &str) -> bool {
    let escaped = text.to_ascii_lowercase().replace("%2e", ".");
    text.contains("://") && (escaped.contains("..") || text.contains(['{', '[']))
}

/// Returns `false` for an address whose host is not the one of the pattern: a star does not match
/// the slash behind the host.
pub(super) fn has_host(tokens: &[GlobToken], text: &str) -> bool {
    let text = chars(text);
    let slashes = text.iter().enumerate().filter(|(_, c)| **c == '/');
    let text_end = slashes.map(|(at, _)| at).nth(2);
    let slash = GlobToken::Char('/');
    let slashes = tokens.iter().enumerate().filter(|(_, t)| **t == slash);
    let end = slashes.map(|(at, _)| at).nth(2);
    let is_address = text.iter().collect::<String>().contains("://");
    !is_address
        || matches(
            &tokens[..end.unwrap_or(tokens.len())],
            &text[..text_end.unwrap_or(text.len())],
        )
}
