//! Forms of commands that are known completely: their options, and what their operands are.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::super::shell::{Part, Word};
use super::arguments::Arguments;
use super::known::{has_known_subcommands, is_group};
use super::model::{Dash, Model, Program, has_subcommands, model, read_program, wraps};

/// The forms: `names: subcommands | kind | options that include others | options`. Without a
/// subcommand that is listed, `*` is any. The options are those of the program's row if there are
/// none here, behind the kind of operands in a row. `*` in front of `=` is any operand. The first form that fits decides.
const FORMS: &str = "\
rm rmdir unlink shred cat tac nl head tail od less more wc ls du stat file | paths | |
chmod | modes | |
git: push | refs | --tags=--follow-tags,--mirror,refs/tags --all=--mirror,--branches *=--all,--mirror,--branches |
git: checkout switch merge rebase cherry-pick | refs | *=-,--all |
git: * | flags | -A=.,:/,* --all=.,:/,* |
npm pnpm yarn bun: run run-script | names | *=--workspaces,-r,--recursive |
npm pnpm yarn bun: * | flags | |
make gmake just task rake invoke | names | |
docker podman nerdctl: run create | flags | -v=--mount,--volumes-from,--device,--tmpfs --volume=--mount,--volumes-from,--device,--tmpfs --privileged=--security-opt,--cap-add,--device,--pid,--userns | host -dtiPq -aelmuhwpvc:text --add-host:text --cpus:text --detach --entrypoint:text --env:text --env-file:text --expose:text --health-cmd:text --hostname:text --init --interactive --ip:text --label:text --link:text --log-driver:text --log-opt:text --memory:text --name:text --network:text --net:text --platform:text --publish:text --publish-all --pull:text --quiet --read-only --restart:text --rm --shm-size:text --stop-timeout:text --tty --ulimit:text --user:text --volume:text --workdir:text --mount:text --volumes-from:text --device:text --tmpfs:text --security-opt:text --cap-add:text --cap-drop:text --pid:text --userns:text --gpus:text --runtime:text
docker podman nerdctl docker-compose: * | flags | |
kubectl oc: exec run debug | kinds | -n=--namespace,--context --namespace=-n,--context | host -it -ncfl:text --namespace:text --container:text --stdin --tty --context:text --image:text --rm
kubectl oc: * | kinds | -n=--namespace,--context,-A,--all-namespaces --namespace=-n,--context,-A,--all-namespaces |
terraform tofu cargo pip pip3 uv poetry gh helm pnpx npx apt apt-get brew systemctl: * | flags | |
curl | options | -X=-d,--data,-F,--form,-T,--upload-file,--json,-I,--head --request=-d,--data,-F,--form,-T,--upload-file,--json,-I,--head -d=--json,-F --data=--json,-F |
python python3 pypy node nodejs ruby perl php | script | |
ssh mosh | names | |
sed gsed | flags | |
tar gtar | paths | |
grep egrep fgrep rg | flags | -r=-R,-d,--directories --recursive=-R,-d,--directories |
find gfind | flags | --delete=--exec,--execdir,--ok,--okdir --exec=--execdir,--ok,--okdir | text --H --L --P --name:text --iname:text --path:text --ipath:text --wholename:text --type:text --maxdepth:text --mindepth:text --mtime:text --mmin:text --atime:text --ctime:text --cmin:text --newer:text --size:text --empty --print --print0 --printf:text --prune --not --o --or --a --and --user:text --group:text --perm:text --regex:text --iregex:text --regextype:text --ls --quit --true --false --readable --writable --executable --links:text --inum:text --xdev --mount --follow --depth --daystart --delete --exec --execdir --ok --okdir
";

/// What the operands of a form are, and which missing option is proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operands {
    Paths,
    /// The mode of files, and files.
    Modes,
    /// Revisions without ranges and marks.
    Refs,
    /// Scripts, targets, hosts.
    Names,
    /// The kind of a resource, and names.
    Kinds,
    /// A script, and its own words.
    Script,
    /// Anything; a missing option is proof.
    Options,
    /// Anything; a missing option without a value is proof.
    Flags,
}

/// A form of commands.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) operands: Operands,
    /// Options, each with others that do the same and more.
    includes: Vec<(&'static str, Vec<&'static str>)>,
    /// Its options, if the program's row is not the form's.
    program: Option<Program>,
}

/// The forms of each program, with their subcommands.
static ROWS: LazyLock<HashMap<&str, Vec<(&str, Arc<Form>)>>> = LazyLock::new(|| {
    let mut rows: HashMap<&str, Vec<(&str, Arc<Form>)>> = HashMap::new();
    for row in FORMS.lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [names, operands, includes, options] = cells[..] else {
            unreachable!("a form has four cells: {row}");
        };
        let (names, subcommands) = names.split_once(':').unwrap_or((names, ""));
        for name in names.split(' ') {
            let form = Arc::new(Form {
                operands: read_operands(operands),
                includes: includes
                    .split_ascii_whitespace()
                    .map(read_include)
                    .collect(),
                program: options
                    .split_once(' ')
                    .map(|(operands, options)| read_program(name, operands, options)),
            });
            rows.entry(name)
                .or_default()
                .push((subcommands.trim(), form));
        }
    }
    rows
});

fn read_operands(text: &str) -> Operands {
    match text {
        "paths" => Operands::Paths,
        "modes" => Operands::Modes,
        "refs" => Operands::Refs,
        "names" => Operands::Names,
        "kinds" => Operands::Kinds,
        "script" => Operands::Script,
        "options" => Operands::Options,
        "flags" => Operands::Flags,
        _ => unreachable!("no kind of operands: {text}"),
    }
}

fn read_include(text: &'static str) -> (&'static str, Vec<&'static str>) {
    let (option, others) = text.split_once('=').unwrap_or((text, ""));
    (option, others.split(',').collect())
}

impl Form {
    /// The form of a command of the program `name` with this subcommand.
    pub(crate) fn of(name: &str, subcommand: &str) -> Option<&'static Self> {
        let rows = ROWS.get(name)?;
        let is_own = |subcommands: &str| match subcommands {
            "" | "*" => true,
            subcommands => subcommands.split(' ').any(|known| known == subcommand),
        };
        let mut rows = rows.iter();
        rows.find(|(subcommands, _)| is_own(subcommands))
            .map(|(_, form)| &**form)
    }

    /// The options, or other words, that do what `option` does and more.
    pub(crate) fn including(&self, option: &str) -> &[&'static str] {
        let mut includes = self.includes.iter();
        includes
            .find(|(known, _)| *known == option)
            .map_or(&[], |(_, others)| others)
    }

    /// The words of a command of this form, which begin at index `start`, with the row that they are
    /// read by, and the row of the options before the subcommand; `None` if a word may be an option
    /// that the row does not have.
    pub(crate) fn read<'a>(
        &'static self,
        name: &str,
        argv: &'a [Word],
        start: usize,
    ) -> Option<(&'static Program, Option<&'static Program>, Arguments<'a>)> {
        let model = model(name, argv);
        let is_complete = |program: &Program, arguments: &Arguments<'_>| {
            let mut uncertain = arguments.uncertain.iter();
            (arguments.unknown.is_empty() || program.dash == Dash::Harmless)
                && uncertain.all(|at| has_fixed_end(&argv[*at]))
        };
        let program = self.program.as_ref().or(model.program)?;
        let start = if self.program.is_some() {
            start
        } else {
            model.start
        };
        let arguments = Arguments::read(program, argv, start);
        let globals = model.globals.as_ref();
        let is_known = globals.is_none_or(|(program, globals)| is_complete(program, globals));
        let globals = globals.map(|(program, _)| *program);
        (is_known && is_complete(program, &arguments)).then_some((program, globals, arguments))
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

/// The indices of the words of the subcommand, or of the program behind a wrapper: these tell
/// commands apart. None for a program whose first operand is no subcommand.
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
        (None, _) => argv
            .iter()
            .skip(1)
            .position(|word| !word.starts_with_dash())
            .map(|at| at + 1),
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
    let operands = match program {
        Some(program) => Arguments::read(program, argv, at + 1).operands,
        None => argv[at + 1..]
            .iter()
            .filter(|word| !word.starts_with_dash())
            .collect(),
    };
    let second = operands.first().copied();
    let is_second = |word: &Word| second.is_some_and(|second| std::ptr::eq(word, second));
    let second = argv.iter().position(is_second);
    [at].into_iter().chain(second).collect()
}
