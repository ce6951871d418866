//! The search for many needles at once, by the algorithm of Wu and Manber.

use std::ops::Range;

/// The number of hashes a block of two bytes can have.
const HASHES: usize = 1 << 12;

/// A text to search for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needle {
    pub(super) bytes: Box<[u8]>,
    /// True if the base64 character before it holds bits of the secret.
    pub(super) has_bits_before: bool,
    /// True if the base64 character after it holds bits of the secret. The padding after that
    /// character is part of the place, too.
    pub(super) has_bits_after: bool,
}

impl Needle {
    pub(super) fn new(text: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: text.into().into(),
            has_bits_before: false,
            has_bits_after: false,
        }
    }
}

/// A needle among others, some of which may be the beginning of it.
struct Entry {
    bytes: Box<[u8]>,
    /// True if that of the needle or of any beginning of it is true.
    has_bits_before: bool,
    /// That of the needle.
    has_bits_after: bool,
    /// True if the padding after it is part of the place of a beginning of it.
    is_padded: bool,
    /// The index of the longest other needle that is a beginning of it.
    beginning: Option<u32>,
}

impl Entry {
    fn new(needle: Needle, beginning: Option<u32>) -> Self {
        Self {
            bytes: needle.bytes,
            has_bits_before: needle.has_bits_before,
            has_bits_after: needle.has_bits_after,
            is_padded: false,
            beginning,
        }
    }

    /// Extends its places, so that they cover those of a beginning of it.
    fn cover(&mut self, beginning: &Self) {
        self.has_bits_before |= beginning.has_bits_before;
        let rest = &self.bytes[beginning.bytes.len()..];
        let padding = match rest {
            [first, padding @ ..] if beginning.has_bits_after && is_base64(*first) => Some(padding),
            _ => beginning.is_padded.then_some(rest),
        };
        self.is_padded = padding.is_some_and(|padding| padding.iter().all(|byte| *byte == b'='));
        self.has_bits_after |= beginning.has_bits_after && rest.is_empty();
    }

    /// Returns its place at `start`, with the adjacent base64 characters that hold bits of the
    /// secret.
    fn place(&self, text: &[u8], start: usize) -> Range<usize> {
        let is_base64 = |at: usize| text.get(at).is_some_and(|byte| is_base64(*byte));
        let mut place = start..start + self.bytes.len();
        if self.has_bits_before && start > 0 && is_base64(start - 1) {
            place.start -= 1;
        }

        let mut is_padded = self.is_padded;
        if self.has_bits_after && is_base64(place.end) {
            place.end += 1;
            is_padded = true;
        }

        while is_padded && text.get(place.end) == Some(&b'=') {
            place.end += 1;
        }

        place
    }
}

/// Returns the needles in order, each with its longest beginning.
fn entries(needles: Vec<Needle>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(needles.len());
    // The indices of the beginnings of the last needle and of itself, the longest at the end.
    let mut beginnings: Vec<u32> = Vec::new();
    for (needle, number) in needles.into_iter().zip(0..) {
        while let Some(last) = beginnings.last()
            && !needle.bytes.starts_with(&entries[*last as usize].bytes)
        {
            beginnings.pop();
        }

        let beginning = beginnings.last().copied();
        let mut entry = Entry::new(needle, beginning);
        if let Some(beginning) = beginning {
            entry.cover(&entries[beginning as usize]);
        }
        entries.push(entry);
        beginnings.push(number);
    }

    entries
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// The needles, with tables that let most of a text be skipped.
pub(super) struct Matcher {
    /// The needles in order, so that needles with a common beginning are neighbors.
    needles: Vec<Entry>,
    /// The length of the window that is moved over the text: that of the shortest needle, but from
    /// 2 to 255 bytes.
    window: usize,
    /// The length of the longest needle.
    pub(super) longest: usize,
    /// The distance the window may move when it ends with a block of this hash.
    shifts: Box<[u8]>,
    /// For each needle, the hash of the block at the end of its window, and its index in `needles`;
    /// sorted.
    ends: Vec<(u16, u32)>,
    /// The first bytes of needles.
    firsts: [bool; 256],
}

fn hash(block: [u8; 2]) -> usize {
    (usize::from(block[0]) << 4) ^ usize::from(block[1])
}

impl Matcher {
    /// Creates a search for `needles`, of which each has at least two bytes.
    pub(super) fn new(mut needles: Vec<Needle>) -> Self {
        needles.sort_unstable();
        needles.dedup();
        let lengths = || needles.iter().map(|needle| needle.bytes.len());
        let window = lengths().min().unwrap_or(2).clamp(2, usize::from(u8::MAX));
        let max_len = lengths().max().unwrap_or_default();
        let max_shift = u8::try_from(window - 1).unwrap_or(u8::MAX);
        let mut shifts = vec![max_shift; HASHES].into_boxed_slice();
        let mut end_hashes = Vec::new();
        let mut firsts = [false; 256];
        for (needle, number) in needles.iter().zip(0..) {
            firsts[usize::from(needle.bytes[0])] = true;
            for (block, left) in needle.bytes[..window].windows(2).zip((0..max_shift).rev()) {
                let hash = hash([block[0], block[1]]);
                shifts[hash] = shifts[hash].min(left);
                if left == 0 {
                    end_hashes.push((hash as u16, number));
                }
            }
        }

        end_hashes.sort_unstable();
        Self {
            needles: entries(needles),
            window,
            longest: max_len,
            shifts,
            ends: end_hashes,
            firsts,
        }
    }

    /// Adds the places of needles to `places`. A place that begins inside the last one extends it,
    /// so that there are at most two places for each byte of the text. Places may still overlap,
    /// because a place may begin one byte before its needle.
    pub(super) fn find(&self, text: &[u8], places: &mut Vec<Range<usize>>) {
        let mut last = self.window - 1;
        while last < text.len() {
            let hash = hash([text[last - 1], text[last]]);
            let shift = self.shifts[hash];
            if shift > 0 {
                last += usize::from(shift);
                continue;
            }

            let start = last + 1 - self.window;
            if let Some(needle) = self.longest_at(hash, &text[start..]) {
                let place = needle.place(text, start);
                match places.last_mut() {
                    Some(former) if former.contains(&place.start) => {
                        former.end = former.end.max(place.end);
                    }
                    _ => places.push(place),
                }
            }

            last += 1;
        }
    }

    /// Returns the longest needle that `text` begins with, whose window ends with a block of this
    /// hash.
    ///
    /// The work hardly depends on the number of needles, even if they have long common beginnings.
    fn longest_at(&self, hash: usize, text: &[u8]) -> Option<&Entry> {
        // The last needle of this hash that is not after `text` in order. All needles that `text`
        // begins with are beginnings of it, or the needle itself.
        let next = self.ends.partition_point(|(end, number)| {
            let by_hash = usize::from(*end).cmp(&hash);
            let by_bytes = || (*self.needles[*number as usize].bytes).cmp(text);
            by_hash.then_with(by_bytes).is_le()
        });
        let (end, number) = self.ends[..next].last()?;
        if usize::from(*end) != hash {
            return None;
        }

        let last = &self.needles[*number as usize];
        if text.starts_with(&last.bytes) {
            return Some(last);
        }

        // The beginnings have the bytes of the needle, so that one comparison is enough for all.
        let mut needle = &self.needles[last.beginning? as usize];
        let equal_bytes = last.bytes.iter().zip(text);
        let equal_bytes = equal_bytes.take_while(|(own, other)| own == other);
        let common_len = equal_bytes.count();
        while needle.bytes.len() > common_len {
            needle = &self.needles[needle.beginning? as usize];
        }
        Some(needle)
    }

    /// Returns the lowest offset from which on `text` is the beginning of a needle, but not all of
    /// it; the length of `text` if there is none.
    pub(super) fn partial_suffix_start(&self, text: &[u8]) -> usize {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        let mut candidates = (first..text.len()).filter(|at| self.firsts[usize::from(text[*at])]);
        let start = candidates.find(|at| {
            let end = &text[*at..];
            let next = self.needles.partition_point(|needle| &*needle.bytes <= end);
            let next = self.needles.get(next);
            next.is_some_and(|needle| needle.bytes.starts_with(end))
        });
        start.unwrap_or(text.len())
    }

    /// Returns the length of the longest beginning of `text` that is the end of a needle, but not
    /// all of it.
    pub(super) fn partial_prefix_len(&self, text: &[u8]) -> usize {
        let Some(first) = text.first() else {
            return 0;
        };

        let lens = self.needles.iter().filter_map(|needle| {
            let bytes = &needle.bytes[1..];
            let mut ends = memchr::memchr_iter(*first, bytes).map(|at| &bytes[at..]);
            ends.find(|end| text.starts_with(end)).map(<[u8]>::len)
        });
        lens.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::redact::merged;
    use super::*;

    fn matcher(needles: &[&str]) -> Matcher {
        Matcher::new(needles.iter().map(|needle| Needle::new(*needle)).collect())
    }

    #[test]
    fn places_are_those_of_each_needle_alone() {
        let mut rng = fastrand::Rng::with_seed(4);
        let word = |rng: &mut fastrand::Rng, len: usize| -> Vec<u8> {
            (0..len).map(|_| b"aab="[rng.usize(..4)]).collect()
        };
        for _ in 0..2_000 {
            let longest = word(&mut rng, 8);
            let needles = (0..4).map(|_| Needle {
                bytes: longest[..rng.usize(2..=8)].into(),
                has_bits_before: rng.bool(),
                has_bits_after: rng.bool(),
            });
            let needles: Vec<_> = needles.collect();
            let text = [word(&mut rng, 4), longest, word(&mut rng, 12)].concat();
            let mut places = Vec::new();
            Matcher::new(needles.clone()).find(&text, &mut places);
            let mut expected = Vec::new();
            for needle in &needles {
                Matcher::new(vec![needle.clone()]).find(&text, &mut expected);
            }
            let text = String::from_utf8_lossy(&text);
            assert_eq!(merged(places), merged(expected), "{needles:?} in {text}");
        }
    }

    #[test]
    fn search_agrees_with_a_naive_search() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..2_000 {
            let mut word = |least: usize, most: usize| -> String {
                let len = rng.usize(least..most);
                (0..len).map(|_| char::from(rng.u8(b'a'..b'd'))).collect()
            };

            let needles = [word(3, 9), word(3, 6), word(4, 5)];
            let text = word(0, 60);
            let needles: Vec<&str> = needles.iter().map(String::as_str).collect();
            let mut places = Vec::new();
            let matcher = matcher(&needles);
            matcher.find(text.as_bytes(), &mut places);
            let expected_bound = text.len() / 3;
            assert!(places.len() <= expected_bound, "{needles:?} in {text}");
            let mut expected: Vec<_> = (0..text.len())
                .flat_map(|at| needles.iter().map(move |needle| at..at + needle.len()))
                .filter(|place| {
                    let piece = text.get(place.clone());
                    piece.is_some_and(|piece| needles.contains(&piece))
                })
                .collect();
            expected.dedup();
            assert_eq!(merged(places), merged(expected), "{needles:?} in {text}");
            let start = (0..text.len()).find(|at| {
                let end = &text[*at..];
                needles
                    .iter()
                    .any(|needle| needle.len() > end.len() && needle.starts_with(end))
            });

            assert_eq!(
                matcher.partial_suffix_start(text.as_bytes()),
                start.unwrap_or(text.len())
            );

            let partial_len = (1..=text.len()).rev().find(|len| {
                let start = &text[..*len];
                needles
                    .iter()
                    .any(|needle| needle.len() > start.len() && needle.ends_with(start))
            });
            assert_eq!(
                matcher.partial_prefix_len(text.as_bytes()),
                partial_len.unwrap_or(0)
            );
        }
    }
}
