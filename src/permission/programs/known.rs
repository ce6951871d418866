//! Subcommands that do not do the work of others of their program.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::model::without_version;

/// Subcommands of programs without targets that only show something. Commas stand between those
/// that show the same.
const READERS: &str = "\
    status log,logs,whatchanged diff show,view,info,inspect,describe list,ls,ps,images help search \
    whoami outdated policy blame,annotate";

/// First words of subcommands of two words.
const GROUPS: &str = "\
    compose container image volume network system builder buildx manifest context pr mr issue ci \
    repo release auth label gist workflow cache secret variable ruleset org project stash remote \
    reflog worktree submodule bisect notes lfs rollout config pkg dependency workspace state \
    toolchain target component pip aws gcloud az";

/// Rows of programs, with their subcommands that are known. Commas stand between subcommands that
/// do the same or the like, `+` between two words, `-x` is an option that is given, `*` is any
/// subcommand, `.` is the end of the command.
///
/// What stands behind `!` is what other subcommands of the program do and these do as well; with
/// `!*` it may be what any of them does. Settings of git and npm that it changes stand behind `>`.
/// The first entry that fits decides.
const KNOWN: &str = "\
cargo|build,b!test!check!c check,c!build!b!test test,t,nextest!build!check run,r!build!check doc,d!build!check bench,clippy!build!check version clean tree metadata locate-project fmt add!install!i remove,rm update audit expand,package!build!check fix!build!check!fmt install!build!b
rustup|show update!*
npm pnpm|config+set,config+delete,config+del,config+rm,config+edit,config+fix,c+set,c+delete,c+del,c+rm,c+edit,c+fix,set!*>.npmrc,~/.npmrc config!*
yarn|config+set,config+delete,config+unset,config+edit,set+version,plugin+import,plugin+remove!*>.yarnrc.yml,~/.yarnrc.yml,.npmrc,~/.npmrc config!*
npm pnpm|version+.
npm pnpm yarn bun|audit+--fix,audit+fix!install!i!update!up!dedupe version+--ignore-scripts,pack+--ignore-scripts version!run!run-script!publish pack!run!run-script init!create!install!i test,t,tst run,run-script start stop audit why ping workspace restart!start!stop
npm|pkg+get pkg+set,pkg+delete!* dedupe!install!update!i prune!uninstall!remove!rm ci!install!i install+.,i+.!install!i!ci install,i,add,update,remove,uninstall,un,rm!ci
pnpm yarn bun|,install+.,i+.!install!i install,i,add,remove,rm,update,up,upgrade,un,uninstall build dev watch serve preview clean lint typecheck format check e2e coverage
go|build!get!install!generate run!build!get!install!generate test!get!install!generate vet!get!install!generate env doc generate version fmt get!install!mod mod+verify mod+graph mod+why mod+download,mod+tidy,mod+edit,mod+init!get mod+vendor!*
pipenv|install+.,sync!* install!*
pip uv poetry pipenv pdm|install,sync,uninstall!* freeze check pip+list pip+show pip+freeze download wheel lock!* version!* pip+install,pip+sync,pip+uninstall!* add,remove!*
bundle|,install!* check
composer|install!* validate,run,run-script,test!* require,update,remove!*
dotnet|run,watch!build!restore build,test,pack,publish!restore
mvn mvnw gradle gradlew dotnet dune zig|compile,test-compile,classes,jar,build,test,check,assemble,package,verify validate clean run,watch,bootRun,runtest setup query tasks dependencies dependency:tree help:evaluate install restore,deps.get!* fmt,format
docker podman nerdctl|top port search stats events version history system+df compose+images compose+top compose+version compose+config compose+build!build!pull stop!kill compose+stop!kill!stop start,compose+start!run!create!up restart,compose+restart!start!stop!kill!run!create!up build!pull tag pull,compose+pull compose+up+--force-recreate,compose+up+--remove-orphans!* compose+up!run!create!start!restart!pull!build compose+down!stop!rm!kill!remove!prune volume+create network+create rmi!remove volume+rm!prune network+rm!prune rm!remove!stop!kill!volume kill,compose+kill!stop!rm compose+rm!rm!stop!kill!remove!down prune!rm!rmi!remove!system login logout exec,compose+exec
docker-compose|images top version config build!pull stop!kill!rm!down up,down,start,restart,pull,rm,kill!* exec
kubectl oc|get top explain version port-forward api-resources api-versions cluster-info rollout+status rollout+history wait auth+can-i config+current-context config+get-contexts config+view config+use-context!* exec apply+--prune!* apply+--force!delete!create!patch!replace!edit!set!scale!label!annotate apply!create!patch!replace!edit!set!scale!label!annotate create!apply!replace!run!expose label+-o,label+-Ao,label+--output,annotate+-o,annotate+-Ao,annotate+--output!get!patch!apply!edit!replace label,annotate!patch!apply!edit!replace rollout+restart,rollout+undo!patch!apply!edit!replace delete,scale!*
gh glab|auth+status+-t,auth+status+--show-token!* auth+login,auth+setup-git!*>~/.gitconfig repo+clone,repo+fork,repo+sync,run+download,release+download!* pr+checkout!co!sync!clone pr+checks run+list run+view run+watch pr+comment,issue+comment,mr+note pr+review!comment issue+create pr+create,mr+create!fork!push api,pr+edit,pr+close,pr+ready,issue+edit,issue+close!*
terraform tofu|plan validate graph output version show!output!state import,taint,untaint!state fmt init,get providers!get apply!*
helm|lint template get history version
apt apt-get|update install,remove,upgrade,full-upgrade,dist-upgrade,autoremove!*
brew|update install!upgrade!reinstall!cleanup upgrade,uninstall!*
systemctl|daemon-reload reset-failed is-active is-enabled is-failed list-units list-unit-files list-timers cat start,stop,restart,reload!*
aws|s3+ls sts+get-caller-identity ec2+describe-instances lambda+list-functions ecs+list-clusters iam+list-users logs+tail s3+cp!sync!mv
deno|check test,bench run,task fmt lint
ruff|check format rule
golangci-lint|run,linters fmt
turbo nx|run,build,test,lint,affected
playwright cypress|test,run
pre-commit|install,uninstall!*>.git/hooks
tsc|*
gcc g++ cc c++ clang clang++ javac|*
java|*+-jar
swiftlint|lint version
dpkg|*+-l,*+-s,*+-L,*+-S
make gmake ninja cmake ctest just task rake invoke|*
pytest unittest jest vitest mocha ava tap phpunit pest rspec tox nox eslint prettier stylelint markdownlint cspell htmlhint yamllint ktlint phpcs rubocop standardrb cppcheck mypy pyright black isort autopep8 yapf flake8 pylint bandit pydocstyle pycodestyle pyflakes vulture|*
python python3 pypy node nodejs tsx ts-node gofmt goimports rustfmt clang-format shfmt journalctl module.json.tool module.http.server module.venv apt-cache|*
openssl|req x509 verify version dgst rand base64 enc genrsa rsa ec ecparam genpkey pkey pkcs12 s_client ciphers speed passwd
docker podman nerdctl docker-compose kubectl oc npm pnpm yarn bun uv poetry pipenv pdm bundle hatch rye pixi conda|run,compose+run,exec,x,dlx,debug!pull!create!start!up!build!sync!lock!install!add
git|status+-v,status+-vv,status+--verbose!diff status gc!prune!repack!reflog!expire!pack-refs verify-commit verify-tag show-branch format-patch archive sparse-checkout+list lfs+pull!fetch!checkout!pull lfs+ls-files symbolic-ref!checkout!switch!branch!update-ref submodule+status rebase+--skip!* merge+--abort,cherry-pick+--abort,revert+--abort,rebase+--abort,am+--abort!reset!checkout!restore!switch!merge!rebase!cherry-pick!revert!am!apply!commit!stash!clean!rm!add!branch!update-ref!update-index!read-tree!gc!prune!reflog!rerere!notes fetch!tag!branch!prune am!commit!apply apply!add lfs+install,lfs+update!*>.git/hooks lfs+track,lfs+untrack!*>.gitattributes add,stage cherry!log!rev-list!show tag init!config clean reflog+expire,reflog+delete!stash!reflog!expire!delete reflog shortlog rev-parse rev-list name-rev ls-files ls-tree ls-remote merge-base cat-file count-objects check-ignore for-each-ref show-ref grep config bisect!checkout!switch!reset push!* commit!add rm!add mv!add!rm branch+--set-upstream-to,branch+--unset-upstream,branch+-u!tag!config branch!tag merge!commit cherry-pick!commit revert!commit rebase!commit!merge!checkout!switch switch!branch!checkout!reset checkout,restore,reset,stash!branch!switch!clean pull+--no-ff,pull+--ff,pull+-r,pull+-ri,pull+-rv,pull+-rq,pull+-vr,pull+-qr!commit!fetch!merge!rebase!reset!branch!prune pull+--ff-only!fetch!merge!reset!prune pull!commit!fetch!merge!rebase!reset!branch!prune clone!fetch!pull!checkout!init worktree!branch!checkout remote!fetch!pull!config!tag!prune
";

/// Programs whose options are in the place of subcommands.
const BY_OPTION: &str = "dpkg pacman rpm";

/// Programs of which each word is a target.
const TARGETS: &str = "make gmake ninja just task rake invoke mvn mvnw gradle gradlew";

/// An entry of the list, and the subcommands that it begins with.
#[derive(Clone)]
struct Entry {
    subcommands: Vec<&'static str>,
    text: &'static str,
}

/// The entries of each program.
static ROWS: LazyLock<HashMap<&str, Vec<Entry>>> = LazyLock::new(|| {
    let mut rows = HashMap::new();
    for (names, entries) in KNOWN.lines().filter_map(|row| row.split_once('|')) {
        let entries = entries.split(' ').map(|text| {
            let subcommands = text.split(['!', '>']).next().unwrap_or_default();
            let subcommands = subcommands.split(',').collect();
            Entry { subcommands, text }
        });
        for name in names.split(' ') {
            let own_entries = rows.entry(name).or_insert_with(Vec::new);
            own_entries.extend(entries.clone());
        }
    }
    rows
});

/// A subcommand that is known.
#[derive(Default)]
pub(crate) struct Known {
    /// The subcommands that do the same, with its own, separated by commas.
    same: &'static str,
    /// Other subcommands that it may do the work of, separated by `!`.
    others: &'static str,
    /// Settings that it changes without naming them, separated by commas.
    settings: &'static str,
}

impl Known {
    /// Returns `true` if it may do what another subcommand does, of which these are the words.
    pub(crate) fn may_do(&self, words: &[String]) -> bool {
        let mut others = self.others.split('!');
        let mut same = self.same.split(',');
        others.any(|other| other == "*" || words.iter().any(|word| word == other))
            || same.any(|same| same != "*" && words.iter().any(|word| word == same))
    }

    /// Returns `true` if the list names no other subcommand that it may do the work of.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// Returns the files with settings that it changes without naming them.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static str> {
        let files = self.settings.split(',');
        files.filter(|file| !file.is_empty())
    }
}

/// Returns `true` if the list has subcommands of the program, and no program with any words.
pub(super) fn has_known_subcommands(name: &str) -> bool {
    let is_open = |entry: &Entry| entry.subcommands.iter().any(|word| word.starts_with('*'));
    let entries = ROWS.get(name).filter(|_| !is_listed(TARGETS, name));
    entries.is_some_and(|entries| !entries.iter().any(is_open))
}

/// Returns `true` if the word behind this one is the subcommand.
pub(crate) fn is_group(word: &str) -> bool {
    is_listed(GROUPS, word)
}

/// Returns `true` if the list has the word.
pub(super) fn is_listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// Returns the entry of a command of the program `name`. `words` are its words without the
/// `options`. An entry fits only if it has more than `depth` words, or none.
pub(crate) fn known(
    name: &str,
    words: &[String],
    options: &[String],
    depth: usize,
) -> Option<Known> {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let verb = words.get(depth.max(usize::from(is_listed(GROUPS, first))));
    let verb = verb.map(String::as_str);
    let is_each = is_listed(TARGETS, name);
    let names = [name, without_version(name)].into_iter();
    let rows = names.filter_map(|name| ROWS.get(name));
    let entry = rows.flatten().find(|entry| {
        let matches = |words: &[String]| {
            let mut subcommands = entry.subcommands.iter();
            subcommands.any(|subcommand| fits(subcommand, words, options, depth))
        };
        match words {
            [_, _, ..] if is_each => words.iter().all(|word| matches(std::slice::from_ref(word))),
            _ => matches(words),
        }
    });
    let Some(Entry { text: entry, .. }) = entry else {
        let mut readers = READERS.split_ascii_whitespace();
        let has = |group: &&str| group.split(',').any(|reader| Some(reader) == verb);
        let group = readers.find(|group| !is_each && !is_listed(BY_OPTION, name) && has(group));
        return group.map(|same| Known {
            same,
            ..Known::default()
        });
    };

    let (entry, settings) = entry.split_once('>').unwrap_or((entry, ""));
    let (same, others) = entry.split_once('!').unwrap_or((entry, ""));
    Some(Known {
        same,
        others,
        settings,
    })
}

/// Returns `true` if the words and options of a command are those of a subcommand in the list.
fn fits(subcommand: &str, words: &[String], options: &[String], depth: usize) -> bool {
    let is_one = !subcommand.contains('+') && !subcommand.starts_with(['-', '*']);
    if is_one && !subcommand.is_empty() {
        return depth == 0 && words.first().is_some_and(|word| word == subcommand);
    }

    let parts = subcommand.split('+').filter(|part| !part.is_empty());
    let (given, known): (Vec<_>, Vec<_>) = parts.partition(|part| part.starts_with('-'));
    let has = |option: &&str| {
        let mut names = options.iter().map(|given| given.split('=').next());
        names.any(|name| name == Some(*option))
    };
    let is_given = given.iter().all(has);
    match known[..] {
        _ if !is_given => false,
        [] => words.is_empty(),
        ["*"] => depth == 0,
        [ref known @ .., "."] => known.len() > depth && known.iter().eq(words),
        _ => {
            known.len() > depth
                && words.len() >= known.len()
                && known.iter().zip(words).all(|(known, word)| known == word)
        }
    }
}
