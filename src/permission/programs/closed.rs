//! Commands whose files are known: their words name them, or they are the project's by purpose.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::known::is_listed;

/// The list: `names: subcommands | kinds | options`. A command that no row fits may work with any
/// file. Without subcommands a row is about all commands of its programs; `+` joins the two words
/// of one, `.` is no further word, and `x*` is a word that begins with `x`. Behind `*`, a word may
/// stand anywhere in the command, not only at its beginning. The first row that fits decides.
///
/// | kind | |
/// |---|---|
/// | `r` | its words name the files whose content it shows, but for what it reads to build |
/// | `w` | its words name the files that it changes |
/// | `o` | it works with files of the project, of its repository, and with caches |
///
/// Behind `<` stand files whose content it shows without naming them, behind `>` those that it
/// changes: folders end in `/`, and a name alone is that of a file in any folder of the project.
///
/// Options are those that the command must not have; behind `+`, one that it must have; behind `?`,
/// one that it must have, perhaps shortened or among other letters; behind `=`, all that it may
/// have, with any number; behind `@`, those with which it is not `o`. One behind `--`, which is for
/// a program that the command starts, has two more dashes: `----check` is the `--check` of
/// `cargo fmt -- --check`.
const CLOSED: &str = "\
cat tac head tail nl od hexdump strings base64 base32 basenc rev paste fold expand unexpand cksum md5 md5sum sha1sum sha256sum sha512sum sum b2sum cut column stat readlink realpath comm join cmp wc file xxd diff colordiff du ls dir vdir tree grep egrep fgrep zgrep xzgrep bzgrep rgrep zcat bzcat xzcat zstdcat lz4cat rg ack fd fdfind sort gsort uniq jq gojq yq sed gsed awk gawk mawk nawk find gfind tr less more bat batcat basename dirname tokei cloc scc exa eza man tldr whatis apropos pkg-config|rw|
shellcheck hadolint|rw|-x -a --external-sources
shellcheck hadolint|w|
echo printf true false test [ pwd date cal whoami id groups uname arch nproc hostname uptime top tty locale tput clear which type whereis ps pgrep pkill killall kill lsof sleep seq yes wait jobs fg bg free df ss netstat vmstat iostat w who dig nslookup host ping ldd getconf bc|rw|
cd pushd popd dirs exit return break continue shift umask ulimit times unset read mapfile readarray local alias command let getopts|rw|
env printenv set export declare typeset readonly|rw</proc/self/environ|
last dmesg|rw</var/log/|
exec: .|rw|
cp gcp mv ln rm mkdir rmdir touch truncate tee unlink shred chmod chown chgrp dd install link mktemp split tar gtar zip unzip gzip pigz gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 curl wget rsync scp sftp psql mysql mariadb sqlite3|rw|
ssh mosh|rw>~/.ssh/|-G
gpg gpg2|rw<~/.gnupg/>~/.gnupg/|
patch|o|
git: log shortlog reflog|rw|=-insEFgqrw --oneline --stat --shortstat --numstat --summary --name-only --name-status --graph --all --decorate --no-decorate --format --pretty --abbrev-commit --since --until --after --before --author --committer --grep --max-count --skip --date --reverse --follow --first-parent --merges --no-merges --branches --tags --remotes --no-pager --no-patch --color --no-color --topo-order --date-order --numbered --email --diff-filter
git: stash+list|rw|-p -u --patch --format --pretty
git: diff|rw|=-wbq --stat --shortstat --numstat --name-only --name-status --summary --quiet --exit-code --cached --staged --no-pager --no-color --color --diff-filter|+--stat --shortstat --numstat --name-only --name-status --summary --quiet
git: show+. show+HEAD+. show+HEAD^+. show+HEAD~1+. show+HEAD~2+.|rw|=-sqrw --oneline --stat --shortstat --numstat --name-only --name-status --summary --no-patch --quiet --format --pretty --abbrev-commit --date --decorate --no-decorate --no-pager --no-color --color --diff-filter|+--stat --shortstat --numstat --name-only --name-status --summary --no-patch
git: add stage|rw|-p -i -e --patch --interactive --edit
git: commit|rw|-p -i -v -c -t --patch --interactive --verbose --reedit-message --template --edit
git: tag for-each-ref show-ref|rw|--format
git: config|rw<.git/config,~/.gitconfig,~/.config/git/config,/etc/gitconfig|-f --file --blob
git: remote+add remote+remove remote+rm remote+rename remote+set-url|rw>.git/config|
git: remote|rw<.git/config|
git: check-ignore|rw<.gitignore|
git: apply|rw|+--check --stat
git: status|rw|-v --verbose
git: status|wo|
git: ls-remote|rw<.git/config|
git: check-attr|rw<.gitattributes,.git/info/attributes|
git: push|rw>.git/config|?-u --set-upstream
git: branch|rw>.git/config|?-u -t --set-upstream-to --unset-upstream --track --edit-description
git: push fetch branch blame annotate rev-parse ls-files ls-tree rev-list describe merge-base name-rev count-objects symbolic-ref show-branch version help worktree+list submodule+status sparse-checkout+list verify-commit verify-tag gc prune repack pack-refs fsck cherry lfs+ls-files lfs+fetch|rw|
git: log shortlog reflog diff show whatchanged grep cat-file diff-tree diff-index diff-files range-diff stash+list stash+show tag for-each-ref archive|wo|
git: restore|rw|-W -p --worktree --patch|+--staged -S
git: checkout switch restore reset merge pull rebase stash cherry-pick revert rm mv clean init bisect worktree lfs+pull lfs+checkout|ro|-p --patch --show-current-patch
git: apply am clone format-patch|o|
cargo: search info|rw>~/.cargo/|
cargo rustup: version locate-project pkgid owner show which help list|rw|
cargo: fmt|rw|+--check ----check
cargo: tree metadata|ro<Cargo.toml,Cargo.lock>~/.cargo/|
cargo: build b check c test t clippy run r bench doc d fmt clean update add remove rm fix fetch generate-lockfile nextest machete outdated audit deny new init install uninstall|ro>~/.cargo/|
rustup: default update toolchain target component override|rw>~/.rustup/,~/.cargo/|
npm pnpm yarn: config+get config+list|rw<.npmrc,~/.npmrc,.yarnrc.yml,~/.yarnrc.yml,/etc/npmrc|
npm pnpm yarn bun: ls list la ll outdated view info show search why explain whoami ping help root bin prefix fund licenses pkg+get|rw<package.json,package-lock.json,pnpm-lock.yaml,yarn.lock>~/.npm/|
npm pnpm yarn bun: ci install i add remove rm un uninstall update up upgrade dedupe prune rebuild audit run run-script start stop restart test t tst build lint dev typecheck format check clean watch serve preview e2e coverage version init pkg+set|ro<package.json>~/.npm/|@-g --global --location
npx bunx uvx|ro>~/.npm/|
npm pnpm yarn bun: exec x dlx|ro>~/.npm/|
pre-commit: run|ro>~/.cache/pre-commit/|
go: version help|rw|
go: env|rw<~/.config/go/|-w -u --w --u
go: doc|rw|-src --src
go: mod list|ro<go.mod,go.sum>~/go/|
go: build test vet run fmt generate clean work fix get install|ro>~/go/,~/.cache/go-build/|
pip: list show freeze check help|rw|
uv poetry pipenv pdm: run exec|ro|
pip uv poetry pipenv pdm: install uninstall sync|ro<pyproject.toml>/usr/,~/.local/,~/.cache/|
pip uv poetry pipenv pdm: list show lock add remove update tree build check freeze init version download wheel|ro<pyproject.toml,poetry.lock,uv.lock,Pipfile,Pipfile.lock|
uv: pip+install pip+sync pip+uninstall|ro>/usr/,~/.local/,~/.cache/|
uv: pip+list pip+show pip+freeze pip+compile venv|ro|
yarn bundle: .|ro|
bundle: install update list show outdated check info exec test add remove|ro<Gemfile,Gemfile.lock>~/.gem/,~/.bundle/,/var/lib/gems/|
composer: install update list show outdated check info exec test validate require remove run dump-autoload|ro<composer.json,composer.lock>~/.composer/|
gem: list outdated info check|rw|
brew apt apt-cache: list show search info outdated policy deps|rw</etc/apt/|
gem brew apt apt-get dnf yum apk: install add update upgrade uninstall remove|r|
module.venv|ro|
module.json.tool|rw|
module.http.server|w|--cgi
make gmake ninja cmake: *install* *uninstall|ro<Makefile,CMakeCache.txt>/usr/,/opt/,/etc/,~/.local/|
just task rake invoke: *install* *uninstall|ro<justfile,Justfile,.justfile,Taskfile.yml,Taskfile.yaml,Rakefile>/usr/,/opt/,/etc/,~/.local/|
dune zig: *install* *uninstall|ro>/usr/,/opt/,~/.local/,~/.opam/|
cmake|ro<CMakeCache.txt>/usr/,/opt/,~/.local/|+--install --target -t
cmake|ro<CMakeCache.txt|
make gmake|ro<Makefile,makefile,GNUmakefile|
ninja|ro<build.ninja|
just task rake invoke|ro<justfile,Justfile,.justfile,Taskfile.yml,Taskfile.yaml,Rakefile|
tox|ro<tox.ini|
turbo nx lerna|ro<package.json,turbo.json,nx.json,lerna.json|
mvn mvnw|ro<pom.xml,~/.m2/settings.xml,~/.m2/settings-security.xml>~/.m2/|
gradle gradlew|ro<build.gradle,build.gradle.kts,settings.gradle,gradle.properties,~/.gradle/>~/.gradle/,~/.m2/|
ctest nox zig dune swift flutter dart prisma playwright cypress vite next webpack rollup|ro|
dotnet: build test run restore clean list format add remove new sln publish pack|ro<*.csproj,*.sln,NuGet.Config>~/.nuget/|
gcc g++ cc c++ clang clang++|ro|-E
gcc g++ cc c++ clang clang++|wo|
python pypy node nodejs tsx ts-node ruby perl php rustc rustdoc javac java kotlinc|ro|
tsc|rw<tsconfig.json>*.tsbuildinfo|+--noEmit|-b --build --incremental
tsc|ro<tsconfig.json|
eslint|ro<.eslintrc,.eslintrc.json,.eslintrc.js,.eslintrc.yml,eslint.config.js|
prettier black isort ruff|rw|+--check
gofmt goimports|rw<*.go|
shfmt|rw<*.sh|
pytest unittest jest vitest mocha ava tap phpunit pest rspec rustfmt prettier biome stylelint ruff black isort mypy pyright flake8 pylint bandit autopep8 yapf golangci-lint rubocop swiftlint ktlint markdownlint cspell yamllint clang-format clang-tidy cppcheck|ro|
deno: fmt|rw|+--check
deno: test lint check bench fmt cache info run task|ro<deno.json,deno.jsonc|
docker podman nerdctl: compose+ps compose+ls compose+logs compose+images compose+top compose+version compose+port compose+events|rw|
docker podman nerdctl: compose+config|wo|
docker podman nerdctl: compose+up|o|+--build
docker podman nerdctl: compose+up compose+down compose+stop compose+start compose+restart compose+pull compose+rm compose+kill start restart unpause container+start container+restart|ro|
docker podman nerdctl: compose+build|o|
docker podman nerdctl: ps ls images inspect container+inspect diff logs version info stats top port history events search stop kill rm rmi pull push tag wait rename pause cp volume+ls volume+inspect network+ls network+inspect system+df system+info image+ls image+inspect image+history image+rm image+pull image+push image+tag image+prune container+ls container+logs container+stop container+kill container+rm container+top container+stats container+port|rw|
docker nerdctl: volume+create volume+rm network+create network+rm system+prune volume+prune container+prune network+prune|rw|
docker podman nerdctl: build buildx image+build|o|-o --output --secret
docker-compose: ps logs images top version ls port events|rw|
docker-compose: config|wo|
docker-compose: up|o|+--build
docker-compose: up down stop start restart pull rm kill|ro|
docker-compose: build|o|
kubectl oc: config+current-context config+get-contexts config+use-context|rw<~/.kube/>~/.kube/|
kubectl oc: cluster-info|rw<~/.kube/>~/.kube/cache/|
kubectl oc: exec get describe logs top explain version api-resources api-versions events rollout auth wait port-forward cp delete apply scale label annotate patch cordon uncordon drain taint expose autoscale create diff set|rw>~/.kube/cache/|-k --kustomize
gh glab: auth+status|rw|-t --show-token
gh glab: pr+merge pr+close mr+merge|rw|-d --delete-branch
gh glab: pr+checkout pr+merge pr+close|ro|
gh glab: pr+list pr+view pr+status pr+checks pr+create pr+comment pr+review pr+reopen pr+ready pr+edit issue+list issue+view issue+status issue+create issue+comment issue+close issue+edit run+list run+view run+watch run+rerun run+cancel workflow+list workflow+view workflow+run release+list release+view release+create repo+list repo+view repo+create label+list label+create secret+list variable+list search mr+list mr+view mr+create ci+list ci+view ci+status api|rw|
gh glab: pr+diff|rw|+--name-only
gh glab: pr+diff|wo|
terraform tofu: fmt|rw|+-check --check|-diff --diff
terraform tofu: plan|rw<*.tfvars,terraform.tfstate|
terraform tofu: output show state+show state+pull|rw<*.tfvars,terraform.tfstate|
terraform tofu: state+list validate version graph workspace+list workspace+show|rw|
terraform tofu: providers fmt init get apply destroy refresh import taint untaint test state|ro<*.tf,*.tfvars,terraform.tfstate|
helm: list ls status history search version repo+list env get uninstall rollback test|rw|
helm: repo+add repo+update|rw>~/.config/helm/,~/.cache/helm/|
helm: lint template install upgrade show|wo|
helm: dependency pull create|ro|
systemctl: status|rw</var/log/|
systemctl: show cat|rw</etc/systemd/,/lib/systemd/,/usr/lib/systemd/,~/.config/systemd/,~/.local/share/systemd/|
systemctl: is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets list-dependencies list-jobs get-default start stop restart reload try-restart daemon-reload reset-failed|rw|
systemctl: enable disable mask unmask|rw>/etc/systemd/,~/.config/systemd/|
journalctl|rw</var/log/,/run/log/|-D --directory --file --root --image
aws: s3+ls s3+cp s3+sync s3+mb sts+get* logs+* ec2+describe* lambda+list* lambda+get* ecs+list* ecs+describe* eks+list* eks+describe* iam+list* iam+get* rds+describe* cloudformation+describe*|rw|
dpkg|rw|=-lLsS
openssl: x509 verify version dgst rand rsa ec pkey pkcs12 enc base64 genrsa genpkey ciphers speed s_client passwd|rw|
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
    /// Files that it shows without naming them, separated by commas.
    pub(crate) shown: &'static str,
    /// Files that it changes without naming them, separated by commas.
    pub(crate) changed: &'static str,
}

impl KnownFiles {
    /// The words name all files.
    pub(crate) const ALL_NAMED: Self = Self {
        names_reads: true,
        names_writes: true,
        is_inside: true,
        shown: "",
        changed: "",
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

/// Returns the files of a command of the program `name`; `None` if it may work with any. `words`
/// are its words without the `options`. `is_open` is true if other words may be options.
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
    let (kinds, changed) = row.kinds.split_once('>').unwrap_or((row.kinds, ""));
    let (kinds, shown) = kinds.split_once('<').unwrap_or((kinds, ""));
    Some(KnownFiles {
        names_reads: kinds.contains('r'),
        names_writes: kinds.contains('w'),
        is_inside: kinds.contains('o') && !leaves,
        shown,
        changed,
    })
}

/// Returns `true` if the words begin with those of the subcommand.
fn begins(words: &[String], subcommand: &str) -> bool {
    if subcommand == "." {
        return words.is_empty();
    }
    let mut words = words.iter();
    let is = |own: &str, word: &String| match own.strip_suffix('*') {
        Some(beginning) => word.starts_with(beginning),
        None => word == own,
    };
    if let Some(own) = subcommand.strip_prefix('*') {
        return words.any(|word| is(own, word));
    }
    let mut own_words = subcommand.split('+');
    own_words.all(|own| match own {
        "." => words.next().is_none(),
        _ => words.next().is_some_and(|word| is(own, word)),
    })
}

/// Returns `true` if a cell of options permits these.
fn permits(cell: &str, options: &[String], is_open: bool) -> bool {
    let mut options = options.iter();
    match (cell.get(..1), cell.get(1..).unwrap_or_default()) {
        (None | Some("@"), _) => true,
        (Some("+"), listed) => options.any(|option| is_listed(listed, name_of(option))),
        (Some("?"), listed) => options.any(|option| may_be_listed(listed, option)),
        (Some("="), listed) => !is_open && options.all(|option| has_listed(listed, option)),
        _ => !is_open && !options.any(|option| may_be_listed(cell, option)),
    }
}

/// Returns the name of an option without its value.
fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or_default()
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
