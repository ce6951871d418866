//! Git: what its options, its configuration and its aliases run.

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;
use super::options::{is_one_of, scan};
use super::programs::{Program, program};
use super::word::Word;

/// Subcommands of git 2.43 that no alias can replace. Anything else may be an alias.
const KNOWN: &str = "add am annotate apply archive bisect blame branch bundle cat-file check-attr \
check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick citool clean \
clone column commit commit-graph commit-tree config count-objects credential describe diff \
diff-files diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch \
fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep gui hash-object \
help hook index-pack init interpret-trailers lfs log ls-files ls-remote ls-tree mailinfo mailsplit \
maintenance merge merge-base merge-file merge-index merge-tree mergetool mktag mktree mv name-rev \
notes pack-objects pack-refs patch-id prune pull push range-diff read-tree rebase receive-pack \
reflog remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm \
send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stash status \
stripspace submodule switch symbolic-ref tag unpack-objects update-index update-ref update-server-info \
upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree write-tree";

/// Options of all subcommands, in the form of [`scan`].
const OPTIONS: &str = "x--upload-pack x--receive-pack x--exec h--ext-diff w--output \
h--open-files-in-pager e--edit-description h--extcmd h--tool h--gui h--smtp-server h--sendmail-cmd \
h--to-cmd h--cc-cmd h--header-cmd h--template h--config h--interactive-filter h--receive-pack";

/// Options before the subcommand that take the next word as their value.
pub(crate) const GLOBAL_VALUES: &str = "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix --attr-source --list-cmds";

pub(super) fn git(cx: &mut Context, command: &SimpleCommand) {
    let at = global_options(cx, command);
    let Some(subcommand) = command.argv.get(at) else {
        return;
    };

    let known = subcommand.literal().filter(|name| is_one_of(KNOWN, name));
    let Some(subcommand) = known else {
        let shown = subcommand
            .literal()
            .unwrap_or_else(|| subcommand.to_string());
        cx.note(Reason::Option("git".to_owned(), shown));
        return;
    };

    let own = own_options(&subcommand);
    for options in [program("git", OPTIONS, "", true), own] {
        scan(cx, "git", &options, command, at + 1);
    }

    let rest = &command.argv[at + 1..];
    let words = rest.iter().map(Word::literal_prefix).collect::<Vec<_>>();
    if subcommand == "config" {
        return config(cx, command, rest, &words);
    }

    if runs_programs(&subcommand, &words) {
        cx.note(Reason::Option("git".to_owned(), subcommand));
        run_words(cx, command, rest, &words);
    }

    if words.iter().any(|word| word.contains("ext::")) {
        run_transports(cx, command, rest);
    }
}

/// Looks at the options before the subcommand; where that stands.
fn global_options(cx: &mut Context, command: &SimpleCommand) -> usize {
    let argv = &command.argv;
    let mut at = 1;
    while let Some(word) = argv.get(at) {
        let prefix = word.literal_prefix();
        if !prefix.starts_with('-') {
            break;
        }

        let name = prefix.split('=').next().unwrap_or_default();
        let has_value = prefix.contains('=');
        if prefix.starts_with("-c") {
            let value = match word.without_prefix("-c") {
                Some(rest) if rest.literal().is_none_or(|r| !r.is_empty()) => Some(rest),
                _ => {
                    at += 1;
                    argv.get(at).cloned()
                }
            };

            setting(cx, command, value.as_ref());
        } else if matches!(name, "--config-env" | "--exec-path") {
            cx.note(Reason::Option("git".to_owned(), name.to_owned()));
            at += usize::from(!has_value && name == "--config-env");
        } else if !has_value && is_one_of(GLOBAL_VALUES, name) {
            at += 1;
        }

        at += 1;
    }

    at
}

/// The options of one subcommand alone.
fn own_options(subcommand: &str) -> Program {
    let (options, values) = match subcommand {
        "grep" => ("h-O", "efABCm"),
        "rebase" => ("x-x", ""),
        "clone" => ("x-u h-c", "obj"),
        "difftool" | "mergetool" => ("h-x h-t", ""),
        "format-patch" | "archive" => ("w-o", ""),
        "init" => ("h--separate-git-dir", ""),
        _ => ("", ""),
    };
    program("git", options, values, true)
}

/// Whether the subcommand, with these words, runs programs that configuration or words name.
fn runs_programs(subcommand: &str, words: &[String]) -> bool {
    let first = words.iter().find(|word| !word.starts_with('-'));
    let first = first.map_or("", String::as_str);
    match subcommand {
        "bisect" => first == "run",
        "submodule" => matches!(first, "foreach" | "update" | "add"),
        "filter-branch" | "difftool" | "mergetool" | "hook" | "for-each-repo" | "citool"
        | "gui" | "credential" | "send-email" | "fast-import" | "merge-index" | "upload-pack"
        | "receive-pack" => true,
        "help" => words
            .iter()
            .any(|word| word.starts_with("-w") || word.starts_with("--w")),
        _ => false,
    }
}

/// Reads as commands what such a subcommand may run.
fn run_words(cx: &mut Context, command: &SimpleCommand, rest: &[Word], words: &[String]) {
    for word in rest.iter().filter(|word| !word.starts_with_dash()) {
        if word.literal().is_some_and(|text| text.contains(' ')) {
            super::shells::run_word(cx, command, "git", word);
        }
    }
    let mut places = words.iter();
    if let Some(start) = places.position(|word| word == "run" || word == "foreach")
        && start + 1 < rest.len()
    {
        super::peel::inner(cx, "git", command, rest[start + 1..].to_vec());
    }
}

/// `ext::program` in the place of an address runs the program.
fn run_transports(cx: &mut Context, command: &SimpleCommand, rest: &[Word]) {
    cx.note(Reason::Option("git".to_owned(), "ext::".to_owned()));
    for text in rest.iter().filter_map(Word::literal) {
        if let Some(text) = text.strip_prefix("ext::") {
            super::shells::run_text(cx, command, "git ext::", &text.replace('%', ""));
        }
    }
}

/// `name=value` of a configuration.
fn setting(cx: &mut Context, command: &SimpleCommand, word: Option<&Word>) {
    cx.note(Reason::Option("git".to_owned(), "-c".to_owned()));
    let Some(word) = word else { return };
    let prefix = word.literal_prefix();
    let Some((name, _)) = prefix.split_once('=') else {
        return;
    };
    if let Some(value) = word.without_prefix(&format!("{name}=")) {
        value_of(cx, command, name, &value);
    }
}

/// A value that may be run: a shell command after `!`, a git command for an alias.
fn value_of(cx: &mut Context, command: &SimpleCommand, name: &str, value: &Word) {
    if let Some(shell) = value.without_prefix("!") {
        super::shells::run_word(cx, command, "git -c", &shell);
    } else {
        if name.to_ascii_lowercase().starts_with("alias.") {
            let mut aliased = Word::from_text("git ");
            aliased.parts.extend(value.parts.iter().cloned());
            super::shells::run_word(cx, command, "git -c", &aliased);
        }
        super::shells::run_word(cx, command, "git -c", value);
    }
}

/// `git config`: reading is harmless, setting is not.
fn config(cx: &mut Context, command: &SimpleCommand, rest: &[Word], words: &[String]) {
    let reads = words.iter().any(|word| {
        matches!(
            word.as_str(),
            "--get" | "--get-all" | "--get-regexp" | "--get-urlmatch" | "-l" | "--list"
        )
    });

    let plain = rest
        .iter()
        .zip(words)
        .filter(|(_, word)| !word.starts_with('-'))
        .map(|(word, _)| word)
        .collect::<Vec<_>>();
    let asks = plain.len() == 1
        && !words.iter().any(|w| {
            [
                "--unset", "--add", "--rep", "--ren", "--rem", "-e", "--edit", "--f", "-f", "edit",
            ]
            .iter()
            .any(|option| w.starts_with(option))
        });
    let first = plain.first().and_then(|word| word.literal());
    let shows = matches!(first.as_deref(), Some("get" | "list"));
    if reads || asks || shows {
        return;
    }

    cx.note(Reason::Option("git".to_owned(), "config".to_owned()));
    if let [.., name, value] = plain.as_slice() {
        value_of(cx, command, &name.literal_prefix(), value);
    }
}
