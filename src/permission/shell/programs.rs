//! Programs and their options that run programs, write files or change settings: data.

/// One program's options worth a question.
pub(super) struct Program {
    /// Its names.
    pub(super) names: &'static str,
    /// Kind and option, separated by blanks. `x`: runs its value; `h`: runs something else;
    /// `w`: writes the file that is its value; `e`: changes something.
    pub(super) options: &'static str,
    /// Short options with a value: what follows them in a word is no option.
    pub(super) values: &'static str,
    /// Whether long options may be abbreviated.
    pub(super) abbreviates: bool,
}

pub(super) const fn program(
    names: &'static str,
    options: &'static str,
    values: &'static str,
    abbreviates: bool,
) -> Program {
    Program {
        names,
        options,
        values,
        abbreviates,
    }
}

pub(super) const PROGRAMS: &[Program] = &[
    program(
        "rg",
        "x--pre x--hostname-bin e-z e--search-zip",
        "egfjmABCtTMEdr",
        false,
    ),
    program("fd fdfind", "", "", true),
    program("find gfind", "", "", false),
    program(
        "sort gsort",
        "w-o w--output x--compress-program",
        "kStT",
        true,
    ),
    program("uniq", "", "", true),
    program("shuf", "w-o w--output", "ine", true),
    program(
        "man",
        "x-H x--html x-P x--pager h-C h--config-file h-p h--preprocessor h-M h--manpath h-l h--local-file",
        "LmSserREt",
        true,
    ),
    program(
        "less more most",
        "w-o w-O w--log-file w--LOG-FILE h-k h--lesskey-file h--lesskey-src h--lesskey-content h--cmd",
        "bhjpPtTxyz",
        true,
    ),
    program(
        "vim vi nvim view ex gvim vimdiff",
        "h-c h--cmd h-S h-s h-u h-U h-i h-e h-E h-w h-W h--remote-send h--remote-expr",
        "",
        true,
    ),
    program(
        "emacs",
        "h-l h--load h--eval h--execute h-f h--funcall h--script h--batch h-Q h--directory h-L",
        "",
        true,
    ),
    program(
        "make gmake bmake",
        "h--eval h-f h--file h--makefile h-E h-I h--include-dir",
        "jlWo",
        true,
    ),
    program("nano pico", "x-s x--speller", "", true),
    program(
        "gpg gpg2",
        "x--photo-viewer x--agent-program x--dirmngr-program h--options w-o w--output",
        "r",
        true,
    ),
    program("ninja", "h-f h-t", "jkl", false),
    program("cmake", "h-P h-E h-C h--build-tool", "GDBSAT", false),
    program("cargo", "h--config h-Z", "pjF", false),
    program("rustc", "h-C h--codegen w-o w--out-dir h-Z", "", false),
    program(
        "go",
        "x-exec x--exec x-toolexec x--toolexec x-vettool x--vettool h-overlay h--overlay h-modfile h--modfile w-o",
        "",
        false,
    ),
    program(
        "npm pnpm yarn bun npx",
        "h--script-shell h--node-options h--globalconfig h--userconfig h--prefix h-C h--git h--viewer h--editor h--shell h--init-module h--call h-c h--cwd h--use-yarnrc h--config h--preload",
        "w",
        true,
    ),
    program("node nodejs", "", "", false),
    program("split", "x--filter", "abCln", true),
    program(
        "tar gtar bsdtar",
        "x--to-command x--checkpoint-action x-I x--use-compress-program x--rsh-command x--rmt-command x-F x--info-script x--new-volume-script e--remove-files h--files-from-command",
        "fCbgKLNTVX",
        true,
    ),
    program("cpio", "x--rsh-command h-H", "", true),
    program(
        "zip",
        "h-T h-TT h--test h--unzip-command w-O w--output-file",
        "",
        true,
    ),
    program("unzip", "h-o", "dPx", false),
    program("7z 7za 7zz", "h-si", "", false),
    program(
        "rsync",
        "x-e x--rsh h--rsync-path e--remove-source-files e--del e--delete w--log-file w--write-batch h--daemon h--config",
        "BMTf",
        true,
    ),
    program("ssh scp", "x-o h-F x-S x-D", "cilPlJ", false),
    program("sftp", "x-o h-F x-S x-D h-b", "cilPlJ", false),
    program("ssh-keygen ssh-add", "h-D h-w h-P", "", false),
    program(
        "curl",
        "w-o w--output e-O e--remote-name e--remote-name-all e-J e--remote-header-name w-D w--dump-header w-c w--cookie-jar w--trace w--trace-ascii w--stderr w--libcurl w--etag-save w--hsts w--alt-svc w--output-dir h-K h--config h--engine h--netrc-file",
        "XHdAeubmFTCEQrtxyYzUPw",
        false,
    ),
    program(
        "wget",
        "w-O w--output-document w-o w--output-file w-a w--append-output w-P w--directory-prefix x--use-askpass h-e h--execute h--config w--save-cookies w--rejected-log w--warc-file h-i h--input-file",
        "tTQUBADRIXlwY",
        true,
    ),
    program("base64 base32 basenc", "w-o w--output", "wib", true),
    program("xxd", "h-r", "clsgo", false),
    program("date", "e-s e--set", "dfrI", true),
    program("tree", "w-o h-R", "LPIH", false),
    program(
        "yq",
        "e-i e--inplace e--in-place h--split-exp h-s",
        "",
        true,
    ),
    program("jq gojq", "h-L", "", false),
    program(
        "gcc g++ cc c++ clang clang++",
        "w-o h-wrapper h-B h-fplugin h-specs h--specs h-Xlinker h-load",
        "IDULlxWfmOg",
        false,
    ),
    program("ld", "h-plugin h--plugin w-o", "", false),
    program("lftp", "h-c h-e h-f", "", false),
    program(
        "nmap",
        "h--script h--script-args h--datadir h--servicedb w-oN w-oX w-oG w-oA h--interactive",
        "",
        false,
    ),
    program("tcpdump", "x-z w-w w-W", "", false),
    program(
        "openssl",
        "h-engine h-provider h-provider-path w-out h-config",
        "",
        false,
    ),
    program("sqlite3", "h-cmd h-init", "", false),
    program(
        "psql",
        "w-o w--output w-L w--log-file h-f h--file",
        "dhpUcvPFRT",
        true,
    ),
    program("mysql mariadb", "h--pager h--tee h-e h--execute", "", true),
    program(
        "apt apt-get aptitude apt-cache dpkg",
        "h-o h--option h-c h--config-file h--pre-invoke h--post-invoke h--admindir h--root",
        "t",
        true,
    ),
    program("hg", "h--config h-R h--repository h--cwd", "", true),
    program(
        "svn",
        "h--config-option h--config-dir x--editor-cmd x--diff-cmd x--diff3-cmd h--with-all-revprops",
        "",
        false,
    ),
    program("fzf sk", "x--preview h--bind h--become", "", true),
    program(
        "ack ag bat batcat delta",
        "x--pager h--pager h--ackrc",
        "",
        false,
    ),
    program(
        "pdflatex latex xelatex lualatex tex",
        "h-shell-escape h--shell-escape h-enable-write18 h--enable-write18 w-output-directory",
        "",
        false,
    ),
    program("ctags", "h--options h--kinddef", "", false),
    program("install", "h--strip-program h-s", "mogtS", true),
    program(
        "nc ncat netcat",
        "x-e x-c x--exec x--sh-exec h--lua-exec w-o w--output",
        "psw",
        false,
    ),
    program("xargs", "", "", false),
    program(
        "pip pip3 uv",
        "h--index-url h--extra-index-url h-i h--config-settings",
        "",
        false,
    ),
    program("column cut head tail wc", "", "", true),
    program("grep egrep fgrep", "", "", true),
    program("ip tc", "h-b h-batch h--batch h-force", "", false),
    program("mount", "h-i", "", false),
    program("exiftool", "h-if h-config h-@ h-execute", "", false),
    program("gs", "h-o h-f h-c h-dNOSAFER", "", false),
    program(
        "pandoc",
        "h-F h--filter h-L h--lua-filter h--pdf-engine w-o w--output h-d h--defaults",
        "",
        true,
    ),
    program(
        "journalctl systemctl loginctl",
        "h--root h-M h-H",
        "",
        false,
    ),
    program(
        "pytest py.test",
        "h-p h-c h--rootdir h--override-ini h-o h--confcutdir h--import-mode h--pastebin h--pdbcls w--junitxml w--junit-xml w--basetemp",
        "kmnWr",
        true,
    ),
    program("terraform tofu", "h-chdir", "", false),
    program("ansible ansible-playbook", "h-e h-m h-a", "", false),
    program("gradle gradlew mvn", "h-I h--init-script", "", false),
    program(
        "docker podman",
        "h-H h--config h--host h--context h-c",
        "",
        false,
    ),
    program("kubectl", "h--kubeconfig h--context", "", false),
    program("diff", "w--output-to", "", true),
    program("zgrep zcat gzip xz", "", "", true),
];

/// Programs whose long options begin with one dash.
pub(super) const ONE_DASH: [&str; 9] = [
    "go",
    "nmap",
    "openssl",
    "terraform",
    "tofu",
    "exiftool",
    "pdflatex",
    "xelatex",
    "lualatex",
];

/// Words that run something wherever they stand: program and the word's beginning.
pub(super) const WORDS: &[(&str, &str)] = &[
    ("less more most vim vi nvim view ex", "+"),
    ("make gmake bmake", "=in"),
    ("sqlite3", "."),
    ("psql mysql mariadb", "\\"),
    ("gcc g++ cc c++ clang clang++ tar gtar javac", "@"),
    ("ed dc edlin red m4 xdg-open open sh", ""),
    ("ncat", "--lua"),
    ("openssl", "engine"),
    ("mvn", "exec:"),
];
