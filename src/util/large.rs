//! Buffers for large content.

/// Buffers below this size are allocated as usual.
const LARGE: usize = 8 * 1024 * 1024;

/// glibc maps allocations of more than 32 MiB by themselves, so that their memory returns to the
/// system when they are freed. Smaller ones may stay with the thread that made them, and a pool
/// has many threads.
const MAPPED: usize = 32 * 1024 * 1024 + 64 * 1024;

/// An empty buffer for content of `size` bytes that is gone soon. The part that is not used takes
/// address space only.
pub(crate) fn buffer(size: usize) -> Vec<u8> {
    let capacity = if size < LARGE { size } else { size.max(MAPPED) };
    Vec::with_capacity(capacity)
}

/// Returns a copy of `content` in such a buffer.
#[cfg(feature = "fs")]
pub(crate) fn copy(content: &[u8]) -> Vec<u8> {
    let mut copy = buffer(content.len());
    copy.extend_from_slice(content);
    copy
}
