//! The paths of a command line, as a rule with the words of a command compares them.

use super::beneath::Beneath;
use super::command_paths::CommandPaths;
use super::glob::Match;
use super::paths::{PathContext, PathPattern};
use super::pattern::{CommandPattern, PatternWord};
use super::rule_words::{file_name, folded, may_match_word};
use super::shell::{SimpleCommand, Use, Word};

/// The paths of a command line, for the comparison of one of its commands with a rule.
#[derive(Clone, Copy)]
pub(super) struct LinePaths<'a> {
    pub(super) paths: &'a CommandPaths,
    pub(super) context: &'a PathContext,
    /// True if the path of a rule may have been copied or moved to any other.
    may_be_copied: bool,
    /// True if a remote of git may have another name than in a rule.
    pub(super) renames_remotes: bool,
}

impl<'a> LinePaths<'a> {
    /// Creates the paths for comparisons of these commands with a pattern. A command before the
    /// pattern's may copy or move the path that the pattern names.
    pub(super) fn new(
        paths: &'a CommandPaths,
        context: &'a PathContext,
        pattern: &CommandPattern,
        commands: &[SimpleCommand],
    ) -> Self {
        let mut texts = pattern.words().iter().map(PatternWord::text);
        let copies = texts.next().is_some_and(|program| is_copier(&program));
        let texts: Vec<String> = texts
            .filter(|text| !copies && !text.starts_with('-'))
            .map(|text| text.to_lowercase())
            .collect();
        // The folders above the path may be moved with it.
        let names = texts.iter().flat_map(|text| text.split('/'));
        let names: Vec<&str> = names
            .filter(|name| name.contains(char::is_alphanumeric))
            .collect();
        let is_source = |word: &Word| may_take(word, &names);
        let may_be_copied = !names.is_empty() && commands.iter().flat_map(sources).any(is_source);
        Self {
            paths,
            context,
            may_be_copied,
            renames_remotes: commands.iter().any(renames_remote),
        }
    }

    /// Returns `true` if the path of a word may be the path of a rule, lie in it or above it. What
    /// lies in a folder around the workspace does not count.
    pub(super) fn may_meet(&self, rule_word: &str, word: &Word) -> bool {
        if self.may_be_copied {
            return true;
        }
        if let Some(meets) = self.meets_plainly(rule_word, word) {
            return meets;
        }
        let Ok(pattern) = PathPattern::new(rule_word) else {
            return true;
        };
        let context = self.context;
        let path = self.paths.path_of_word(word, context);
        let workspace = self.paths.path_of_word(&Word::from_text("."), context);
        let is_wide = pattern.catches(&workspace, context) != Match::No;
        let is_literal = !rule_word.contains('*');
        let path_match = if is_wide && (is_literal || path.is_within(context)) {
            pattern.is(&path, context)
        } else {
            pattern.catches(&path, context)
        };
        // A link may lead there.
        self.paths.used(&[Use::Linked]).next().is_some()
            || path_match != Match::No
            || pattern.beneath(&path, context, false) == Beneath::Possible
    }

    /// Compares paths whose texts alone decide it: known paths below the workspace, in a command
    /// that changes no folder and makes no link.
    fn meets_plainly(&self, rule_word: &str, word: &Word) -> Option<bool> {
        let text = word.literal()?;
        let is_plain = |path: &str| {
            let mut names = path.split('/');
            !path.contains(['*', '?', '[', '{', '~'])
                && !names.any(|n| matches!(n, "" | "." | ".."))
        };
        if !is_plain(rule_word) || !is_plain(&text) {
            return None;
        }
        let mut names = text.split('/');
        let meets = if rule_word.contains('/') {
            rule_word.split('/').zip(names).all(|(a, b)| a == b)
        } else {
            names.any(|name| name == rule_word)
        };
        (!self.context.folds_case && !self.paths.changes_places()).then_some(meets)
    }
}

/// Returns `true` if the program copies, moves or links its operands to the last of them.
fn is_copier(name: &str) -> bool {
    matches!(name, "cp" | "gcp" | "mv" | "ln" | "install" | "rsync")
}

/// Returns `true` if the command may give a remote of git another name or address.
fn renames_remote(command: &SimpleCommand) -> bool {
    if command.program().is_none_or(|name| name != "git") {
        return false;
    }
    let words = &command.argv[1..];
    let sets = |word: &Word| {
        word.is_dynamic() || word.is("add") || word.is("rename") || word.is("set-url")
    };
    let is_key = |word: &Word| {
        let text = word.to_string().to_lowercase();
        text.contains("remote.") || text.contains("insteadof")
    };
    words.iter().any(|word| word.is("remote")) && words.iter().any(sets) || words.iter().any(is_key)
}

/// Returns `true` if a word may name a file or folder with one of these names, or all that is in
/// such a folder or in the current one. A word of which no text is known is assumed not to.
fn may_take(word: &Word, names: &[&str]) -> bool {
    let own_text = word.literal().unwrap_or_default().to_lowercase();
    let text = folded(word);
    let mut segments = text.rsplit('/');
    names.contains(&file_name(own_text.trim_end_matches('/')))
        || match segments.find(|name| name.contains(char::is_alphanumeric)) {
            Some(own_name) => names.iter().any(|name| may_match_word(name, own_name)),
            None => word.is_glob() && !word.is_dynamic(),
        }
}

/// Returns the words that a program copies, moves or links from: all but the last one, or all if an
/// option may name the target.
fn sources(command: &SimpleCommand) -> &[Word] {
    let argv = &command.argv;
    let words = match command.program().as_deref() {
        Some("git") => {
            let subcommand = command.subcommand_words.first();
            let index = subcommand.filter(|at| argv.get(**at).is_some_and(|word| word.is("mv")));
            index.map(|at| &argv[at + 1..]).unwrap_or_default()
        }
        Some(name) if is_copier(name) => &argv[1..],
        _ => &[],
    };
    let names_target = |word: &Word| {
        let text = word.literal_prefix();
        let is_short = !text.starts_with("--") && text.contains('t');
        text.starts_with('-') && (is_short || text.starts_with("--t"))
    };
    let count = words.len().saturating_sub(1);
    if words.iter().any(names_target) {
        words
    } else {
        &words[..count]
    }
}
