//! A hash that is the same in every process.

/// FNV-1a over the parts, with a zero byte between them. It tells what differs by accident; it is
/// no defence against somebody who looks for collisions.
pub(crate) fn fnv1a<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |byte: u8| {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    };
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            take(0);
        }
        part.iter().copied().for_each(&mut take);
    }
    hash
}
