# A command in a folder: `command ROOT FOLDER MERGED END SHELL`, where SHELL is `bash` if no other
# shell may run it. The standard input begins with the command, up to the line END. After it, the
# line `stop` ends the command gently, and the end of the input ends it at once.

# Enters the folder, and reads the command. Its variables are local, so that the command has those
# of the container with the same names.
prepare() {
    # shellcheck disable=SC3043 # the shells of images have it
    local LC_ALL CDPATH base line links make name part relative rest root target 2>/dev/null
    neutralize
    start "$1"
    make=
    strip "$2"
    follow "$relative"
    [ -e "./$name" ] || fail missing
    enter "$name"

    command -v setsid >/dev/null || fail no-setsid
    agentcore_shell=$(command -v bash) || agentcore_shell=sh
    [ "$5" != bash ] || [ "$agentcore_shell" != sh ] || fail no-bash
    agentcore_work=
    while :; do
        IFS= read -r line || exit 1
        [ "$line" != "$4" ] || break
        agentcore_work="$agentcore_work$line
"
    done
}

prepare "$@"
reply ok

exec 3<&0 4>&1 </dev/null
[ "$3" != merged ] || exec 2>&1
# The left side leads the command's session; the right side outlives it, ends its processes and
# returns its exit code.
{
    # shellcheck disable=SC2016 # for the other shell
    setsid "$agentcore_shell" -c 'echo "leader $$" >&5; exec 5>&-; eval "$1"' \
        "$agentcore_shell" "$agentcore_work" 3<&- 5>&1 1>&4 4>&-
    echo "$?"
} | {
    read -r tag leader
    [ "$tag" = leader ] || exit 127
    (
        exec >/dev/null 2>&1 4>&-
        read -r word <&3
        if [ "$word" = stop ]; then
            # From here on, the end of the leader does not end the others.
            trap '' TERM
            kill -s TERM -- "-$leader"
            left=20
            while [ "$left" -gt 0 ] && kill -s 0 -- "-$leader"; do
                sleep 0.1 || { sleep 2; break; }
                left=$((left - 1))
            done
        fi
        kill -s KILL -- "-$leader"
    ) &
    watcher=$!
    exec 3<&- 4>&-
    read -r code
    # Shells may report the end of the watcher as output of the command.
    exec 2>/dev/null
    kill -s TERM "$watcher"
    wait "$watcher"
    kill -s KILL -- "-$leader"
    exit "${code:-1}"
}
