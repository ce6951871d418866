//! Random ids.

use std::fmt::Write;

use uuid::Uuid;

/// Returns `N` random bytes in hexadecimal.
pub(super) fn random_hex<const N: usize>() -> String {
    // Two bytes of a random UUID have fixed bits.
    let bytes = std::iter::repeat_with(|| Uuid::new_v4().into_bytes())
        .flat_map(|bytes| bytes.into_iter().enumerate())
        .filter(|(index, _)| !matches!(index, 6 | 8));
    let mut text = String::with_capacity(2 * N);
    for (_, byte) in bytes.take(N) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the id of a new thread: 128 random bits.
pub(super) fn new_thread_id() -> String {
    format!("th_{}", random_hex::<16>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_all_their_bits() {
        let mut any_bits = [0_u8; 32];
        let mut common_bits = [0xff_u8; 32];
        for _ in 0..200 {
            let text = random_hex::<32>();
            assert_eq!(text.len(), 64);
            for index in 0..32 {
                let byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).unwrap();
                any_bits[index] |= byte;
                common_bits[index] &= byte;
            }
        }
        assert_eq!((any_bits, common_bits), ([0xff; 32], [0; 32]));
        assert_ne!(new_thread_id(), new_thread_id());
    }
}
