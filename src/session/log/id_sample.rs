//! A random part of the ids of a store.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The bytes that the allocation of an id takes in addition.
const ID_OVERHEAD: usize = 32;

/// All ids that are added, or a random part of them if all exceed a size. Each sample is a new
/// random part, so that each id is in one of them in the end.
pub(super) struct IdSample {
    seed: RandomState,
    /// The greatest hash of an id in the sample.
    max_hash: u64,
    max_bytes: usize,
    bytes: usize,
    ids: Vec<Arc<str>>,
}

impl IdSample {
    /// Creates an empty sample of at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            seed: RandomState::new(),
            max_hash: u64::MAX,
            max_bytes,
            bytes: 0,
            ids: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, id: Arc<str>) {
        if self.seed.hash_one(&id) > self.max_hash {
            return;
        }
        self.bytes += size(&id);
        self.ids.push(id);
        while self.bytes > self.max_bytes {
            self.halve();
        }
    }

    /// Returns the ids in the order in which they were added.
    pub(super) fn into_ids(self) -> Vec<Arc<str>> {
        self.ids
    }

    /// Removes about half of the ids, or the last one.
    fn halve(&mut self) {
        if self.max_hash == 0 {
            self.ids.pop();
        }
        self.max_hash /= 2;
        let Self { seed, max_hash, .. } = self;
        self.ids.retain(|id| seed.hash_one(id) <= *max_hash);
        self.bytes = self.ids.iter().map(size).sum();
    }
}

/// Returns the bytes that an id takes.
fn size(id: &Arc<str>) -> usize {
    id.len() + ID_OVERHEAD
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sample(max_bytes: usize) -> Vec<Arc<str>> {
        let mut sample = IdSample::new(max_bytes);
        for number in 10..90 {
            sample.add(number.to_string().into());
        }
        sample.into_ids()
    }

    #[test]
    fn ids_within_the_size_are_all_in_the_sample() {
        let ids = sample(80 * (2 + ID_OVERHEAD));
        assert_eq!(ids.len(), 80);
        assert!(ids.is_sorted());
    }

    #[test]
    fn samples_of_too_many_ids_have_each_of_them_in_the_end() {
        let mut seen_ids = HashSet::new();
        for _ in 0..1_000 {
            let ids = sample(20 * (2 + ID_OVERHEAD));
            assert!(ids.len() <= 20, "{}", ids.len());
            seen_ids.extend(ids);
        }
        assert_eq!(seen_ids.len(), 80);
    }

    #[test]
    fn id_over_the_size_is_in_no_sample() {
        assert!(sample(ID_OVERHEAD).is_empty());
    }
}
