//! Comparisons of a pattern with commands that are spelled differently: other names of its program,
//! other programs and subcommands that may do its work, and words that a rule to allow does not
//! spell out.

use super::glob::{self, GlobToken, literal_char, matches};
use super::options::may_have_flag;
use super::pattern::{CommandPattern, PatternWord, chars};
use super::programs::{first_operand, is_console, is_group, is_program, known, without_version};
use super::rule_words::{file_name, may_match_word};
use super::shell::{SHELLS, SimpleCommand, Word};

impl CommandPattern {
    /// Returns the pattern, and those that mean the same to a rule to deny or to ask: other names
    /// of the program, a program without its folder, and the script of a package without `run`.
    pub(super) fn spellings(&self) -> Vec<Self> {
        // `a=b`: each is another name of the other. `a>b`: a rule about `a` is also about `b`, a
        // program that is `a` with other defaults. `+` joins words.
        const PAIRS: &str = "\
            ssh=autossh ssh>scp ssh>sftp sudo=sudoedit apt=apt-get yarn=yarnpkg pnpm=pnpx \
            python=python3 pip=pip3 pip>uv+pip pip+install>pipenv+install npx=npm+exec npx=npm+x \
            bunx=bun+x uvx=uv+tool+run node=nodejs docker-compose=docker+compose rm=grm cp=gcp \
            sed=gsed awk=gawk awk=mawk awk=nawk find=gfind xargs=gxargs tar=gtar make=gmake \
            node=tsx node=ts-node vim=vi vim>view nc=netcat gcc=cc g++=c++ mvn=mvnw gradle=gradlew \
            docker+rmi=docker+image+rm grep>egrep grep>fgrep grep>zgrep gzip>gunzip gzip>zcat \
            xz>unxz xz>xzcat bzip2>bunzip2 bzip2>bzcat zstd>unzstd zstd>zstdcat pytest=py.test \
            sh>dash sh>ash bash>rbash vim>rvim vim>gvim vim>vimdiff vim>ex emacs>emacsclient \
            make>gnumake git>hub kubectl=oc kubectl>k terraform=tofu terraform>terragrunt \
            shutdown=reboot shutdown=poweroff shutdown=halt ssh=slogin vim>rview vim>gview vim>evim \
            gpg=gpg2 mysql=mariadb grep>rgrep grep>xzgrep grep>bzgrep fd=fdfind bat=batcat \
            xz>lzma xz>unlzma xz>lzcat gzip>uncompress zstd>zstdmt less>pager nano>pico nano>editor \
            vim>editor ssh>rlogin gcc>c99 gcc>c89";
        let texts: Vec<String> = self.words().iter().map(PatternWord::text).collect();
        let mut spellings = vec![self.clone()];
        let mut add = |names: &str, operands: &[String]| {
            let words = names.split('+').chain(operands.iter().map(String::as_str));
            spellings.push(self.with_words(words.map(PatternWord::new).collect()));
        };
        let pairs = PAIRS.split_whitespace().filter_map(|pair| {
            let (name, other) = pair.split_once(['=', '>'])?;
            let back = pair.contains('=').then_some((other, name));
            Some([Some((name, other)), back])
        });
        for (from, to) in pairs.flatten().flatten() {
            let count = from.split('+').count();
            if texts.len() >= count && from.split('+').eq(texts[..count].iter()) {
                add(to, &texts[count..]);
            }
        }
        match &texts[..] {
            [path, operands @ ..] if path.starts_with('/') => add(file_name(path), operands),
            [program, run, script @ ..] if run == "run" && !script.is_empty() => {
                if matches!(&**program, "npm" | "pnpm" | "yarn" | "bun") {
                    add(program, script);
                }
            }
            _ => {}
        }
        spellings
    }

    /// Returns `true` if a program that is not modeled may start the pattern's program, or be that
    /// program. A plain word that does not contain the program's name starts nothing. If a rule to
    /// allow names the command (`is_named`), only a word that may be the name itself counts.
    pub(super) fn may_be_started_by(&self, command: &SimpleCommand, is_named: bool) -> bool {
        let Some(program) = self.words().first().filter(|word| word.tokens().is_some()) else {
            return !is_named;
        };
        let program = program.text().to_lowercase();
        let program = file_name(&program);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let may_name_program = |word: &Word| {
            let text = word.literal().unwrap_or_default().to_lowercase();
            if is_named {
                return may_match_word(program, file_name(&text));
            }
            let is_plain = match text.strip_prefix('-') {
                Some(_) => is_flag(&text),
                None => !text.is_empty() && text.chars().all(is_plain),
            };
            !is_plain || may_match_word(&format!("*{program}*"), file_name(&text))
        };
        let own_name = command.program().unwrap_or_default().to_lowercase();
        let mut names = names_of_program(&own_name);
        !is_named && names.any(|name| may_match_word(program, name))
            || command.argv.iter().skip(1).any(may_name_program)
    }

    /// Returns the number of words by which a rule to allow has to name the command, if it has
    /// another subcommand of the pattern's program that may do what the pattern is about.
    pub(super) fn words_to_allow(&self, command: &SimpleCommand) -> Option<usize> {
        // What stands behind a wildcard is an operand, or the end of a name.
        let texts = self.words().iter().map(literal_prefix);
        let texts = texts.take_while(|text| !text.is_empty());
        let (options, texts): (Vec<_>, Vec<_>) = texts.partition(|text| text.starts_with('-'));
        let own = command.subcommand.as_ref()?;
        let (program, words) = texts.split_first()?;
        let name = command.program()?;
        let name = name.to_lowercase();
        // `docker-compose rm` is `docker compose rm`, and `docker container rm` is `docker rm`.
        let is_compose = name == "docker-compose" && program == "docker";
        let group = is_compose.then(|| "compose".to_owned());
        let own_words: Vec<String> = group.into_iter().chain(own.words.iter().cloned()).collect();
        let name = if is_compose { "docker" } else { &*name };
        if program != name {
            return None;
        }
        let (words, own_words) = (without_group(words), without_group(&own_words));
        let mut pairs = words.iter().zip(own_words);
        let shared = pairs.position(|(word, own)| word != own)?;
        // The word behind one that is no group is an operand, not a subcommand.
        if shared > 0 && !is_group(&own_words[0]) && !is_group(name) {
            return None;
        }
        let word = &words[shared];
        // An option may do the work of the word, as `--push` of `docker build` does. An option of
        // git with the short name of a subcommand does not, such as `--push` of `git remote
        // get-url`, nor does `--release` of cargo.
        let spells = |option: &String| {
            let name = option.trim_start_matches('-');
            let is_named =
                name == word && *program != "git" || name.strip_suffix('s') == Some(word);
            (is_named || word.len() > 4 && name.contains(word.as_str()))
                && !name.starts_with("no-")
                && word != "release"
        };
        // A rule about an option is about commands with this option, or another spelling of it.
        let prunes = own
            .options
            .iter()
            .any(|option| option.starts_with("--prune-"));
        let has = |option: &String| {
            let is_deletion = matches!(&**option, "-d" | "-D" | "--delete");
            is_deletion && prunes
                || option == "--hard" && restores_all(&own.words)
                || may_have_flag(name, &own.options, option)
        };
        let has_options = options.iter().all(has);
        let is_known = known(name, own_words, &own.options, shared).is_some_and(|known| {
            let is_other = known.is_alone() || !own.options.iter().any(spells);
            is_other && (!has_options || !known.may_do(words))
        });
        // The program, the words that are shared, and the one that differs.
        (!is_known).then_some(shared + 2)
    }

    /// Returns the number of words that a rule to allow spells out: those before the first one with
    /// a star.
    pub(super) fn spelled_count(&self) -> usize {
        let is_text = |word: &&PatternWord| {
            let word = word.tokens();
            word.is_some_and(|word| !word.contains(&GlobToken::Many))
        };
        self.words().iter().take_while(is_text).count()
    }

    /// Returns the number of words by which a rule to allow names its commands: the words that it
    /// spells out, without options and without the values of options before the first operand.
    pub(super) fn named_count(&self) -> usize {
        let words = self.words()[..self.spelled_count()]
            .iter()
            .map(literal_prefix);
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

    /// Returns `true` if the words of a command behind those that a rule to allow spells out, and
    /// behind the first `known` ones, are plain: options without values, and operands.
    pub(super) fn has_plain_tail(&self, argv: &[Word], known: usize) -> bool {
        let spelled = self.spelled_count();
        let mut follows_option = false;
        let mut follows_verb = false;
        // Behind a subcommand, the name of a program is taken for that of a package or a topic.
        let mut may_name_programs = spelled > 1;
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
            if text.len() > 1 && text.starts_with('-') {
                if !is_flag(&text) {
                    return false;
                }
                // What follows `--` may be a program.
                follows_option = true;
                continue;
            }
            let is_number = text.bytes().all(|b| b.is_ascii_digit());
            // Not plain: the value of an option, a toolchain (`+x`), a file of arguments (`@x`), a
            // command for git to run (`ext::x`), the address of a script, an address behind a verb,
            // code, a program, a setting that is no number or switch, and a path with `..`.
            if follows_option && !is_number
                || text.starts_with(['+', '@'])
                || text.starts_with("ext::")
                || is_script_address(&text)
                || follows_verb && text.contains("://")
                || text.contains(|c: char| "()<>;&|$`\"'{}\\! \n".contains(c))
                || !may_name_programs && text.split_whitespace().any(may_start)
                || text
                    .split_once('=')
                    .is_some_and(|(_, value)| !is_value(value))
                || text.split('/').any(|name| name == "..")
            {
                return false;
            }
            let is_short = is_short_console(argv, word);
            if (is_short || is_console(&text)) && argv.len() > spelled.max(2) {
                // What follows is code.
                return false;
            }
            may_name_programs |= matches!(&*text, "install" | "help");
            // What a program does first with an address is its purpose, as in `http GET`.
            follows_verb |= !is_number && text.chars().any(|c| c.is_ascii_lowercase());
            follows_option = false;
        }
        true
    }
}

/// Returns the names of programs that the full name of a program may mean: `git-lfs` is a part of
/// git, `git.exe`, `perl5.36-x86_64-linux-gnu`, `x86_64-linux-gnu-gcc-12` and `gnurm` are the
/// programs.
fn names_of_program(full_name: &str) -> impl Iterator<Item = &str> {
    let first = full_name.split(['-', '.']).next().unwrap_or_default();
    let is_name = |piece: &&str| piece.contains(|c: char| c.is_ascii_alphabetic());
    let has_machine = full_name.matches('-').count() > 1;
    let last = full_name.rsplit('-').find(is_name);
    let last = last.filter(|_| has_machine);
    let others = [last, first.strip_prefix("gnu")].into_iter().flatten();
    let names = [first, without_version(first)].into_iter().chain(others);
    names.filter(|name| !name.is_empty())
}

/// Returns the characters of a word before its first wildcard.
fn literal_prefix(word: &PatternWord) -> String {
    let tokens = word.tokens().unwrap_or_default();
    tokens.iter().map_while(literal_char).collect()
}

/// Returns `true` if the words of a subcommand of git restore all files, as `reset --hard` does.
fn restores_all(words: &[String]) -> bool {
    let verb = words.first().map(String::as_str);
    let is_root = |word: &String| matches!(&**word, "." | "./" | ":/" | "*");
    matches!(verb, Some("checkout" | "restore")) && words.iter().any(is_root)
}

/// Returns the words of a subcommand without a group that docker also leaves out.
pub(super) fn without_group(words: &[String]) -> &[String] {
    match words {
        [group, subcommand @ ..] if matches!(&**group, "container" | "image") => subcommand,
        _ => words,
    }
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
    const VERBS: &str = "\
        test install make type export import convert cut diff find sort split time join link host \
        file patch env info stat sum date kill wait read set local watch script mail open at top \
        tree fold expand tail head alias history source which task go rm .";
    let is_verb = VERBS.split_ascii_whitespace().any(|verb| verb == text);
    matches!(text, "exec" | "x") || SHELLS.contains(&text) || is_program(text) && !is_verb
}

/// Returns `true` for `-x` and `--long`, with no value but a number or a switch. More than two
/// letters behind one dash may be an option and the name of a program.
fn is_flag(text: &str) -> bool {
    let (name, value) = text.split_once('=').unwrap_or((text, "true"));
    let letters = name.trim_start_matches('-');
    let is_name = letters
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_value(value) && is_name && (name.starts_with("--") || letters.len() < 3)
}

/// Returns `true` for an address that may lead out of the folder before the star of a pattern.
pub(super) fn may_climb(text: &str) -> bool {
    let escaped = text.to_ascii_lowercase().replace("%2e", ".");
    text.contains("://") && (escaped.contains("..") || text.contains(['{', '[']))
}

/// Returns `false` for an address whose host is not the one of the pattern: a star does not match
/// the slash behind the host.
pub(super) fn has_host(tokens: &[GlobToken], text: &str) -> bool {
    let host = |text: &str, marks: &[char]| {
        let end = text.match_indices(marks).nth(2);
        text[..end.map_or(text.len(), |(at, _)| at)].to_owned()
    };
    let pattern = PatternWord::Word(tokens.to_vec()).text();
    let pattern = glob::tokens(&host(&pattern, &['/']));
    !text.contains("://") || matches(&pattern, &chars(&host(text, &['/', '?', '#', '\\'])))
}

/// Returns `true` if the word is a subcommand of rails that runs code, by its first letters.
fn is_short_console(argv: &[Word], word: &Word) -> bool {
    let is_rails = argv[0].basename().is_some_and(|name| name == "rails");
    let is_verb = argv.get(1).is_some_and(|verb| std::ptr::eq(verb, word));
    is_rails && is_verb && ["r", "c", "db"].iter().any(|verb| word.is(verb))
}
