//! A hash that is the same in every process.

/// FNV-1a over the parts, with a zero byte between them. It distinguishes values that differ by
/// accident; it is no defense against an attacker who searches for collisions.
pub(crate) fn fnv1a<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Fnv1a::default();
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            hash.push(&[0]);
        }
        hash.push(part);
    }
    hash.0
}

/// FNV-1a of data that arrives piece by piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
