//! Wildcards: tool names, words and path segments.

/// The maximum number of alternatives of braces in one name.
const MAX_ALTERNATIVES: usize = 64;

/// The certainty of a match: a word that is only known when the shell runs may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    /// The word cannot match.
    No,
    /// The word may match, depending on the shell's expansion.
    Maybe,
    /// The word matches.
    Yes,
}

impl From<bool> for Match {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// A character of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GlobToken {
    /// Itself.
    Char(char),
    /// `?`: any one.
    One,
    /// `*`: any number of any.
    Many,
}

/// Returns the pattern of `text`, in which `*` and `?` are wildcards.
pub(crate) fn tokens(text: &str) -> Vec<GlobToken> {
    text.chars()
        .map(|c| match c {
            '*' => GlobToken::Many,
            '?' => GlobToken::One,
            c => GlobToken::Char(c),
        })
        .collect()
}

/// Returns the character of a token that is no wildcard.
pub(crate) fn literal_char(token: &GlobToken) -> Option<char> {
    match token {
        GlobToken::Char(c) => Some(*c),
        _ => None,
    }
}

/// Returns `true` if `pattern` matches all of `text`; in time proportional to the product of their
/// lengths.
pub(crate) fn matches(pattern: &[GlobToken], text: &[char]) -> bool {
    let mut p = 0;
    let mut t = 0;
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(GlobToken::Many) => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(GlobToken::One) => {
                p += 1;
                t += 1;
            }
            Some(GlobToken::Char(c)) if *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }

    pattern[p..].iter().all(|token| *token == GlobToken::Many)
}

/// Returns `true` if some text matches both patterns.
pub(crate) fn intersect(left: &[GlobToken], right: &[GlobToken]) -> bool {
    // Patterns of this length are not file names; assume that they intersect.
    if left.len().saturating_mul(right.len()) > 1 << 22 {
        return true;
    }

    let mut row = vec![false; right.len() + 1];
    for i in (0..=left.len()).rev() {
        let mut next = vec![false; right.len() + 1];
        for j in (0..=right.len()).rev() {
            next[j] = match (left.get(i), right.get(j)) {
                (None, None) => true,
                (Some(GlobToken::Many), _) if row[j] => true,
                (_, Some(GlobToken::Many)) if next[j + 1] => true,
                (Some(GlobToken::Many), Some(_)) if next[j + 1] => true,
                (Some(_), Some(GlobToken::Many)) if row[j] => true,
                (Some(GlobToken::Char(a)), Some(GlobToken::Char(b))) => a == b && row[j + 1],
                (Some(GlobToken::Many), _) | (_, Some(GlobToken::Many)) => false,
                (Some(_), Some(_)) => row[j + 1],
                _ => false,
            };
        }

        row = next;
    }

    row[0]
}

/// A pattern for tool names: `*`, `?`, and `{a,b}`. Braces that do not close are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameGlob {
    alternatives: Vec<Vec<GlobToken>>,
}

impl NameGlob {
    /// `None` if the braces expand to too many names.
    pub(crate) fn new(pattern: &str) -> Option<Self> {
        let alternatives = alternatives(pattern)?;
        let alternatives = alternatives.iter().map(|text| tokens(text)).collect();
        Some(Self { alternatives })
    }

    /// Returns `true` if `name` matches.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name = name.chars().collect::<Vec<_>>();
        self.alternatives
            .iter()
            .any(|pattern| matches(pattern, &name))
    }

    /// Returns the names it matches, if it has no wildcard.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        self.alternatives
            .iter()
            .map(|pattern| pattern.iter().map(literal_char).collect())
            .collect()
    }
}

/// Returns the texts that a pattern with braces means; `None` if they are too many.
pub(super) fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let mut open_patterns = vec![pattern.to_owned()];
    let mut alternatives = Vec::new();
    while let Some(text) = open_patterns.pop() {
        if alternatives.len() + open_patterns.len() > MAX_ALTERNATIVES {
            return None;
        }

        match braces(&text) {
            None => alternatives.push(text),
            Some((before, items, after)) => {
                // Checked before they are created, because the pattern controls their number.
                if alternatives.len() + open_patterns.len() + items.len() > MAX_ALTERNATIVES + 1 {
                    return None;
                }

                open_patterns.extend(items.iter().map(|item| format!("{before}{item}{after}")));
            }
        }
    }

    Some(alternatives)
}

/// Splits the text before, in and after the first `{..}` that has no braces inside.
fn braces(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let end = text.find('}')?;
    let start = text[..end].rfind('{')?;
    let items = text[start + 1..end].split(',').collect();
    Some((&text[..start], items, &text[end + 1..]))
}

/// Matches a name of a pattern against a name of a path; both may hold wildcards. In folders on the
/// way, a wildcard also matches a dot at the beginning, because the shell may be set to do so.
pub(super) fn match_segment(wanted: &[GlobToken], given: &[GlobToken], is_last: bool) -> Match {
    let is_wild = |token: &GlobToken| literal_char(token).is_none();
    if !given.iter().chain(wanted).any(is_wild) {
        return (given == wanted).into();
    }

    let begins_wild = given.first().is_some_and(is_wild);
    let is_doubled = given.starts_with(&[GlobToken::Many, GlobToken::Many]);
    if is_last && begins_wild && !is_doubled && wanted.first() == Some(&GlobToken::Char('.')) {
        // A wildcard matches no dot at the beginning of a name; the doubled one of a search does.
        return Match::No;
    }

    // NUL is in no file name, so only a wildcard of the rule matches it.
    let name = given
        .iter()
        .map(|token| literal_char(token).unwrap_or('\0'));
    let name: Vec<char> = name.collect();
    if matches(wanted, &name) {
        Match::Yes
    } else if given.iter().any(is_wild) && intersect(wanted, given) {
        Match::Maybe
    } else {
        Match::No
    }
}
