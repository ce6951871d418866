//! Texts made of a grammar's tokens, nested, repeated, left open and cut.

use fastrand::Rng;

/// Characters of every length, and some that terminals, parsers and file systems mishandle.
const ODD: [&str; 16] = [
    "\0",
    "\u{1b}[2J",
    "\r",
    "\r\n",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "é",
    "ß",
    "\u{301}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{feff}",
    "漢",
    "🦀",
];

/// The tokens of a grammar.
pub struct Grammar {
    pub tokens: &'static [&'static str],
    /// The tokens that open and close a level.
    pub pairs: &'static [(&'static str, &'static str)],
}

impl Grammar {
    /// Returns a text of at most about `most` bytes, usually of far fewer.
    pub fn text(&self, rng: &mut Rng, most: usize) -> String {
        let size = self.size(rng, most);
        let mut text = String::new();
        while text.len() < size {
            self.push(rng, &mut text, size);
        }

        if rng.u8(..8) == 0 {
            let mut end = rng.usize(..=text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }

            text.truncate(end);
        }

        text
    }

    /// Returns a size up to `most`, small ones more often than large ones.
    fn size(&self, rng: &mut Rng, most: usize) -> usize {
        let powers = most.ilog2();
        let power = rng.u32(..=powers).min(rng.u32(..=powers));
        rng.usize(1..=1 << power)
    }

    fn push(&self, rng: &mut Rng, text: &mut String, size: usize) {
        let room = (size - text.len()).max(1);
        match rng.u8(..16) {
            0 => self.push_repeated(rng, text, room),
            1 => self.push_nested(rng, text, room),
            2 => text.push_str(ODD[rng.usize(..ODD.len())]),
            3 => text.push(rng.char('\0'..='\u{ffff}')),
            4 => text.push_str(&rng.i64(..).to_string()),
            5 if !text.is_empty() => {
                let start = (0..=rng.usize(..text.len())).rev();
                let start = start.into_iter().find(|at| text.is_char_boundary(*at));
                let again = text[start.unwrap_or(0)..].to_owned();
                text.extend(again.chars().take(room));
            }
            _ => text.push_str(self.token(rng)),
        }
    }

    fn push_repeated(&self, rng: &mut Rng, text: &mut String, room: usize) {
        let (first, second) = (self.token(rng), self.token(rng));
        let unit = if rng.bool() {
            first.to_owned()
        } else {
            format!("{first}{second}")
        };
        let times = rng.usize(1..=room.div_ceil(unit.len().max(1)));
        text.push_str(&unit.repeat(times));
    }

    fn push_nested(&self, rng: &mut Rng, text: &mut String, room: usize) {
        let pairs: Vec<_> = (0..rng.usize(1..=3)).map(|_| self.pair(rng)).collect();
        let unit: usize = pairs.iter().map(|(a, b)| a.len() + b.len()).sum();
        let depth = rng.usize(1..=room.div_ceil(unit.max(1)));
        for _ in 0..depth {
            pairs.iter().for_each(|(open, _)| text.push_str(open));
        }

        text.push_str(self.token(rng));

        // Half of the time, some levels stay open.
        let closed = if rng.bool() {
            depth
        } else {
            rng.usize(..=depth)
        };

        for _ in 0..closed {
            pairs
                .iter()
                .rev()
                .for_each(|(_, close)| text.push_str(close));
        }
    }

    fn token(&self, rng: &mut Rng) -> &'static str {
        self.tokens[rng.usize(..self.tokens.len())]
    }

    fn pair(&self, rng: &mut Rng) -> (&'static str, &'static str) {
        match self.pairs {
            [] => ("", ""),
            pairs => pairs[rng.usize(..pairs.len())],
        }
    }
}
