//! Programs that run what stands somewhere in their arguments.

/// They run it here: name, or `name:` and the subcommands that do. Where the program begins is not
/// worked out.
const LAUNCHERS: &str = "su runuser newgrp runcon capsh bwrap firejail proot systemd-run systemd-nspawn \
 start-stop-daemon numactl prlimit valgrind perf:stat,record,trace gdb lldb hyperfine entr tmux screen \
 expect socat parallel sem watch script proxychains proxychains4 xdotool:exec ip:netns,vrf direnv:exec \
 aws-vault:exec op:run doppler:run dotenv rr:record pee sg run0 machinectl:shell schroot arch softlimit \
 systemd-inhibit libtool nodemon watchexec watchman-make i3-msg swaymsg konsole alacritty kitty ssh-agent \
 dbus-launch rsh xterm gnome-terminal at batch crontab dtach daemonize setuidgid chpst run-parts eatmydata \
 cpulimit trickle ld.so";

/// They run it elsewhere, in a container, or from a package: a rule that names them allows that.
const ELSEWHERE: &str = "docker:run,exec,create,compose podman:run,exec,create,compose \
 nerdctl:run,exec,create,compose docker-compose:run,exec vagrant:ssh lxc:exec incus:exec \
 kubectl:run,exec,debug oc:run,exec,rsh,debug ssh mosh autossh pdsh salt npx uvx pipx:run uv:run,tool \
 poetry:run pipenv:run hatch:run conda:run mamba:run micromamba:run pdm:run rye:run pixi:run devbox:run \
 tox:exec rbenv:exec pyenv:exec nodenv:exec cargo:watch bundle:exec npm:exec,x,explore pnpm:exec,dlx \
 yarn:exec,dlx bun:x bunx mise:exec,x asdf:exec rustup:run nix:run,shell,develop nix-shell";

/// They change nothing of what the command behind them does.
const TRANSPARENT: &str = "timeout gtimeout nice ionice stdbuf";

/// Returns `true` if an allow rule need not name the program, but only the command behind it.
pub(crate) fn is_transparent(name: &str) -> bool {
    TRANSPARENT.split(' ').any(|known| known == name)
}

/// Returns `true` if `name` with these words runs what stands in its arguments.
pub(crate) fn is_launcher(name: &str, words: impl Iterator<Item = String>) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || is_listed(LAUNCHERS, name, words)
}

/// Returns `true` if it does so elsewhere.
pub(crate) fn runs_elsewhere(name: &str, words: impl Iterator<Item = String>) -> bool {
    is_listed(ELSEWHERE, name, words)
}

fn is_listed(list: &str, name: &str, mut words: impl Iterator<Item = String>) -> bool {
    let mut entries = list.split_ascii_whitespace();
    entries.any(|entry| match entry.split_once(':') {
        None => entry == name,
        Some((known, subcommands)) => {
            known == name && words.any(|word| subcommands.split(',').any(|known| known == word))
        }
    })
}
