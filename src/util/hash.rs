//! A hash that is the same in every process, and a fast one that is not.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, OnceLock};

/// The ids of calls.
pub(crate) type IdSet = HashSet<Arc<str>, SeededState>;

/// Values by the ids of calls.
pub(crate) type IdMap<V> = HashMap<Arc<str>, V, SeededState>;

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

/// Makes [`SeededHasher`]s. The ids that are hashed come from servers, so their hashes depend on
/// random numbers of the process: a server that does not know them cannot choose ids that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededState {
    seeds: [u64; 2],
}

impl Default for SeededState {
    fn default() -> Self {
        static SEEDS: OnceLock<[u64; 2]> = OnceLock::new();
        let random = || [0_u8, 1].map(|number| RandomState::new().hash_one(number));
        Self {
            seeds: *SEEDS.get_or_init(random),
        }
    }
}

impl BuildHasher for SeededState {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        let [state, seed] = self.seeds;
        SeededHasher { state, seed }
    }
}

/// A hash of few instructions for short texts: one multiplication for each 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededHasher {
    state: u64,
    seed: u64,
}

impl SeededHasher {
    fn mix(&mut self, low: u64, high: u64) {
        self.state = folded_product(low ^ self.state, high ^ self.seed);
    }
}

impl Hasher for SeededHasher {
    fn write(&mut self, bytes: &[u8]) {
        let word = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        let (blocks, end) = bytes.as_chunks::<16>();
        for block in blocks {
            self.mix(word(block), word(&block[8..]));
        }

        // The length distinguishes ends that differ in zeros only.
        let mut padded = [0; 16];
        padded[..end.len()].copy_from_slice(end);
        self.state ^= bytes.len() as u64;
        self.mix(word(&padded), word(&padded[8..]));
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word, 0);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

/// The upper half of the product of two words, mixed with the lower half.
fn folded_product(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seeded(bytes: &[u8], seeds: [u64; 2]) -> u64 {
        let mut hasher = SeededState { seeds }.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn similar_ids_have_hashes_that_differ_in_all_bits() {
        let state = SeededState::default();
        let mut hashes: Vec<_> = (0..20_000)
            .flat_map(|n| [format!("call_{n}"), format!("{n}_call_of_a_long_id")])
            .map(|id| state.hash_one(&*id))
            .collect();

        // Of 40,000 random values of 7 and 12 bits, all of the former and most of the latter occur.
        let count = |values: &mut dyn Iterator<Item = u64>| values.collect::<HashSet<_>>().len();
        assert_eq!(count(&mut hashes.iter().map(|hash| hash >> 57)), 128);
        assert!(count(&mut hashes.iter().map(|hash| hash & 0xfff)) > 4_000);
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 40_000);
    }

    #[test]
    fn hash_depends_on_the_seeds_and_on_zeros_at_the_end() {
        let text = b"call_1";
        assert_ne!(seeded(text, [1, 2]), seeded(text, [3, 2]));
        assert_ne!(seeded(text, [1, 2]), seeded(text, [1, 3]));
        let zeros = [0; 40];
        let hashes: HashSet<_> = (0..40).map(|len| seeded(&zeros[..len], [1, 2])).collect();
        assert_eq!(hashes.len(), 40);
    }

    proptest! {
        #[test]
        fn texts_that_differ_have_different_hashes(a in "[ab]{0,40}", b in "[ab]{0,40}") {
            let state = SeededState::default();
            prop_assert_eq!(a == b, state.hash_one(&*a) == state.hash_one(&*b));
        }
    }
}
