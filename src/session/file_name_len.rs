//! The length of a session id as the name of a file.

/// The maximum length of the name of a session's file without its suffixes, in bytes: most file
/// systems accept 255.
pub(crate) const MAX_FILE_NAME: usize = 240;

/// Returns the length of the name of a session's file without its suffixes, in bytes. Bytes other
/// than `a` to `z`, digits, `-` and `_` take three.
pub(crate) fn file_name_len(id: &str) -> usize {
    let len = |byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => 1,
        _ => 3,
    };
    id.bytes().map(len).sum()
}
