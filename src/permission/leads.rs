//! Words that may lead through links which another command of the same line puts there.

use std::collections::HashMap;

use super::disk::Disk;
use super::glob::{GlobToken, Match};
use super::links::Links;
use super::path_words::path_words;
use super::paths::{PathContext, PathOf, Segment, best_match};
use super::programs::wraps;
use super::shell::{Analysis, Files, Payload, SHELLS, SimpleCommand, Use, Word};

/// A place where a command may put a link.
struct Place {
    command: usize,
    target: PathOf,
    /// `Yes` if a link that exists is put there.
    link: Match,
    /// True if no link is put at the place itself.
    is_below: bool,
}

impl Place {
    /// Returns whether a path leads through a link at the place. `path_elsewhere` is the path of a
    /// command that does not work in the folder in which contents are put.
    fn lead(&self, path: &PathOf, path_elsewhere: &PathOf, disk: &Disk, is_written: bool) -> Match {
        let path = if self.is_below { path_elsewhere } else { path };
        let mut targets = self.target.0.iter();
        let is_met = !disk.compare()
            || !self.target.is_known()
            || targets.any(|target| best_match(target, path, true) != Match::No);
        match self.link {
            Match::Yes if is_met && is_written => Match::Yes,
            Match::Yes | Match::Maybe if is_met => Match::Maybe,
            _ => Match::No,
        }
    }
}

/// Returns the words that lead through a link which another command puts there: `Yes` if that link
/// exists and they are written, `Maybe` if there may be one.
pub(super) fn leads(
    analysis: &Analysis,
    context: &PathContext,
    disk: &Disk,
    links: &mut Links<'_>,
) -> HashMap<Word, Match> {
    let mut leads = HashMap::new();
    let places = places(analysis, context, disk, links);
    if places.is_empty() {
        return leads;
    }

    let contents = analysis.arrivals.iter();
    let contents = contents.filter(|arrival| matches!(arrival.payload, Payload::Contents));
    let mut other_links = links.without(contents.map(|arrival| &arrival.target));
    let mut add = |word: &Word, command: Option<usize>, is_name, is_replaced, is_written| {
        let path = compared_path(links, word, is_replaced, context);
        let path_elsewhere = compared_path(&mut other_links, word, is_replaced, context);
        let leaves_missing = links.leaves_missing(word);
        let is_own = |place: &Place| Some(place.command) == command;
        let places = places.iter().filter(|place| !is_own(place));
        let places = places.filter(|place| !(place.is_below && is_name));
        let lead_at = |place: &Place| {
            let lead = place.lead(&path, &path_elsewhere, disk, is_written);
            match lead {
                Match::No if leaves_missing => Match::Maybe,
                lead => lead,
            }
        };
        if let Some(lead) = places.map(lead_at).max() {
            let known_lead = leads.entry(word.clone()).or_insert(lead);
            *known_lead = lead.max(*known_lead);
        }
    };
    let commands: Vec<bool> = analysis.commands.iter().map(uses_paths).collect();
    let words = path_words(analysis).filter(|((at, _), _)| commands[*at]);
    for ((at, whole), (word, word_use)) in words {
        let command = &analysis.commands[at];
        let is_name = command.subcommand.is_some() || !may_be_path(whole);
        let is_written = word_use.is_changed || command.changes_last(whole);
        // No link in their place is followed.
        let mut replacing = ["rm", "rmdir", "unlink", "mkdir"].iter();
        let is_replaced = replacing.any(|name| command.is(name));
        add(&word, Some(at), is_name, is_replaced, is_written);
    }
    for (command, word) in &analysis.redirections {
        add(word, *command, false, false, true);
    }
    for word in analysis.used(Use::Directory) {
        add(word, None, true, false, false);
    }
    leads
}

/// Returns the paths that a word may be, to be compared, or their folders if it is replaced.
fn compared_path(
    links: &mut Links<'_>,
    word: &Word,
    is_replaced: bool,
    context: &PathContext,
) -> PathOf {
    let mut path = links.paths_of(word);
    for path in path.0.iter_mut().filter(|_| is_replaced) {
        path.pop();
    }
    path.compared(context).into_owned()
}

/// Returns the places where links may lie; none if no command brings any, or if there is no other.
fn places(
    analysis: &Analysis,
    context: &PathContext,
    disk: &Disk,
    links: &mut Links<'_>,
) -> Vec<Place> {
    let (mut places, mut brings_any) = (Vec::new(), false);
    let has_others = context.follows_links && analysis.covered().count() > 1;
    for arrival in analysis.arrivals.iter().filter(|_| has_others) {
        let link = match &arrival.payload {
            Payload::Source(word) => {
                let paths = links.paths_of(word).0.into_iter();
                paths
                    .map(|path| disk.has_link(&path))
                    .max()
                    .filter(|link| *link != Match::No)
            }
            // The paths of its text are noted.
            Payload::Link => Some(Match::No),
            Payload::Contents => Some(Match::Maybe),
        };
        brings_any |= link.is_some();
        let is_below = matches!(arrival.payload, Payload::Contents);
        let mut target = links.paths_of(&arrival.target);
        for path in target.0.iter_mut().filter(|_| is_below) {
            path.push(Segment::Name(vec![GlobToken::Many]));
        }
        places.push(Place {
            command: arrival.command,
            target: target.compared(context).into_owned(),
            // Another command may bring it.
            link: link.unwrap_or(Match::Maybe),
            is_below,
        });
    }
    places.retain(|_| brings_any);
    places
}

/// Returns `false` for a command whose words are no paths, or those of another command, too. Git
/// and `find` follow no links.
fn uses_paths(command: &SimpleCommand) -> bool {
    let name = command.program().unwrap_or_default();
    let is_other = matches!(&*name, "git" | "find") || SHELLS.contains(&&*name) || wraps(&name);
    command.files != Files::Unopened && !command.guessed && !is_other
}

/// Returns `false` for options without a path, numbers, marks and addresses.
fn may_be_path(word: &Word) -> bool {
    let text = word.literal_prefix();
    let is_option = word.starts_with_dash() && !text.contains(['/', '=']);
    let has_name = text.contains(|c: char| c.is_alphabetic() || "./*?".contains(c));
    !is_option && !text.contains("://") && (has_name || word.literal().is_none())
}
