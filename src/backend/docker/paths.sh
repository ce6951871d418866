# Paths beneath a root. The folder that was entered is the handle to its entries: every path used
# from there on is `./name`.

# Unsets what would change the texts of programs and the folders of `cd`.
neutralize() {
    LC_ALL=C
    export LC_ALL
    unset CDPATH
}

# Prints the outcome, before any other output.
reply() {
    printf 'agentcore:%s\n' "$*"
}

fail() {
    reply "$@"
    exit 0
}

inside() {
    case "$PWD/" in
    "${base%/}/"*) ;;
    *) fail outside ;;
    esac
}

# Enters the root, `$1`.
start() {
    root=${1%/}
    cd -P "${1}" || fail gone
    base=$PWD
}

# Sets `relative` to the path `$1`, without the root if it is absolute.
strip() {
    case "$1" in
    "$root" | "$root"/*) relative=${1#"$root"} ;;
    "$base" | "${base%/}"/*) relative=${1#"${base%/}"} ;;
    /*) fail outside ;;
    *) relative=$1 ;;
    esac
}

# Enters the folder `./$1`, also by a link, if it is beneath the root.
enter() {
    if [ ! -d "./$1" ]; then
        if [ -e "./$1" ]; then
            fail not-folder
        elif [ -L "./$1" ] || [ "$make" != make ]; then
            fail missing
        fi
        mkdir "./$1" || [ -d "./$1" ] || fail failed
    fi
    cd -P "./$1" || fail failed
    inside
}

# Enters the folder of the path `$1`. Sets `name` to the last part, `.` for the folder itself.
walk() {
    rest=$1
    while :; do
        case "$rest" in
        /*) rest=${rest#/} ;;
        */*)
            part=${rest%%/*}
            rest=${rest#*/}
            enter "$part"
            ;;
        .. | .)
            enter "$rest"
            name=.
            return
            ;;
        *)
            name=${rest:-.}
            return
            ;;
        esac
    done
}

# Like `walk`, but follows a link at the end of the path.
follow() {
    walk "$1"
    links=0
    while [ "$name" != . ] && [ -L "./$name" ]; do
        links=$((links + 1))
        [ "$links" -le 40 ] || fail loop
        target=$(readlink "./$name" && printf x) || fail failed
        target=${target%?x}
        case "$target" in
        /*)
            strip "$target"
            target=$relative
            cd -P "$base" || fail gone
            ;;
        esac
        walk "$target"
    done
}
