//! References within a schema.

use std::borrow::Cow;

use serde_json::Value;

/// Returns the schema a reference within the document names. Others are not followed.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    root.pointer(&percent_decoded(fragment))
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }

    let mut bytes = Vec::with_capacity(text.len());
    let mut remaining = text.as_bytes();
    while let [first, tail @ ..] = remaining {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                remaining = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                remaining = tail;
            }
        }
    }

    String::from_utf8_lossy(&bytes).into_owned().into()
}
