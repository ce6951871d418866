//! New ids of sessions and runs.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread;

use fastrand::Rng;
use uuid::{Builder, Uuid};

use super::time::now_ms;

/// Returns a new id that cannot be guessed: a UUID of version 7.
pub(crate) fn random_id() -> Arc<str> {
    // Bytes 6 and 8 have the version and the variant.
    let bytes = *Uuid::new_v4().as_bytes();
    let mut random_bytes = [0; 10];
    random_bytes[..6].copy_from_slice(&bytes[..6]);
    random_bytes[6..].copy_from_slice(&bytes[12..]);
    id_of_now(&random_bytes)
}

thread_local! {
    /// Seeded by the keys of a hash table, which come from the system once in each thread.
    static RNG: RefCell<Rng> = RefCell::new(Rng::with_seed(
        RandomState::new().hash_one(thread::current().id()),
    ));
}

/// Returns a new id that is a name and no secret, without a system call for random bytes.
pub(crate) fn id() -> Arc<str> {
    let mut random_bytes = [0; 10];
    RNG.with_borrow_mut(|rng| rng.fill(&mut random_bytes));
    id_of_now(&random_bytes)
}

fn id_of_now(random_bytes: &[u8; 10]) -> Arc<str> {
    let uuid = Builder::from_unix_timestamp_millis(now_ms(), random_bytes).into_uuid();
    let mut text = [0; 36];
    Arc::from(&*uuid.hyphenated().encode_lower(&mut text))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_different_uuids_of_version_7() {
        let ids: HashSet<_> = (0..1_000).flat_map(|_| [id(), random_id()]).collect();
        assert_eq!(ids.len(), 2_000);
        for id in ids {
            let uuid = Uuid::parse_str(&id).unwrap();
            assert_eq!((uuid.get_version_num(), &*uuid.to_string()), (7, &*id));
        }
    }
}
