//! Programs that run the command in their words. The options are taken from coreutils 9, util-linux
//! 2.38, sudo 1.9, findutils 4.9, strace 6 and moreutils.

pub(super) const ROWS: &str = "\
xargs gxargs | X | command | -0prtxo -dEPs:text -a:file -Ln:text!again -I:marker -J:marker -R:text -i?marker!braces --null --interactive --no-run-if-empty --verbose --exit --open-tty --show-limits --arg-file:file --delimiter:text --max-lines?text!again --max-args:text!again --max-procs:text --max-chars:text --replace?marker!braces -l?text!again
env | X | command | -0v -i!hidden -u:unset -C:cd --ignore-environment!hidden --null --debug --default-signal?text --ignore-signal?text --block-signal?text --list-signal-handling --unset:unset --chdir:cd
sudo | X | command | -AbBEHnNPSk -s!shell --shell!shell -CghprTtuU:text -D:cd --askpass --background --bell --preserve-env?text --set-home --non-interactive --no-update --preserve-groups --stdin --reset-timestamp --close-from:text --chdir:cd --group:text --host:text --prompt:text --role:text --command-timeout:text --type:text --user:text --other-user:text
doas | X | command | -n -s!shell -uCa:text
nohup builtin catchsegv busybox toybox torify tsocks dbus-run-session unbuffer rlwrap caffeinate coreutils uutils ifne tini dumb-init | X | command |
fakeroot torsocks linux32 linux64 i386 x86_64 | X | command/sh |
gosu su-exec faketime | X | text command |
command | X | command | -p -vV!about
exec | X | command | -cl
nice | X | command/clear | -n:text --adjustment:text
ionice | X | command/clear | -t -cn:text --ignore --class:text --classdata:text
timeout gtimeout | X | text command/clear | -v -ks:text --foreground --preserve-status --verbose --kill-after:text --signal:text
time | X | command | -paqvV -f:text -o:write --portability --append --quiet --verbose --format:text --output:write
stdbuf | X | command/clear | -ioe:text --input:text --output:text --error:text
setsid | X | command | -cfw --ctty --fork --wait
chroot | X | text command/sh | --skip-chdir --userspec:text --groups:text
unshare | X | command/sh | -mnpuUiCTrcf -SG:text -w:cd --wd:cd --mount --net --pid --uts --user --ipc --cgroup --time --map-root-user --map-current-user --fork --kill-child?text --mount-proc?text --keep-caps --setuid:text --setgid:text --propagation:text --setgroups:text --map-user:text --map-group:text
nsenter | X | command/sh | -amunipCUTF -tSG:text --all --mount --net --pid --uts --user --ipc --cgroup --time --preserve-credentials --no-fork --target:text --setuid:text --setgid:text
strace | X | command | -cCdDfFikqrtTvwxyYzZn -aebIOpPsSuUX:text -o:pipe --follow-forks --summary --summary-only --trace:text --output:pipe --attach:text --user:text
flock | X | text command | -ensuxoF -wE:text --shared --exclusive --unlock --nonblock --close --no-fork --verbose --timeout:text --wait:text --conflict-exit-code:text
xvfb-run | X | command | -a -nspw:text -ef:write
pkexec | X | command | --user:text
";
