//! Programs that run another program given as arguments: what stands before it, as data.

/// How a wrapper's own options look.
pub(super) struct Wrapper {
    /// Short options without a value.
    pub(super) flags: &'static str,
    /// Short options with a value.
    pub(super) values: &'static str,
    /// Long options without a value, separated by spaces.
    pub(super) long_flags: &'static str,
    /// Long options with a value, separated by spaces.
    pub(super) long_values: &'static str,
    /// Words between the options and the program.
    pub(super) skip: usize,
    /// Whether `NAME=value` words come before the program.
    pub(super) assigns: bool,
}

const fn plain(flags: &'static str, values: &'static str, skip: usize) -> Wrapper {
    Wrapper {
        flags,
        values,
        long_flags: "",
        long_values: "",
        skip,
        assigns: false,
    }
}

const fn long(
    flags: &'static str,
    values: &'static str,
    long_flags: &'static str,
    long_values: &'static str,
    skip: usize,
) -> Wrapper {
    Wrapper {
        flags,
        values,
        long_flags,
        long_values,
        skip,
        assigns: false,
    }
}

/// The wrapper called `name`. Options are those of coreutils 9, util-linux 2.38, sudo 1.9,
/// findutils 4.9, strace 6 and moreutils.
pub(super) fn wrapper(name: &str) -> Option<Wrapper> {
    Some(match name {
        "env" => Wrapper {
            assigns: true,
            ..long(
                "i0v",
                "uC",
                "ignore-environment null debug default-signal ignore-signal block-signal list-signal-handling",
                "unset chdir",
                0,
            )
        },
        "sudo" => Wrapper {
            assigns: true,
            ..long(
                "AbBEHinNPSks",
                "CDghpRrTtuU",
                "askpass background bell preserve-env set-home login non-interactive no-update preserve-groups stdin shell reset-timestamp",
                "close-from chdir group host prompt chroot role command-timeout type user other-user",
                0,
            )
        },
        "doas" => plain("ns", "uCa", 0),
        "nohup" | "builtin" | "catchsegv" | "busybox" | "toybox" | "fakeroot" | "torsocks"
        | "torify" | "tsocks" | "dbus-run-session" | "setarch" | "linux32" | "linux64" | "i386"
        | "x86_64" | "unbuffer" | "rlwrap" | "caffeinate" | "coreutils" | "uutils" | "ifne" => {
            plain("", "", 0)
        }
        "sshpass" => plain("ev", "pfdP", 0),
        "chronic" => plain("ve", "", 0),
        "command" => plain("p", "", 0),
        "exec" => plain("cl", "a", 0),
        "nice" => long("0123456789", "n", "", "adjustment", 0),
        "ionice" => long("t", "cn", "ignore", "class classdata", 0),
        "timeout" => long(
            "v",
            "ks",
            "foreground preserve-status verbose",
            "kill-after signal",
            1,
        ),
        "time" => long(
            "paqvV",
            "of",
            "portability append quiet verbose",
            "format output",
            0,
        ),
        "stdbuf" => long("", "ioe", "", "input output error", 0),
        "setsid" => long("cfw", "", "ctty fork wait", "", 0),
        "setpriv" => long(
            "d",
            "",
            "nnp no-new-privs clear-groups keep-groups init-groups reset-env",
            "ruid euid reuid rgid egid regid groups inh-caps ambient-caps bounding-set securebits \
             pdeathsig selinux-label apparmor-profile landlock-access landlock-rule ptracer",
            0,
        ),
        "taskset" => long("ac", "", "all-tasks cpu-list", "", 1),
        "chrt" => long(
            "abdfiorRv",
            "TPD",
            "all-tasks batch deadline fifo idle other rr reset-on-fork verbose",
            "sched-runtime sched-period sched-deadline",
            1,
        ),
        "chroot" => long("", "", "skip-chdir", "userspec groups", 1),
        "unshare" => long(
            "mnpuUiCTrcf",
            "SGRw",
            "mount net pid uts user ipc cgroup time map-root-user map-current-user fork kill-child mount-proc keep-caps",
            "setuid setgid root wd propagation setgroups map-user map-group",
            0,
        ),
        "nsenter" => long(
            "amunipCUTF",
            "tSG",
            "all mount uts ipc net pid cgroup user time preserve-credentials no-fork",
            "target setuid setgid",
            0,
        ),
        "strace" => long(
            "cCdDfFikqrtTvwxyYzZn",
            "aebEIoOpPsSuUX",
            "follow-forks summary summary-only",
            "trace output attach user env",
            0,
        ),
        "ltrace" => plain("bcCfhiLrStTV", "aAeDFlnopsuwx", 0),
        "flock" => long(
            "ensuxoF",
            "wE",
            "shared exclusive unlock nonblock close no-fork verbose",
            "timeout wait conflict-exit-code",
            1,
        ),
        "gosu" | "su-exec" => plain("", "", 1),
        "faketime" => plain("", "", 1),
        "xvfb-run" => plain("a", "nsefpw", 0),
        "cgexec" => plain("", "g", 0),
        "tini" | "dumb-init" => plain("", "", 0),
        "pkexec" => long("", "", "", "user", 0),
        _ => return None,
    })
}

/// Programs that run what stands somewhere in their arguments: each with the subcommands that
/// do, or none if it always does. Where the program begins is not worked out.
const LOOSE: &[(&str, &str)] = &[
    ("su", ""),
    ("runuser", ""),
    ("newgrp", ""),
    ("runcon", ""),
    ("capsh", ""),
    ("bwrap", ""),
    ("firejail", ""),
    ("proot", ""),
    ("systemd-run", ""),
    ("systemd-nspawn", ""),
    ("start-stop-daemon", ""),
    ("numactl", ""),
    ("prlimit", ""),
    ("valgrind", ""),
    ("perf", "stat record trace"),
    ("gdb", ""),
    ("lldb", ""),
    ("hyperfine", ""),
    ("entr", ""),
    ("tmux", ""),
    ("screen", ""),
    ("expect", ""),
    ("socat", ""),
    ("parallel", ""),
    ("sem", ""),
    ("watch", ""),
    ("script", ""),
    ("proxychains", ""),
    ("proxychains4", ""),
    ("xdotool", "exec"),
    ("ip", "netns vrf"),
    ("direnv", "exec"),
    ("aws-vault", "exec"),
    ("op", "run"),
    ("doppler", "run"),
    ("dotenv", ""),
    ("rr", "record"),
    ("pee", ""),
    ("sg", ""),
    ("run0", ""),
    ("machinectl", "shell"),
    ("schroot", ""),
    ("arch", ""),
    ("softlimit", ""),
    ("systemd-inhibit", ""),
    ("libtool", ""),
    ("nodemon", ""),
    ("watchexec", ""),
    ("watchman-make", ""),
    ("i3-msg", ""),
    ("swaymsg", ""),
    ("konsole", ""),
    ("alacritty", ""),
    ("kitty", ""),
    ("ssh-agent", ""),
    ("dbus-launch", ""),
    ("rsh", ""),
    ("xterm", ""),
    ("gnome-terminal", ""),
    ("at", ""),
    ("batch", ""),
    ("crontab", ""),
    ("dtach", ""),
    ("daemonize", ""),
    ("setuidgid", ""),
    ("chpst", ""),
    ("run-parts", ""),
    ("eatmydata", ""),
    ("cpulimit", ""),
    ("trickle", ""),
    ("ld.so", ""),
];

/// Programs that run it elsewhere, in a container, or from a package: a rule that names them
/// allows that.
const ELSEWHERE: &[(&str, &str)] = &[
    ("docker", "run exec create compose"),
    ("podman", "run exec create compose"),
    ("nerdctl", "run exec create compose"),
    ("docker-compose", "run exec"),
    ("vagrant", "ssh"),
    ("lxc", "exec"),
    ("incus", "exec"),
    ("kubectl", "run exec debug"),
    ("oc", "run exec rsh debug"),
    ("ssh", ""),
    ("mosh", ""),
    ("autossh", ""),
    ("pdsh", ""),
    ("salt", ""),
    ("npx", ""),
    ("uvx", ""),
    ("pipx", "run"),
    ("uv", "run tool"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("hatch", "run"),
    ("conda", "run"),
    ("mamba", "run"),
    ("micromamba", "run"),
    ("pdm", "run"),
    ("rye", "run"),
    ("pixi", "run"),
    ("devbox", "run"),
    ("tox", "exec"),
    ("rbenv", "exec"),
    ("pyenv", "exec"),
    ("nodenv", "exec"),
    ("cargo", "watch"),
    ("bundle", "exec"),
    ("npm", "exec x explore"),
    ("pnpm", "exec dlx"),
    ("yarn", "exec dlx"),
    ("bunx", ""),
    ("mise", "exec x"),
    ("asdf", "exec"),
    ("rustup", "run"),
    ("nix", "run shell develop"),
    ("nix-shell", ""),
];

/// Whether `name` with these words runs what stands in its arguments, at an unknown place.
pub(super) fn is_loose(name: &str, words: impl Iterator<Item = String>) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || is_listed(LOOSE, name, words)
}

/// Whether it does so elsewhere, in a container, or from a package.
pub(super) fn runs_elsewhere(name: &str, words: impl Iterator<Item = String>) -> bool {
    is_listed(ELSEWHERE, name, words)
}

fn is_listed(list: &[(&str, &str)], name: &str, mut words: impl Iterator<Item = String>) -> bool {
    let Some((_, subcommands)) = list.iter().find(|(known, _)| *known == name) else {
        return false;
    };
    subcommands.is_empty()
        || words.any(|word| subcommands.split(' ').any(|subcommand| subcommand == word))
}
