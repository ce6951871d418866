//! Programs that run what stands somewhere in their arguments.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::model::{has_row, works_inside};

/// They run it here: name, or `name:` and the subcommands that do. Where the program begins is not
/// worked out.
const LAUNCHERS: &str = "\
    setpriv chronic taskset chrt ltrace cgexec sshpass setarch su runuser newgrp runcon capsh \
    bwrap firejail proot systemd-run systemd-nspawn start-stop-daemon numactl prlimit valgrind \
    perf:ftrace,kwork,stat,record,trace,mem,lock,kvm,sched,c2c,kmem,timechart gdb lldb hyperfine \
    entr tmux screen expect socat parallel sem watch script proxychains proxychains4 xdotool:exec \
    ip:netns,vrf direnv:exec aws-vault:exec op:run doppler:run dotenv rr pee sg run0 \
    machinectl:shell schroot arch softlimit systemd-inhibit libtool nodemon watchexec \
    watchman-make i3-msg swaymsg konsole alacritty kitty ssh-agent dbus-launch rsh xterm \
    gnome-terminal at batch crontab dtach daemonize setuidgid chpst run-parts eatmydata cpulimit \
    trickle systemd-cat nyc cross-env env-cmd concurrently kcov xcrun gtime envchain uftrace \
    npm:explore,run+env,run-script+env pnpm:explore,run+env mpirun mpiexec srun honcho:run \
    foreman:run rename rename.ul prename perl-rename file-rename mmv ld.so \
    launchctl:asuser,bsexec,submit go:tool+test2json flatpak:build,enter";

/// They run it elsewhere, in a container, or from a package: a rule that names them allows that.
const ELSEWHERE: &str = "\
    docker:run,exec,create,compose+run,compose+exec,container+run,container+exec,container+create \
    podman:run,exec,create,compose+run,compose+exec,container+run,container+exec,container+create \
    nerdctl:run,exec,create,compose+run,compose+exec,container+run,container+exec,container+create \
    docker-compose:run,exec vagrant:ssh lxc:exec incus:exec kubectl:run,exec,debug \
    oc:run,exec,rsh,debug ssh mosh pdsh salt npx uvx uv:tool bunx nix:run,shell,develop nix-shell \
    snap:run flatpak:run gcloud:compute+ssh";

/// They run any program here: a rule has to name the subcommand, unless the program works on the
/// project.
const HERE: &str = "\
    cargo:watch bundle:exec npm:exec,x pnpm:exec,dlx yarn:exec,dlx bun:exec,x poetry:run \
    pipenv:run uv:run,tool+run pipx:run hatch:run conda:run mamba:run micromamba:run pdm:run \
    rye:run pixi:run,r devbox:run rbenv:exec pyenv:exec nodenv:exec asdf:exec mise:exec,x \
    tox:exec,e rustup:run";

/// The subcommands of each program in a list; none for all of them.
type Entries = HashMap<&'static str, Option<&'static str>>;

static LAUNCHER_ENTRIES: LazyLock<Entries> = LazyLock::new(|| entries(LAUNCHERS));
static ELSEWHERE_ENTRIES: LazyLock<Entries> = LazyLock::new(|| entries(ELSEWHERE));
static HERE_ENTRIES: LazyLock<Entries> = LazyLock::new(|| entries(HERE));

fn entries(list: &'static str) -> Entries {
    let entries = list.split_ascii_whitespace();
    let entries = entries.map(|entry| match entry.split_once(':') {
        Some((name, subcommands)) => (name, Some(subcommands)),
        None => (entry, None),
    });
    entries.collect()
}

/// Returns `true` if a rule about `name` alone does not allow the program that stands in its
/// arguments, of which these are the first that are no options.
pub(crate) fn runs_any(name: &str, words: &[String]) -> bool {
    let inner = words.get(1).map(String::as_str).unwrap_or_default();
    let is_script = inner.ends_with(".py") && !inner.contains(':');
    is_listed(&HERE_ENTRIES, name, words) && !works_inside(inner) && !is_script
}

/// Returns `true` if `name` runs what stands in its arguments, of which these are the first that
/// are no options.
pub(crate) fn is_launcher(name: &str, words: &[String]) -> bool {
    name.starts_with("ld-linux")
        || name.starts_with("ld-musl")
        || is_listed(&LAUNCHER_ENTRIES, name, words)
}

/// Returns `true` if `name` runs what stands in its arguments elsewhere or from a package, or if
/// this subcommand of it runs any program here.
pub(crate) fn runs_elsewhere(name: &str, words: &[String]) -> bool {
    is_listed(&ELSEWHERE_ENTRIES, name, words) || is_listed(&HERE_ENTRIES, name, words)
}

/// Returns `true` if programs have a subcommand of this name that runs code, in the words after it
/// or in the input.
pub(crate) fn is_console(name: &str) -> bool {
    let names = ["shell", "repl", "tinker", "runner", "eval", "dbshell"];
    names.contains(&name) || name.starts_with("console")
}

/// Returns `true` if a subcommand of `name` runs any program here.
pub(crate) fn runs_here(name: &str) -> bool {
    HERE_ENTRIES.contains_key(name) || matches!(name, "nix" | "nix-shell" | "uv")
}

/// Returns `true` if `name` is a program that is known.
pub(crate) fn is_program(name: &str) -> bool {
    has_row(name) || is_launcher(name, &[]) || runs_elsewhere(name, &[])
}

fn is_listed(entries: &Entries, name: &str, words: &[String]) -> bool {
    let Some(subcommands) = entries.get(name) else {
        return false;
    };
    let Some(subcommands) = subcommands else {
        return true;
    };

    // A subcommand may be given by its first letters.
    let is = |known: &str, word: &String| {
        known == word || word.len() > 1 && known.starts_with(word.as_str())
    };
    subcommands.split(',').any(|subcommand| {
        let (first, second) = subcommand.split_once('+').unwrap_or((subcommand, ""));
        let mut other_words = words.iter().skip(1);
        words.first().is_some_and(|word| is(first, word))
            && (second.is_empty() || other_words.any(|word| is(second, word)))
    })
}
