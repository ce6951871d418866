//! The decoding of escapes, so that the decoded text can be searched.

use std::ops::Range;

use memchr::memchr2;

/// A kind of escapes in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// `%41`, as in addresses.
    Percent,
    /// `\n`, `\/`, `\u0041`, as in JSON and in the `Debug` of Rust.
    Backslash,
    /// Line breaks, as in long base64.
    LineBreak,
}

/// The decoded bytes of a byte or an escape at one position of a text.
struct Unit {
    /// The number of bytes of the text it covers.
    len: usize,
    bytes: [u8; 4],
    /// The number of decoded bytes in `bytes`.
    count: usize,
}

impl Unit {
    fn byte(len: usize, byte: u8) -> Self {
        Self {
            len,
            bytes: [byte, 0, 0, 0],
            count: 1,
        }
    }

    fn char(len: usize, char: char) -> Self {
        let mut bytes = [0; 4];
        let count = char.encode_utf8(&mut bytes).len();
        Self { len, bytes, count }
    }

    fn skip(len: usize) -> Self {
        Self {
            len,
            bytes: [0; 4],
            count: 0,
        }
    }
}

impl Escape {
    /// Returns `text` with these escapes decoded; `None` if it has none.
    pub(super) fn undo(self, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut copied_end = 0;
        let mut offset = 0;
        while let Some(next) = self.next_mark(&text[offset..]) {
            offset += next;
            let unit = self.unit(&text[offset..]);
            if unit.len > 1 || unit.count != 1 {
                out.extend_from_slice(&text[copied_end..offset]);
                out.extend_from_slice(&unit.bytes[..unit.count]);
                copied_end = offset + unit.len;
            }

            offset += unit.len;
        }

        if copied_end == 0 {
            return None;
        }

        out.extend_from_slice(&text[copied_end..]);
        Some(out)
    }

    /// Returns the places in `text` that correspond to `places` in the unescaped text, which are
    /// not empty.
    pub(super) fn origins(self, text: &[u8], places: &[Range<usize>]) -> Vec<Range<usize>> {
        // The offsets of the first and of the last byte of each place, in order: one pass over the
        // text finds them all.
        let firsts = places
            .iter()
            .enumerate()
            .map(|(at, place)| (place.start, at));
        let mut firsts: Vec<_> = firsts.collect();
        let lasts = places.iter().enumerate();
        let mut lasts: Vec<_> = lasts
            .map(|(at, place)| (place.end.saturating_sub(1), at))
            .collect();
        firsts.sort_unstable();
        lasts.sort_unstable();
        let (mut firsts, mut lasts) = (firsts.into_iter().peekable(), lasts.into_iter().peekable());
        let mut origins: Vec<Range<Option<usize>>> = vec![None..None; places.len()];
        let (mut offset, mut unescaped) = (0, 0);
        while offset < text.len() && lasts.peek().is_some() {
            let unit = self.unit(&text[offset..]);
            unescaped += unit.count;
            while let Some((_, at)) = firsts.next_if(|(first, _)| *first < unescaped) {
                origins[at].start = Some(offset);
            }

            offset += unit.len;
            while let Some((_, at)) = lasts.next_if(|(last, _)| *last < unescaped) {
                origins[at].end = Some(offset);
            }
        }

        let origins = origins.into_iter();
        origins
            .filter_map(|origin| Some(origin.start?..origin.end?))
            .collect()
    }

    /// `text` without an incomplete escape at its end.
    pub(super) fn without_torn(self, text: &[u8]) -> &[u8] {
        let (mark, max_len) = match self {
            Self::Percent => (b'%', 2),
            Self::Backslash => (b'\\', 11),
            Self::LineBreak => return text,
        };
        let first = text.len().saturating_sub(max_len);
        let torn_offset = memchr::memrchr(mark, &text[first..]).map(|at| first + at);
        match torn_offset.filter(|at| self.unit(&text[*at..]).len == 1) {
            Some(at) => &text[..at],
            None => text,
        }
    }

    fn next_mark(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Percent => memchr::memchr(b'%', text),
            Self::Backslash => memchr::memchr(b'\\', text),
            Self::LineBreak => memchr2(b'\n', b'\r', text),
        }
    }

    fn unit(self, text: &[u8]) -> Unit {
        let escape = match (self, text[0]) {
            (Self::Percent, b'%') => hex(text.get(1..3)).map(|byte| Unit::byte(3, byte as u8)),
            (Self::Backslash, b'\\') => backslash(text),
            (Self::LineBreak, b'\n' | b'\r') => Some(Unit::skip(1)),
            _ => None,
        };
        escape.unwrap_or_else(|| Unit::byte(1, text[0]))
    }
}

fn backslash(text: &[u8]) -> Option<Unit> {
    Some(match text.get(1)? {
        b'u' if text.get(2) == Some(&b'{') => {
            let digits = text[3..].iter().take(6).position(|byte| *byte == b'}')?;
            let code = hex(text.get(3..3 + digits))?;
            Unit::char(4 + digits, char::from_u32(code)?)
        }
        b'u' => {
            let code = hex(text.get(2..6))?;
            match char::from_u32(code) {
                Some(char) => Unit::char(6, char),
                None => surrogates(code, text)?,
            }
        }
        b'x' => Unit::byte(4, hex(text.get(2..4))? as u8),
        b'n' => Unit::byte(2, b'\n'),
        b'r' => Unit::byte(2, b'\r'),
        b't' => Unit::byte(2, b'\t'),
        b'b' => Unit::byte(2, 8),
        b'f' => Unit::byte(2, 12),
        b'0' => Unit::byte(2, 0),
        byte @ (b'"' | b'\'' | b'\\' | b'/') => Unit::byte(2, *byte),
        _ => return None,
    })
}

/// A character that takes two escapes.
fn surrogates(high: u32, text: &[u8]) -> Option<Unit> {
    let low_half = match text.get(6..8)? {
        b"\\u" => hex(text.get(8..12))?,
        _ => return None,
    };
    let high = high.checked_sub(0xD800).filter(|high| *high < 0x400)?;
    let low_half = low_half
        .checked_sub(0xDC00)
        .filter(|low_half| *low_half < 0x400)?;
    let char = char::from_u32(0x10000 + (high << 10) + low_half)?;
    Some(Unit::char(12, char))
}

fn hex(digits: Option<&[u8]>) -> Option<u32> {
    let digits = digits.filter(|digits| !digits.is_empty())?;
    digits.iter().try_fold(0, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_in_the_order_of_the_places() {
        let text = b"x%41%42y";
        assert_eq!(Escape::Percent.undo(text).unwrap(), b"xABy");
        let places = [1..3, 0..2, 3..4, 2..3];
        let origins = Escape::Percent.origins(text, &places);
        assert_eq!(origins, [1..7, 0..4, 7..8, 4..7]);
        assert!(
            Escape::Percent
                .origins(text, std::slice::from_ref(&(3..9)))
                .is_empty()
        );

        let text = "a\\n\\u00e9b".as_bytes();
        assert_eq!(
            Escape::Backslash.undo(text).unwrap(),
            "a\n\u{e9}b".as_bytes()
        );
        assert_eq!(
            Escape::Backslash.origins(text, &[2..5, 1..2]),
            [3..10, 1..3]
        );
    }
}
