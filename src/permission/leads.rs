//! Paths that may pass through a link which another command of the same line creates.
//!
//! In `tar -xf a.tar; cp key d/x`, the archive may contain a link `d`, so `d/x` may be any file.
//! The analysis lists each place where a command may put a link (an `Arrival`); a word *leads*
//! through such a place if its path may pass it.

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
    /// `Yes` if a link that exists is put there, `Maybe` if one may be, `No` for a new link, whose
    /// target is among the paths of the analysis.
    link: Match,
    /// True if links may be put below the place, not at the place itself.
    is_below: bool,
}

impl Place {
    /// Returns whether a path passes a link at this place. `path_elsewhere` is the path if the
    /// command works in none of the folders in which contents are put; it is compared if links may
    /// be put below the place.
    fn lead(&self, path: &PathOf, path_elsewhere: &PathOf, disk: &Disk, is_written: bool) -> Match {
        let path = if self.is_below { path_elsewhere } else { path };
        let mut targets = self.target.0.iter();
        let is_met = !disk.may_compare()
            || !self.target.is_known()
            || targets.any(|target| best_match(target, path, true) != Match::No);
        match self.link {
            Match::Yes if is_met && is_written => Match::Yes,
            Match::Yes | Match::Maybe if is_met => Match::Maybe,
            _ => Match::No,
        }
    }
}

/// A word whose path is compared with the places.
struct ComparedWord {
    word: Word,
    /// The command of the word. Its own places are not compared.
    command: Option<usize>,
    /// True if the word is compared with no place below which links may be put: its command has a
    /// subcommand, it cannot be a path, or it is a folder that is changed to.
    skips_contents: bool,
    /// True if the word itself is made or removed, so that no link in its place is followed.
    is_replaced: bool,
    is_written: bool,
}

impl ComparedWord {
    fn is_compared_with(&self, place: &Place) -> bool {
        Some(place.command) != self.command && !(place.is_below && self.skips_contents)
    }

    /// Returns the paths that the word may be, to be compared, or their folders if it is replaced.
    fn path(&self, links: &mut Links<'_>, context: &PathContext) -> PathOf {
        let mut path = links.paths_of(&self.word);
        for path in path.0.iter_mut().filter(|_| self.is_replaced) {
            path.pop();
        }
        path.compared(context).into_owned()
    }
}

/// Returns, for each compared word, whether its path may pass a link that another command of the
/// line creates: `Yes` if a command puts an existing link there and the word is written, `Maybe` if
/// the path may pass another link, else `No`.
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
    for compared in compared_words(analysis) {
        let path = compared.path(links, context);
        let path_elsewhere = compared.path(&mut other_links, context);
        let leaves_missing = links.leaves_missing(&compared.word);
        let places = places
            .iter()
            .filter(|place| compared.is_compared_with(place));
        let lead_at = |place: &Place| {
            let lead = place.lead(&path, &path_elsewhere, disk, compared.is_written);
            match lead {
                // `..` out of a folder that is missing now may lead anywhere once another command
                // has made the folder.
                Match::No if leaves_missing => Match::Maybe,
                lead => lead,
            }
        };
        if let Some(lead) = places.map(lead_at).max() {
            let word_lead = leads.entry(compared.word).or_insert(lead);
            *word_lead = lead.max(*word_lead);
        }
    }
    leads
}

/// Returns the words of commands, the targets of redirections, and the folders that are changed to.
fn compared_words(analysis: &Analysis) -> impl Iterator<Item = ComparedWord> {
    let has_paths: Vec<bool> = analysis.commands.iter().map(uses_paths).collect();
    let words = path_words(analysis).filter(move |((at, _), _)| has_paths[*at]);
    let words = words.map(move |((at, argument), (word, word_use))| {
        let command = &analysis.commands[at];
        // These programs do not follow a link that the word itself names.
        let mut replacing = ["rm", "rmdir", "unlink", "mkdir"].iter();
        ComparedWord {
            word,
            command: Some(at),
            skips_contents: command.subcommand.is_some() || !may_be_path(argument),
            is_replaced: replacing.any(|name| command.is(name)),
            is_written: word_use.is_changed || command.changes_last(argument),
        }
    });
    let redirections = analysis.redirections.iter();
    let redirections = redirections.map(|(command, word)| ComparedWord {
        word: word.clone(),
        command: *command,
        skips_contents: false,
        is_replaced: false,
        is_written: true,
    });
    let folders = analysis.used(Use::Directory).map(|word| ComparedWord {
        word: word.clone(),
        command: None,
        skips_contents: true,
        is_replaced: false,
        is_written: false,
    });
    words.chain(redirections).chain(folders)
}

/// Returns the places where links may be put. Returns none if no command may put a link, if the
/// line has only one command, or if links are not followed.
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
            // The target of the new link is among the paths of the analysis (`Use::Linked`).
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
            // The source is no link now, but another command may put one there first.
            link: link.unwrap_or(Match::Maybe),
            is_below,
        });
    }
    places.retain(|_| brings_any);
    places
}

/// Returns `false` for a command whose words are no paths, for a shell or a wrapper, whose words
/// are also those of the command that it runs, for one that only may run, and for git and `find`,
/// which follow no links.
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
