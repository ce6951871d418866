//! [`Interruptible`], the matcher of a search that can be cancelled.

use std::io::{self, Read};

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::RegexMatcher;

use crate::util::Cancellation;

/// A matcher that fails once a search is cancelled, and reports matches that share lines as one.
///
/// Searching for matches that may span lines, the searcher looks for the ends of the lines around
/// each match: on one long line with many matches that is quadratic. It reports all of them as one
/// group of lines, so this matcher returns them as one match.
pub(super) struct Interruptible<'a> {
    pub(super) regex: &'a RegexMatcher,
    pub(super) multiline: bool,
    pub(super) cancellation: &'a Cancellation,
}

impl Interruptible<'_> {
    fn check(&self) -> io::Result<()> {
        if self.cancellation.is_cancelled() {
            return Err(cancelled());
        }
        Ok(())
    }

    fn find(&self, haystack: &[u8]) -> io::Result<Option<Match>> {
        self.check()?;
        Ok(self.regex.find(haystack)?)
    }

    /// Returns `first` with the matches after it that begin on the line on which the previous match
    /// ends.
    fn merged(&self, haystack: &[u8], first: Match) -> io::Result<Match> {
        let mut group = first;
        let mut line_end = end_of_line(haystack, first);

        // On the last line, later matches are on a line that is already reported.
        while line_end < haystack.len() {
            let offset = resume_offset(haystack, group);

            // As in the searcher, the remaining bytes are a separate haystack.
            let Some(next) = self.find(&haystack[offset..])? else {
                break;
            };

            let next = next.offset(offset);
            if next.start() >= line_end {
                break;
            }

            group = Match::new(first.start(), resume_offset(haystack, next));
            if group.end() > line_end {
                line_end = end_of_line(haystack, next);
            }
        }

        if line_end == haystack.len() {
            group = group.with_end(line_end);
        }

        Ok(group)
    }
}

impl Matcher for Interruptible<'_> {
    type Captures = NoCaptures;
    type Error = io::Error;

    fn find_at(&self, haystack: &[u8], at: usize) -> io::Result<Option<Match>> {
        self.check()?;
        match self.regex.find_at(haystack, at)? {
            Some(first) if self.multiline => self.merged(haystack, first).map(Some),
            other => Ok(other),
        }
    }

    fn new_captures(&self) -> io::Result<NoCaptures> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, haystack: &[u8], at: usize) -> io::Result<Option<usize>> {
        self.check()?;
        Ok(self.regex.shortest_match_at(haystack, at)?)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.regex.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.regex.line_terminator()
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> io::Result<Option<LineMatchKind>> {
        self.check()?;
        Ok(self.regex.find_candidate_line(haystack)?)
    }
}

/// The offset at which the search continues after a match.
fn resume_offset(haystack: &[u8], found: Match) -> usize {
    let past_empty = usize::from(found.is_empty());
    (found.end() + past_empty).min(haystack.len())
}

/// Returns the end of the last line of a match, its line feed included.
fn end_of_line(haystack: &[u8], found: Match) -> usize {
    let end = found.end();
    if !found.is_empty() && haystack[end - 1] == b'\n' {
        return end;
    }
    let tail = &haystack[end..];
    memchr::memchr(b'\n', tail).map_or(haystack.len(), |offset| end + offset + 1)
}

/// A reader that fails once a search is cancelled.
pub(super) struct Checked<'a, R> {
    pub(super) reader: R,
    pub(super) cancellation: &'a Cancellation,
}

impl<R: Read> Read for Checked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancellation.is_cancelled() {
            return Err(cancelled());
        }
        self.reader.read(buffer)
    }
}

fn cancelled() -> io::Error {
    io::Error::other("the search is cancelled")
}

#[cfg(test)]
mod tests {
    use grep_regex::RegexMatcherBuilder;
    use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
    use proptest::prelude::*;

    use super::*;

    /// The lines reported, with their numbers; context as negative ones.
    #[derive(Default)]
    struct Reported(Vec<(i64, Vec<u8>)>);

    impl Sink for Reported {
        type Error = io::Error;

        fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
            let first = found.line_number().unwrap_or_default() as i64;
            let lines = (first..).zip(found.lines().map(<[u8]>::to_vec));
            self.0.extend(lines);
            Ok(true)
        }

        fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> io::Result<bool> {
            let number = near.line_number().unwrap_or_default() as i64;
            self.0.push((-number, near.bytes().to_vec()));
            Ok(true)
        }
    }

    fn searched(matcher: impl Matcher, text: &str, context: usize) -> Vec<(i64, Vec<u8>)> {
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .multi_line(true)
            .before_context(context)
            .after_context(context)
            .build();
        let mut reported = Reported::default();
        searcher
            .search_reader(matcher, text.as_bytes(), &mut reported)
            .unwrap();
        reported.0
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn interruptible_search_reports_the_lines_of_a_plain_one(
            text in "[ab\n]{0,24}",
            pattern in prop_oneof![
                "[ab.^$|*?\n]{1,8}",
                r"(\(\?s\))?[ab.]([*?]|\+\?)?(\\n|\\b|\^|\$|\\z)?[ab.]?(\|[ab$^])?",
            ],
            context in 0..3_usize,
        ) {
            let mut builder = RegexMatcherBuilder::new();
            let Ok(regex) = builder.multi_line(true).dot_matches_new_line(true).build(&pattern) else {
                return Ok(());
            };

            let cancellation = Cancellation::default();
            let interruptible = Interruptible {
                regex: &regex,
                multiline: true,
                cancellation: &cancellation,
            };

            let expected = searched(&regex, &text, context);
            prop_assert_eq!(searched(interruptible, &text, context), expected);
        }
    }
}
