# One operation on one path: `files ROOT OPERATION PATH ...`.

regular() {
    if [ -d "./$name" ]; then
        fail folder
    elif [ -e "./$name" ]; then
        [ -f "./$name" ] || fail not-file
    elif [ "$make" != make ] || [ -L "./$name" ]; then
        fail missing
    fi
}

# Sets `bytes` to the size. `wc` may read a file to its end, so it counts only files for which
# `stat` has no size.
size() {
    bytes=$(stat -L -c %s "./$name" 2>/dev/null) || bytes=0
    [ "$bytes" -gt 0 ] 2>/dev/null || bytes=$(wc -c <"./$name") || fail failed
    bytes=$((bytes))
}

# Copies the standard input, `$1` bytes, to a temporary file next to the target.
receive() {
    if [ -e "./$name" ]; then
        [ -w "./$name" ] || fail denied
    fi
    temporary=./.agentcore-$2.tmp
    trap 'rm -f "$temporary"' EXIT
    # Also if the caller has closed the pipe.
    trap 'exit 1' HUP INT PIPE TERM
    cat >"$temporary" || fail failed
    # The sender may have ended before it had sent all bytes.
    [ "$(($(wc -c <"$temporary")))" -eq "$1" ] || fail cut
}

# Prints the kind and name of each entry, then the sizes of the files among them, in that order.
entries() {
    set -- * .[!.]* ..?*
    # `MAX_ENTRIES`, and two patterns without a match.
    [ "$#" -le 200002 ] || fail many
    # These may be the patterns, as in a folder that cannot be read.
    [ "$#" -gt 3 ] || ls . >/dev/null || fail failed
    reply ok
    for entry; do
        if [ -L "./$entry" ]; then
            printf 'l%s\0' "$entry"
        elif [ -d "./$entry" ]; then
            printf 'd%s\0' "$entry"
        elif [ -f "./$entry" ]; then
            printf 'f%s\0' "$entry"
        elif [ -e "./$entry" ]; then
            printf 'o%s\0' "$entry"
        fi
    done
    printf '\0'
    for entry; do
        if [ -f "./$entry" ] && [ ! -L "./$entry" ]; then
            printf './%s\0' "$entry"
        fi
    done | xargs -0 stat -c %s 2>/dev/null
    # The status of `xargs` without files is an error. A missing size is detected by the caller.
    :
}

# Prints `+` and the content of each named file, or nothing for one that cannot be read, up to `$1`
# bytes in all; a line with `$2` follows each.
many() {
    left=$1
    mark=$2
    shift 2
    for entry; do
        name=$entry
        if [ -f "./$name" ] && [ ! -L "./$name" ] && [ -r "./$name" ]; then
            size
            [ "$bytes" -le "$left" ] || return 0
            left=$((left - bytes))
            # Nothing is printed for a file that cannot be opened. One that cannot be read to its end
            # has no mark, and is read alone.
            { printf '+' && { cat || return 0; }; } <"./$name"
        fi
        printf '\n%s\n' "$mark"
    done
}

files() {
    neutralize
    start "$1"
    make=
    operation=$2
    case "$operation" in
    write | append) make=make ;;
    esac
    strip "$3"
    case "$operation" in
    remove) walk "$relative" ;;
    *) follow "$relative" ;;
    esac
    case "$operation" in
    read)
        regular
        size
        [ "$bytes" -le "$4" ] || fail large "$bytes"
        reply ok
        head -c "$(($4 + 1))" "./$name"
        ;;
    range)
        regular
        size
        reply ok
        if [ "$4" -lt "$bytes" ]; then
            # The status is that of `head`, or of opening the file.
            { tail -c "+$(($4 + 1))" | head -c "$5"; } <"./$name"
        fi
        ;;
    stat)
        if [ -d "./$name" ]; then
            kind=d bytes=0
        elif [ -f "./$name" ]; then
            kind=f
            size
        elif [ -e "./$name" ]; then
            kind=o bytes=0
        else
            fail missing
        fi
        reply ok
        echo "$kind $bytes $(stat -L -c %Y "./$name" 2>/dev/null)"
        ;;
    write)
        regular
        receive "$4" "$5"
        if [ -e "./$name" ]; then
            chown "$(stat -c %u:%g "./$name")" "$temporary" 2>/dev/null
            chmod "$(stat -c %a "./$name")" "$temporary" || fail failed
        fi
        sync "$temporary" 2>/dev/null
        mv -f "$temporary" "./$name" || fail failed
        reply ok
        ;;
    append)
        regular
        receive "$4" "$5"
        cat "$temporary" >>"./$name" || fail failed
        reply ok
        ;;
    list)
        [ -e "./$name" ] || fail missing
        make=
        enter "$name"
        entries
        ;;
    tree)
        enter "$name"
        reply ok
        # A longer listing is not kept: see `MAX_TREE_LISTING`. A `!` means that a folder could not
        # be read.
        {
            find . -type d -print0 || printf '!\0'
            printf '\0'
            find . -type f -print0
            printf '\0'
        } 2>/dev/null | head -c "$4"
        ;;
    many)
        enter "$name"
        shift 3
        reply ok
        many "$@"
        ;;
    remove)
        if [ -d "./$name" ] && [ ! -L "./$name" ]; then
            fail folder
        elif [ ! -e "./$name" ] && [ ! -L "./$name" ]; then
            fail missing
        fi
        rm -f "./$name" || fail failed
        reply ok
        ;;
    esac
}

files "$@"
