//! The normalization of command options for deny and ask rules.
//!
//! A *flag* is a word that begins with a dash, such as `-rf`: its letters, or its long name, are
//! options.

use super::paths::lexical;
use super::programs::{first_operand, has_fixed_end, is_uncertain, unversioned_name};
use super::shell::Word;

/// Short options and the long options that they may mean, behind the programs that have them.
///
/// A letter has several if its meaning depends on the subcommand, such as `-f` of docker: a rule
/// about one of a group matches all of it, as is right for a rule to deny or to ask. An option
/// without `=` has no other name. The table has the options that rules are written about and those
/// of daily use.
const OPTION_NAMES: &str = "\
rm|r=R=--recursive f=--force i=--interactive d=--dir v=--verbose --no-preserve-root --one-file-system
cp gcp mv ln mkdir|r=R=--recursive f=--force a=--archive v=--verbose s=--symbolic p=--preserve=--parents
find gfind|--delete --exec --execdir --ok --okdir
chmod chown|R=--recursive v=--verbose
git|f=--force=--force-with-lease d=--delete D=--delete n=--no-verify=--dry-run q=--quiet a=A=--all m=--message p=--patch u=--set-upstream=--include-untracked=--update b c C B w=--ignore-all-space X=--strategy-option S=--gpg-sign s=--signoff i=--interactive v=--verbose --amend --hard --soft --mixed --cached=--staged --tags --mirror --no-edit --no-ff --ff-only --oneline --stat --prune --abort --continue
curl|o=--output O=--remote-name k=--insecure d=--data X=--request T=--upload-file F=--form f=--fail i=--include u=--user s=--silent S=--show-error L=--location I=--head H=--header v=--verbose
grep egrep fgrep rg|r=R=--recursive=--dereference-recursive n=--line-number i=--ignore-case l=--files-with-matches
docker|f=--force=--follow=--file v=--volume=--volumes p=--publish=--project-name d=--detach i=--interactive t=--tty=--tag e=--env a=--all q=--quiet --privileged --rm --no-cache --name
kubectl|f=--filename=--follow n=--namespace A=--all-namespaces o=--output l=--selector p=--previous=--patch w=--watch i=--stdin t=--tty --force --all
make gmake|C=--directory B=--always-make n=--dry-run=--just-print=--recon k=--keep-going j=--jobs s=--silent=--quiet
wget rsync|O=--output-document r=--recursive m=--mirror a=--archive q=--quiet v=--verbose z=--compress n=--dry-run c=--continue=--checksum --delete --no-check-certificate
npm pnpm yarn bun|g=--global f=--force D=--save-dev=--dev E=--save-exact=--exact s=--silent w=--workspace y=--yes
tar gtar|x=--extract=--get c=--create t=--list f=--file z=--gzip v=--verbose C=--directory
sed gsed|n=--quiet=--silent i=--in-place e=--expression E=r=--regexp-extended
apt apt-get|y=--yes=--assume-yes q=--quiet f=--fix-broken
cargo|r=--release p=--package q=--quiet v=--verbose j=--jobs F=--features --all-targets --workspace=--all --no-verify
gh|w=--web f=--fill d=--draft=--delete-branch s=--squash m=--merge r=--rebase=--reviewer b=--body t=--title R=--repo --admin
pip pip3|r=--requirement e=--editable U=--upgrade q=--quiet --break-system-packages
helm|n=--namespace f=--values i=--install A=--all-namespaces --force
ls|a=--all l t h=--human-readable r=--reverse R=--recursive d=--directory --color
";

/// Returns `true` if the flags `given` hold `wanted`, alone, among others or under its other name.
pub(super) fn has_flag(program: &str, given: &[String], wanted: &str) -> bool {
    let groups = groups_of(program);
    // Some programs accept long options with one dash.
    let is_same = |flag: &String| bare(flag) == bare(wanted) && bare(wanted).len() > 1;
    if !wanted.contains('=') && given.iter().any(is_same) {
        return true;
    }

    if wanted.starts_with("--") {
        let names = group_of(groups, wanted);
        return given.iter().any(|flag| means(flag, wanted, &names));
    }
    given.iter().any(|flag| flag == wanted)
        || wanted[1..].chars().all(|letter| {
            let letter = letter.to_string();
            let names = group_of(groups, &letter);
            given.iter().any(|flag| means(flag, &letter, &names))
        })
}

/// Returns `true` if one of the letters of `flag`, or its long name, means the option.
fn means(flag: &str, option: &str, names: &[&str]) -> bool {
    let name = flag.split('=').next().unwrap_or_default();
    let abbreviates =
        |known: &str| name.len() > 2 && !known.contains('=') && known.starts_with(name);
    let mut names = names.iter().copied().chain([option]);
    names.any(|known| match (known.len(), flag.starts_with("--")) {
        (1, false) => flag[1..].contains(known),
        (1, true) | (_, false) => false,
        (_, true) => flag == known || abbreviates(known),
    })
}

/// Returns `true` if options in `given` may mean `wanted`: one of two long names is the beginning
/// of the other, a letter and a long name are not known, or both force. An option of more than
/// three letters behind one dash may be a long one.
pub(super) fn may_have_flag(program: &str, given: &[String], wanted: &str) -> bool {
    let groups = groups_of(program);
    let names: Vec<&str> = groups.split([' ', '=']).collect();
    let is_known = |option: &str| names.contains(&option);
    let forces = |flag: &str| match flag {
        "-f" => !is_known("f") || group_of(groups, "f").contains(&"--force"),
        _ => matches!(flag, "--force" | "--hard" | "--discard-changes"),
    };
    let is_double = |flag: &str| flag.starts_with("--");
    let is_long = |flag: &str| is_double(flag) || flag.len() > 4;
    let is_open = |flag: &str| match flag.strip_prefix("--") {
        Some(_) => !is_known(flag.split('=').next().unwrap_or_default()),
        None => bare(flag)
            .chars()
            .any(|c| !is_known(c.encode_utf8(&mut [0; 4]))),
    };
    let wanted_is_open = is_open(wanted);
    let name = bare(wanted).to_lowercase();
    let is_like = |flag: &String| {
        let flag_name = bare(flag).to_lowercase();
        let is_part = name.starts_with(&flag_name) || flag_name.starts_with(&name);
        let are_open = wanted_is_open && is_double(flag) != is_double(wanted) && is_open(flag);
        is_long(flag) && is_long(wanted) && is_part || are_open
    };
    has_flag(program, given, wanted)
        || forces(wanted) && given.iter().any(|flag| forces(flag))
        || given.iter().any(is_like)
}

fn groups_of(program: &str) -> &'static str {
    let mut rows = OPTION_NAMES.lines().filter_map(|row| row.split_once('|'));
    let row = rows.find(|(names, _)| names.split(' ').any(|name| name == program));
    row.map_or("", |(_, groups)| groups)
}

/// Returns the name of an option without dashes and value.
fn bare(flag: &str) -> &str {
    let name = flag.trim_start_matches('-');
    name.split('=').next().unwrap_or_default()
}

/// Returns the options that may mean the same as `option`, itself among them. Empty if the
/// program's row does not have it.
fn group_of<'a>(groups: &'a str, option: &str) -> Vec<&'a str> {
    let mut groups = groups.split(' ').map(|group| group.split('='));
    let option_group = groups.find(|group| group.clone().any(|known| known == option));
    option_group.into_iter().flatten().collect()
}

/// Returns the words as given but for the program's directory and version, for the options before
/// the first operand, and for the subcommand that runs a script.
pub(super) fn variants(argv: &[Word]) -> Vec<Vec<Word>> {
    let Some(name) = argv[0].basename() else {
        return vec![argv.to_vec()];
    };
    let renamed = |name: &str| [&[Word::from_text(name)][..], &argv[1..]].concat();
    let mut argvs = vec![renamed(&name)];
    let plain_name = unversioned_name(&name);
    if plain_name != name {
        argvs.extend([name.split('.').next().unwrap_or_default(), plain_name].map(renamed));
    }
    if let Some(subcommand) = name.strip_prefix("git-") {
        let words = ["git", subcommand].map(Word::from_text);
        argvs.push([&words[..], &argv[1..]].concat());
    }
    // The words as given and the last variant, which are the same if there is only one.
    for variant in [0, argvs.len() - 1].into_iter().take(argvs.len()) {
        let argv = &argvs[variant];
        let index = first_operand(&argv[0].basename().unwrap_or_default(), argv);
        // What follows dashes is no option even if it looks like one.
        let has_dashes = argv[index - 1].is("--");
        let index = index - usize::from(has_dashes);
        if index > 1 && index < argv.len() {
            argvs.push([&argv[..1], &argv[index..]].concat());
        }
    }
    if matches!(&*name, "npm" | "pnpm" | "yarn" | "bun") {
        let scripts = argvs.iter().filter(|argv| {
            let word = argv.get(1);
            word.is_some_and(|word| word.starts_with_text("run"))
        });
        let scripts: Vec<_> = scripts
            .map(|argv| [&argv[..1], &argv[2..]].concat())
            .collect();
        argvs.extend(scripts);
    }
    if argv[0].literal_prefix().contains('/') {
        argvs.push(argv.to_vec());
    }
    argvs
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
    /// Returns the parts of a command, its program first; `None` when that is not known.
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
        parts.add_rm_flags();
        Some(parts)
    }

    /// Adds the flag that `rm --interactive=never` means.
    fn add_rm_flags(&mut self) {
        let is_never = |flag: &String| {
            let option = flag.strip_prefix("--i");
            let value = option.and_then(|option| option.split_once('='));
            value.is_some_and(|(_, value)| value.starts_with('n'))
        };
        if matches!(&*self.words[0], "rm" | "grm") && self.flags.iter().any(is_never) {
            self.flags.push("-f".to_owned());
        }
    }

    /// Adds the flags that other words of git mean: `push origin +main`, `branch -d -f`,
    /// `fetch -p`.
    fn add_git_flags(&mut self) {
        let begins = |subcommand: &str| self.begins_with(&["git", subcommand].map(str::to_owned));
        let is_given = |flag| has_flag("git", &self.flags, flag);
        let has = |mark: char| self.words.iter().any(|word| word.starts_with(mark));
        let is_fetch = self.words.iter().any(|word| word == "fetch");
        let is_push = begins("push");
        let mirrors = is_push && is_given("--mirror");
        let deletes = is_push && (has(':') || is_given("--prune"));
        let is_forced_branch = begins("branch") && is_given("-d") && is_given("-f");
        let flags = [
            ("--force", mirrors || is_push && has('+')),
            ("--delete", mirrors || deletes),
            ("--prune", is_fetch && is_given("-p")),
            ("-D", is_forced_branch),
        ];
        let flags = flags.into_iter().filter(|(_, is_meant)| *is_meant);
        let flags: Vec<String> = flags.map(|(flag, _)| flag.to_owned()).collect();
        self.flags.extend(flags);
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
