//! The names of the files of records.

/// The extension of the file with the records of a session.
pub(super) const FILE_EXTENSION: &str = "files";
/// The extension of a damaged file: `damaged`, `2.damaged` and so on.
pub(super) const DAMAGED_EXTENSION: &str = "damaged";
/// The extension of a file that is being copied from another session.
pub(super) const COPY_EXTENSION: &str = "copy";

/// Returns an id as a name: small letters, digits, `-` and `_`, everything else as `%XX`.
pub(super) fn encoded(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

/// Returns the id of the session that a file with this name belongs to.
pub(super) fn id_of(name: &str) -> Option<String> {
    let (name, ending) = name.split_once('.').filter(|(name, _)| !name.is_empty())?;
    let is_own = match ending.split_once('.') {
        None => [FILE_EXTENSION, DAMAGED_EXTENSION, COPY_EXTENSION].contains(&ending),
        Some((number, ending)) => {
            let parsed_number = number
                .parse::<u64>()
                .ok()
                .filter(|parsed_number| *parsed_number > 1);
            ending == DAMAGED_EXTENSION
                && parsed_number.is_some_and(|parsed_number| parsed_number.to_string() == number)
        }
    };

    if !is_own {
        return None;
    }

    let mut remaining = name;
    let mut bytes = Vec::new();
    while let Some(first) = remaining.chars().next() {
        let (byte, len) = match first {
            '%' => (u8::from_str_radix(remaining.get(1..3)?, 16).ok()?, 3),
            _ => (u8::try_from(first).ok()?, first.len_utf8()),
        };

        bytes.push(byte);
        remaining = &remaining[len..];
    }

    let id = String::from_utf8(bytes).ok()?;
    (encoded(&id) == name).then_some(id)
}
