//! Commands whose files are known: their words name them, or they are the project's by purpose.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The list: `names: subcommands | kinds | options`. A command that no row fits may work with any
/// file. Without subcommands a row is about all commands of its programs; `+` joins the two words
/// of one, and `.` is none. The first row that fits decides.
///
/// | kind | |
/// |---|---|
/// | `r` | its words name the files whose content it shows, but for what it reads to build |
/// | `w` | its words name the files that it changes |
/// | `o` | it works with files of the project, of its repository, and with caches |
///
/// Options are those that the command must not have; behind `+`, one that it must have; behind `=`,
/// all that it may have, with any number; behind `@`, those with which it is not `o`.
const CLOSED: &str = "\
cat tac head tail nl od hexdump strings base64 base32 rev paste fold expand unexpand cksum md5 md5sum sha1sum sha256sum sha512sum sum b2sum cut column stat readlink realpath comm join cmp wc file xxd diff colordiff du ls dir tree grep egrep fgrep zgrep zcat bzcat xzcat zstdcat rg ack fd fdfind sort uniq jq yq sed awk gawk mawk find tr less more bat batcat basename dirname shellcheck tokei cloc scc exa eza man|rw|
echo printf true false test [ pwd date cal whoami id groups uname arch nproc hostname uptime tty locale tput clear which type whereis ps pgrep pkill killall kill lsof sleep seq yes wait jobs fg bg env printenv free df dmesg ss netstat vmstat iostat last w who dig nslookup host ping ldd getconf bc|rw|
cd pushd popd dirs exit return break continue shift umask ulimit times set unset read mapfile readarray declare typeset local export readonly alias command let getopts|rw|
cp mv ln rm mkdir rmdir touch truncate tee unlink chmod chown chgrp dd install link mktemp split|rw|
tar gtar zip unzip gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd curl wget rsync|rw|
git: log shortlog reflog|rw|=-insEFgqrw --oneline --stat --shortstat --numstat --summary --name-only --name-status --graph --all --decorate --no-decorate --format --pretty --abbrev-commit --since --until --after --before --author --committer --grep --max-count --skip --date --reverse --follow --first-parent --merges --no-merges --branches --tags --remotes --no-pager --no-patch --color --no-color --topo-order --date-order --numbered --email
git: stash+list|rw|-p -u --patch --format --pretty
git: diff|rw|=-wbq --stat --shortstat --numstat --name-only --name-status --summary --quiet --exit-code --cached --staged --no-pager --no-color --color|+--stat --shortstat --numstat --name-only --name-status --summary --quiet
git: add stage commit|rw|-p -i -v -c -t --patch --interactive --verbose --reedit-message --template --edit
git: tag for-each-ref show-ref|rw|--format
git: config|rw|=-z --get --get-all --global --local --system --unset --add --show-origin --bool --int
git: apply|rw|+--check --stat
git: status|rw|-v --verbose
git: status|wo|
git: push fetch branch remote rev-parse ls-files ls-tree ls-remote rev-list describe merge-base name-rev count-objects check-ignore check-attr symbolic-ref show-branch version help worktree+list submodule+status|rw|
git: log shortlog reflog diff show blame annotate whatchanged grep cat-file diff-tree diff-index diff-files range-diff stash+list stash+show tag for-each-ref archive|wo|
git: config|w|
git: restore|rw|-W -p --worktree --patch|+--staged -S
git: checkout switch restore reset merge pull rebase stash cherry-pick revert rm mv clean init|ro|-p --patch --show-current-patch
git: apply am clone|o|
cargo rustup: search info version locate-project pkgid owner show which help list|rw|
cargo: fmt|rw|+--check
cargo: tree metadata build b check c test t clippy run r bench doc d fmt clean update add remove rm fix fetch generate-lockfile nextest machete outdated audit deny new init|ro|
npm pnpm yarn bun: ls list la ll outdated view info show search why explain whoami ping help root bin prefix fund licenses|rw|
npm pnpm yarn bun: ci install i add remove rm un uninstall update up upgrade dedupe prune rebuild audit run run-script start stop restart test t tst build lint dev typecheck format check clean watch serve preview e2e coverage|ro|@-g --global --location
npx bunx uvx|ro|
go: version help|rw|
go: env|rw|-w -u --w --u
go: doc|rw|-src --src
go: build test vet run fmt mod list generate clean work fix|ro|
go: get|ro|
cargo: install|ro|
go: install|r|
pip: list show freeze check help|rw|
uv poetry pipenv pdm: run exec|ro|
pip uv poetry pipenv pdm: install uninstall list show sync lock add remove update tree build check freeze|ro|
bundle composer: install update list show outdated check info exec test validate|ro|
gem: list outdated info check|rw|
brew apt apt-cache: list show search info outdated policy deps|rw|
npm pnpm yarn: config+get|w|
yarn bundle: .|ro|
uv: pip+install pip+list pip+show pip+freeze pip+sync pip+compile|ro|
module.venv|ro|
module.json.tool|rw|
make gmake ninja ctest cmake just task invoke tox nox turbo nx lerna zig prisma playwright cypress vite next webpack rollup rake mvn mvnw gradle gradlew|ro|
dotnet: build test run restore clean list format|ro|
python pypy node nodejs tsx ts-node ruby perl php rustc gcc g++ cc clang clang++ javac java|ro|
tsc|rw|+--noEmit|-b --build --incremental
prettier black isort ruff|rw|+--check
gofmt goimports shfmt|rw|
pytest unittest jest vitest mocha phpunit rspec tsc eslint prettier biome stylelint ruff black isort mypy pyright flake8 pylint golangci-lint rubocop swiftlint|ro|
deno: fmt|rw|+--check
deno: test lint check bench fmt cache info|ro|
docker podman nerdctl: compose+ps compose+ls compose+logs compose+images compose+top compose+version compose+port compose+events|rw|
docker podman nerdctl: compose+up|o|+--build
docker podman nerdctl: compose+up compose+down compose+stop compose+start compose+restart compose+pull compose+rm compose+kill|ro|
docker podman nerdctl: compose+build|o|
docker podman nerdctl: ps ls images inspect diff logs version info stats top port history events search stop start restart kill rm rmi pull push tag wait rename pause unpause volume+ls volume+inspect network+ls network+inspect system+df system+info image+ls image+inspect image+history image+rm image+pull image+push image+tag image+prune container+ls container+inspect container+logs container+stop container+start container+restart container+kill container+rm container+top container+stats container+port|rw|
docker nerdctl: volume+create volume+rm network+create network+rm|rw|
docker podman nerdctl: build buildx image+build|o|-o --output --secret
docker-compose: ps logs images top version ls port events|rw|
docker-compose: up|o|+--build
docker-compose: up down stop start restart pull rm kill|ro|
docker-compose: build|o|
kubectl oc: get describe logs top explain version api-resources api-versions cluster-info events rollout auth wait port-forward|rw|-k --kustomize
kubectl oc: delete apply scale label annotate patch cordon uncordon drain expose autoscale|rw|-k --kustomize
kubectl oc: create diff set|w|
gh glab: auth+status|rw|-t --show-token
gh glab: pr+merge pr+close mr+merge|rw|-d --delete-branch
gh glab: pr+checkout pr+merge pr+close|ro|
gh glab: pr+list pr+view pr+status pr+checks pr+create pr+comment pr+review pr+reopen pr+ready pr+edit issue+list issue+view issue+status issue+create issue+comment issue+close issue+edit run+list run+view run+watch run+rerun workflow+list workflow+view workflow+run release+list release+view repo+list repo+view label+list search mr+list mr+view ci+list ci+view ci+status|rw|
gh glab: pr+diff|wo|
gh glab: api|w|
terraform tofu: fmt|rw|+-check --check
terraform tofu: state+list plan validate version graph workspace+list workspace+show|rw|
terraform tofu: providers fmt init get apply destroy refresh|ro|
terraform tofu: output show state|wo|
helm: list ls status history search version repo+list env|rw|
helm: lint template get show|w|
systemctl: status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets list-dependencies list-jobs get-default start stop restart reload try-restart|rw|
systemctl: show cat|w|
journalctl|rw|-D --directory --file --root --image
aws: s3+ls sts+get-caller-identity logs+tail ec2+describe-instances lambda+list-functions ecs+list-clusters iam+list-users|rw|
dpkg|rw|=-lLsS
openssl: x509 verify version dgst rand|rw|
";

/// The files of a command, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownFiles {
    /// True if its words name the files whose content it shows.
    pub(crate) names_reads: bool,
    /// True if its words name the files that it changes.
    pub(crate) names_writes: bool,
    /// True if it works with files of the project without naming them, and with no others.
    pub(crate) is_inside: bool,
}

impl KnownFiles {
    /// The words name all files.
    pub(crate) const ALL_NAMED: Self = Self {
        names_reads: true,
        names_writes: true,
        is_inside: true,
    };
}

/// A row, for one of its programs.
#[derive(Clone)]
struct Row {
    /// None for all commands.
    subcommands: Vec<&'static str>,
    kinds: &'static str,
    options: Vec<&'static str>,
}

static ROWS: LazyLock<HashMap<&str, Vec<Row>>> = LazyLock::new(|| {
    let mut rows = HashMap::new();
    for row in CLOSED.lines() {
        let mut cells = row.split('|');
        let commands = cells.next().unwrap_or_default();
        let (names, subcommands) = commands.split_once(": ").unwrap_or((commands, ""));
        let row = Row {
            subcommands: subcommands.split_ascii_whitespace().collect(),
            kinds: cells.next().unwrap_or_default(),
            options: cells.collect(),
        };
        for name in names.split(' ') {
            let own_rows: &mut Vec<Row> = rows.entry(name).or_default();
            own_rows.push(row.clone());
        }
    }
    rows
});

/// Returns the files of a command of the program `name`, of which these are the words without
/// options, and these the options; `None` if it may work with any. `is_open` is true if other words
/// may be options.
pub(crate) fn known_files(
    name: &str,
    words: &[String],
    options: &[String],
    is_open: bool,
) -> Option<KnownFiles> {
    // `:` is `true`.
    let name = if name == ":" { "true" } else { name };
    let fits = |row: &&Row| {
        let mut subcommands = row.subcommands.iter();
        let is_own = row.subcommands.is_empty() || subcommands.any(|own| begins(words, own));
        is_own
            && row
                .options
                .iter()
                .all(|cell| permits(cell, options, is_open))
    };
    let row = ROWS.get(name)?.iter().find(fits)?;
    let mut cells = row.options.iter().filter_map(|cell| cell.strip_prefix('@'));
    let leaves = cells.any(|cell| is_open || options.iter().any(|o| may_be_listed(cell, o)));
    Some(KnownFiles {
        names_reads: row.kinds.contains('r'),
        names_writes: row.kinds.contains('w'),
        is_inside: row.kinds.contains('o') && !leaves,
    })
}

/// Returns `true` if the words begin with those of the subcommand.
fn begins(words: &[String], subcommand: &str) -> bool {
    if subcommand == "." {
        return words.is_empty();
    }
    let mut words = words.iter();
    let mut own_words = subcommand.split('+');
    own_words.all(|own| words.next().is_some_and(|word| word == own))
}

/// Returns `true` if a cell of options permits these.
fn permits(cell: &str, options: &[String], is_open: bool) -> bool {
    let mut options = options.iter();
    match (cell.get(..1), cell.get(1..).unwrap_or_default()) {
        (None | Some("@"), _) => true,
        (Some("+"), listed) => options.any(|option| is_listed(listed, name_of(option))),
        (Some("="), listed) => !is_open && options.all(|option| has_listed(listed, option)),
        _ => !is_open && !options.any(|option| may_be_listed(cell, option)),
    }
}

/// Returns the name of an option without its value.
fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or_default()
}

fn is_listed(listed: &str, name: &str) -> bool {
    listed.split_ascii_whitespace().any(|known| known == name)
}

/// Returns `true` if the option, or each of its letters, is in the list.
fn has_listed(listed: &str, option: &str) -> bool {
    if option.starts_with("--") {
        return option == "--" || is_listed(listed, name_of(option));
    }
    let letters = listed.split_ascii_whitespace().next().unwrap_or_default();
    let mut own_letters = option.chars();
    own_letters.all(|letter| letter.is_ascii_digit() || letters.contains(letter))
}

/// Returns `true` if the option may be one of the list: a long one may be abbreviated, and a letter
/// may stand among others.
fn may_be_listed(listed: &str, option: &str) -> bool {
    let mut names = listed.split_ascii_whitespace();
    let name = name_of(option);
    names.any(|listed| {
        let is_long = listed.starts_with("--");
        is_long && name.len() > 2 && listed.starts_with(name)
            || !is_long && !name.starts_with("--") && name.contains(&listed[1..])
    })
}
