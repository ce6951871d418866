//! Variables, by their use in programs.

use super::inputs::names_in;
use super::word::{LISTED, OUTER, Part, Word};

/// Variables that change nothing but language, color, logging and the target of a build.
const HARMLESS: &str = "\
    NODE_ENV LANG LANGUAGE TZ CI NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE RUST_LOG \
    RUST_BACKTRACE RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL GOOS GOARCH GOARM \
    CGO_ENABLED PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED COLUMNS LINES VERBOSE V \
    PORT DEBUG LOG_LEVEL GO111MODULE HUSKY GIT_TERMINAL_PROMPT LC_ALL LC_ADDRESS LC_COLLATE \
    LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY LC_NAME LC_NUMERIC LC_PAPER \
    LC_TELEPHONE LC_TIME";

/// Names in upper case that scripts give to their own values, and that no program looks for.
const LOCAL: &str = "\
    BRANCH COMMIT COUNT DATE DIR END FILE FILES ID LINE MSG NAME NUM OUT OUTPUT PID PIDS RC RESULT \
    SHA START STATUS TAG TOTAL VERSION";

/// Parts of the names of variables whose value programs run.
const RUN: &str = "\
    PAGER EDITOR VISUAL COMMAND CMD SHELL ASKPASS BROWSER DIFF GIT_SSH RSH LESSOPEN LESSCLOSE \
    WRAPPER RUNNER BASH_ENV";

/// Variables that name a file or a folder that programs write, also if they are exported later.
const WRITTEN: &str = "\
    GIT_INDEX_FILE SSLKEYLOGFILE LLVM_PROFILE_FILE COVERAGE_FILE PIP_LOG CARGO_TARGET_DIR \
    PYTHONPYCACHEPREFIX NODE_V8_COVERAGE HISTFILE GIT_WORK_TREE TAR_OPTIONS UNZIP UNZIPOPT";

/// Returns `true` if setting the variable changes nothing of what programs run, read and write.
pub(super) fn is_harmless(name: &str, value: Option<&Word>) -> bool {
    let only_values: &[&str] = match name {
        "PAGER" | "GIT_PAGER" => &["cat"],
        "EDITOR" | "GIT_EDITOR" | "GIT_SEQUENCE_EDITOR" => &["true", ":"],
        "DEBIAN_FRONTEND" => &["noninteractive"],
        "RUSTFLAGS" | "RUSTDOCFLAGS" => &["-D warnings", "-Dwarnings", "-C target-cpu=native"],
        "NODE_OPTIONS" => return value.is_some_and(is_memory_limit),
        _ => &[],
    };
    if !only_values.is_empty() {
        let text = value.and_then(Word::literal);
        return text.is_some_and(|text| only_values.contains(&&*text));
    }

    // Makefiles put these in front of a program.
    let may_be_program = matches!(name, "DEBUG" | "V" | "VERBOSE");
    let marks = if may_be_program {
        "_.,:=+*-@"
    } else {
        "_.,:=+*-/@"
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    let is_file = |value: &str| value.starts_with(['/', ':']) || value.contains("..");
    HARMLESS.split(' ').any(|known| known == name)
        && value.is_some_and(|value| {
            let prefix = value.literal_prefix();
            let texts = value.parts.iter().filter_map(Part::text);
            !is_file(&prefix) && texts.flat_map(str::chars).all(is_plain)
        })
}

/// Returns `true` for the option of node that limits its memory.
fn is_memory_limit(value: &Word) -> bool {
    let text = value.literal().unwrap_or_default();
    let number = text.replace('_', "-");
    let number = number.strip_prefix("--max-old-space-size=");
    number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns `true` if programs run the value.
pub(super) fn is_run(name: &str) -> bool {
    RUN.split(' ').any(|part| name.contains(part)) || matches!(name, "ENV" | "PS1" | "PS2" | "PS4")
}

/// Returns `true` if the value of the variable may name a file or a folder that programs write.
pub(super) fn names_files(name: &str) -> bool {
    let mut names = WRITTEN.split_whitespace();
    name.starts_with("GIT_TRACE") || names.any(|known| known == name)
}

/// Returns `true` if the text of a variable is for people, and has several words, or names settings
/// of npm.
fn is_read(name: &str, text: &str) -> bool {
    const TEXTS: &str = "BODY COMMENT DESCRIPTION MESSAGE MSG NOTES PROMPT SUMMARY TEXT TITLE";
    let is_config = matches!(name, "NPM_CONFIG_USERCONFIG" | "NPM_CONFIG_GLOBALCONFIG");
    text.contains(' ') && TEXTS.split(' ').any(|part| name.contains(part))
        || is_config && text.ends_with("npmrc")
}

/// Returns the files and folders that programs may write because of the value of a variable: the
/// value of one that [`names_files`], and the names in any other, which may hold options or code.
pub(super) fn written_files(name: &str, value: &Word) -> Vec<Word> {
    let is_known = |part: &Part| match part {
        Part::Value { .. } => matches!(part.variable(), Some("PWD" | "HOME")),
        _ => true,
    };
    let text = value.literal();
    // Git takes other values than absolute paths as numbers and answers.
    let is_answer =
        name.starts_with("GIT_TRACE") && text.is_some_and(|text| !text.starts_with('/'));
    let is_file =
        names_files(name) && !value.is("") && !is_answer && value.parts.iter().all(is_known);
    let file = is_file.then(|| value.clone());

    let texts: Vec<&str> = value.parts.iter().filter_map(Part::text).collect();
    let texts = texts.join("=");
    if is_read(name, &texts) {
        return file.into_iter().collect();
    }
    let may_be_folder_of_git = names_files(name);
    // `-d folder`, `-dfolder`, `--directory=folder`
    let names = names_in(&texts).flat_map(|text| {
        let end = text.get(2..).filter(|_| text.starts_with('-'));
        [Some(text), end]
    });
    // Below the folder of git only some files are protected: a variable may well name the folder.
    let is_path = |text: &&str| {
        let is_folder_of_git = text.trim_end_matches('/').ends_with(".git");
        text.contains(['.', '/']) && (may_be_folder_of_git || !is_folder_of_git)
    };
    let names = names.flatten().filter(is_path);
    let names = names.map(|text| Word::from_text(text).with_home());
    file.into_iter().chain(names).collect()
}

/// Returns `true` if the name is in lower case, or another one that only the script itself uses.
pub(super) fn is_local(name: &str) -> bool {
    let mut local_names = LOCAL.split_whitespace();
    local_names.any(|known| known == name)
        || !name.contains(|c: char| c.is_ascii_uppercase())
            && !name.ends_with("_proxy")
            && !matches!(name, "_" | OUTER | "histchars" | "auto_resume")
}

/// Returns `true` if the variable holds a folder or a name of the user, or a number.
pub(super) fn is_outer(name: &str) -> bool {
    const NAMES: &str = "HOME PWD OLDPWD TMPDIR USER # ? $ !";
    NAMES.split(' ').any(|known| known == name)
}

/// Returns `true` if the name is that of a number which the shell counts, or of a value that is no
/// variable.
pub(super) fn is_special(name: &str) -> bool {
    matches!(name, "#" | "?" | "$" | "!") || name.starts_with(LISTED)
}

/// Returns `true` if the shell sets the variable to a text, neither a folder nor a number, that the
/// command may choose.
pub(super) fn is_set_to_text(name: &str) -> bool {
    // The last word of a command is among the known values of `$_`.
    let is_known = matches!(
        name,
        "_" | OUTER | "PWD" | "OLDPWD" | "BASH" | "BASHPID" | "BASH_SOURCE"
    );
    !is_known && is_set_by_shell(name)
}

/// Returns `true` if the shell sets the variable to texts of commands and of their input, or if its
/// value may be any text.
pub(super) fn is_set_by_shell(name: &str) -> bool {
    const NAMES: &str = "_ 0 REPLY MAPFILE COPROC OPTARG DIRSTACK PWD OLDPWD FUNCNAME";
    name == OUTER
        || NAMES.split(' ').any(|known| known == name)
        || ["BASH", "COMP_", "READLINE"]
            .iter()
            .any(|start| name.starts_with(start))
}
