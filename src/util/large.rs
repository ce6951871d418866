//! Buffers for large content.

/// Buffers below this size are allocated as usual.
const LARGE: usize = 8 * 1024 * 1024;

/// The minimum capacity of a large buffer: glibc maps allocations of more than 32 MiB by
/// themselves, so that their memory returns to the system when they are freed. Smaller ones may
/// stay with the thread that made them, and a pool has many threads.
const MAPPED: usize = 32 * 1024 * 1024 + 64 * 1024;

/// An empty buffer for content of `size` bytes that is gone soon. The part that is not used takes
/// address space only.
pub(crate) fn buffer(size: usize) -> Vec<u8> {
    Vec::with_capacity(capacity(size))
}

/// Returns an empty buffer for content whose size a file claims.
///
/// # Errors
///
/// Returns an error of the kind `OutOfMemory` if there is no memory for it.
#[cfg(feature = "fs")]
pub(crate) fn try_buffer(size: u64) -> std::io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    buffer
        .try_reserve_exact(capacity(size))
        .map_err(|_| std::io::ErrorKind::OutOfMemory)?;
    Ok(buffer)
}

fn capacity(size: usize) -> usize {
    if size < LARGE { size } else { size.max(MAPPED) }
}

/// Returns a copy of `content` in such a buffer.
#[cfg(feature = "fs")]
pub(crate) fn copy(content: &[u8]) -> Vec<u8> {
    let mut copy = buffer(content.len());
    copy.extend_from_slice(content);
    copy
}
