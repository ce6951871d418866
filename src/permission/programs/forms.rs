//! Forms of commands that are known completely: their options, and what their operands are.

use super::super::shell::{Part, Word};
use super::arguments::Arguments;
use super::known::{has_known_subcommands, is_group};
use super::model::{Dash, Model, Program, has_subcommands, model, wraps};

/// The forms, one a line, of which the first one that fits is used: `names: subcommands | kind of
/// operands | inclusions`. An inclusion `OPTION=OTHERS` lists the options and other words that do
/// what `OPTION` does, and more. The known options are those of the row `name.subcommand`, or of
/// the program's row.
///
/// | kind | operands |
/// |---|---|
/// | `paths`, `modes` | paths, behind the octal mode of files |
/// | `refs` | a remote, and branches without marks |
/// | `names` | scripts, targets |
/// | `kinds` | the kind of a resource, and names |
/// | `flags` | anything; a missing option is proof only if it has no value |
///
/// In front of `=`, `*` is any operand; behind it, `.` is any operand as well.
const FORMS: &str = "\
rm rmdir unlink shred cat tac nl head tail od less more wc ls du stat file mv ln mkdir touch|paths|
cp gcp|paths|-r=-a,--archive -R=-a,--archive --recursive=-a,--archive
chmod|modes|
git: push|refs|--tags=--follow-tags,--mirror,refs/tags --all=--mirror,--branches,refs/heads/*,+refs/heads/*,refs/*,+refs/* *=--all,--mirror,--branches
git: add stage|paths|-A=.,--no-ignore-removal --all=.,--no-ignore-removal -u=. --update=.
git: log diff|flags|-p=-u,-U,--unified --patch=-u,-U,--unified
git: commit status reset|flags|-a=. --all=. -u=. --amend=--fixup --hard=--merge,--keep -S=--gpg-sign --gpg-sign=-S
npm pnpm yarn bun: run run-script|names|*=--workspaces,-r,--recursive
npm pnpm yarn bun: *|flags|
make gmake|names|
mvn mvnw|names|deploy=release:perform install=deploy verify=install,deploy package=verify,install,deploy test=package,verify,install,deploy compile=test,package,verify,install,deploy
docker podman nerdctl: run create|flags|-v=--mount,--volumes-from,--device,--tmpfs --volume=--mount,--volumes-from,--device,--tmpfs --privileged=--security-opt,--cap-add,--device,--pid,--userns
docker podman nerdctl docker-compose: *|flags|
kubectl oc: get delete describe apply|kinds|-n=--namespace,--context,-A,--all-namespaces --namespace=-n,--context,-A,--all-namespaces
cargo: *|flags|--release=--profile,-r
terraform tofu: *|flags|
find gfind|flags|--delete=--exec,--execdir,--ok,--okdir --exec=--execdir,--ok,--okdir
sed gsed|flags|
";

/// A form of commands.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) operands: &'static str,
    includes: &'static str,
}

/// The words of a command of a form that is known completely.
pub(crate) struct Complete<'a> {
    pub(crate) form: Form,
    pub(crate) program: &'static Program,
    /// The row of the options before the subcommand.
    pub(crate) globals: Option<&'static Program>,
    pub(crate) arguments: Arguments<'a>,
    /// The index of the word behind the subcommand.
    pub(crate) start: usize,
}

impl Form {
    /// Returns the form of a command of the program `name` with this subcommand.
    pub(crate) fn of(name: &str, subcommand: &str) -> Option<Self> {
        let has = |list: &str, word: &str| {
            let mut words = list.split_ascii_whitespace();
            words.any(|known| known == "*" || known == word)
        };
        FORMS.lines().find_map(|row| {
            let (names, form) = row.split_once('|')?;
            let (names, subcommands) = names.split_once(':').unwrap_or((names, "*"));
            let (operands, includes) = form.split_once('|')?;
            let is_own = has(names, name) && has(subcommands, subcommand);
            is_own.then_some(Self { operands, includes })
        })
    }

    /// Returns the options, or other words, that do what `option` does and more.
    pub(crate) fn including(self, option: &str) -> impl Iterator<Item = &'static str> {
        let mut includes = self.includes.split_ascii_whitespace();
        let others = includes.find_map(|include| {
            let (known, others) = include.split_once('=')?;
            (known == option).then_some(others)
        });
        others.into_iter().flat_map(|others| others.split(','))
    }

    /// Reads a command of this form, whose subcommand has these indices; `None` if a word may be an
    /// option that the row does not have.
    pub(crate) fn read<'a>(
        self,
        name: &str,
        argv: &'a [Word],
        own: &[usize],
    ) -> Option<Complete<'a>> {
        let Model {
            globals,
            program,
            start: behind,
        } = model(name, argv);
        let own_name = own.first().and_then(|at| argv[*at].literal());
        let own_row = model(&format!("{name}.{}", own_name.unwrap_or_default()), &[]);
        let start = own.last().map_or(1, |at| at + 1);
        let (program, from) = match own_row.program {
            Some(program) => (program, start),
            None => (program?, behind),
        };
        let is_complete = |program: &Program, arguments: &Arguments<'_>| {
            let mut uncertain = arguments.uncertain.iter();
            (arguments.unknown.is_empty() || program.dash == Dash::Harmless)
                && uncertain.all(|at| has_fixed_end(&argv[*at]))
        };
        let arguments = Arguments::read(program, argv, from);
        let globals = globals.as_ref();
        let is_known = globals.is_none_or(|(program, globals)| is_complete(program, globals));
        (is_known && is_complete(program, &arguments)).then_some(Complete {
            form: self,
            program,
            globals: globals.map(|(program, _)| *program),
            arguments,
            start,
        })
    }
}

impl Complete<'_> {
    /// Returns the words that are no options: operands, and values of options.
    pub(crate) fn words<'a>(&self, argv: &'a [Word]) -> Vec<&'a Word> {
        let options = self.arguments.options.iter();
        let mut options = options.skip_while(|at| **at < self.start).peekable();
        let words = argv.iter().enumerate().skip(self.start);
        let words = words.filter(|(at, _)| options.next_if_eq(&at).is_none());
        let words = words.map(|(_, word)| word);
        words.filter(|word| !word.is("--")).collect()
    }
}

/// Returns `true` if a glob ends in text that is in no short option, such as `*.o`.
pub(crate) fn has_fixed_end(word: &Word) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    match word.parts.last() {
        Some(Part::Text { text, .. }) => word.is_glob() && !text.chars().all(is_letter),
        _ => false,
    }
}

/// Returns the indices of the words of the subcommand, or of the program behind a wrapper: these
/// distinguish commands. Empty for a program whose first operand is no subcommand.
pub(crate) fn subcommand_words(name: &str, argv: &[Word]) -> Vec<usize> {
    let is_wrapper = wraps(name);
    if !is_wrapper && !has_subcommands(name) && !has_known_subcommands(name) {
        return Vec::new();
    }
    let text = |at: usize| argv.get(at).and_then(Word::literal).unwrap_or_default();
    let Model {
        globals, program, ..
    } = model(name, argv);
    let first = match (globals, program) {
        (Some((_, globals)), _) => globals.command,
        (None, Some(program)) if is_wrapper => Arguments::read(program, argv, 1).command,
        (None, _) => (1..argv.len()).find(|at| !argv[*at].starts_with_dash()),
    };
    let Some(at) = first else {
        return Vec::new();
    };
    let at = at + usize::from(!is_wrapper && matches!(&*text(at), "container" | "image"));
    if at >= argv.len() {
        return Vec::new();
    }

    let has_second = matches!(name, "aws" | "gcloud" | "az") || is_group(&text(at));
    if is_wrapper || !has_second {
        return vec![at];
    }
    let second = match program {
        Some(program) => Arguments::read(program, argv, at + 1).first_operand(),
        None => (at + 1..argv.len()).find(|at| !argv[*at].starts_with_dash()),
    };
    [at].into_iter().chain(second).collect()
}
