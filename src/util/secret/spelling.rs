//! The spellings of a secret that can be searched for as they are.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::matcher::Needle;

/// Returns the secret itself, and as JSON writes it inside a text.
pub(super) fn exact(secret: &str) -> Vec<Needle> {
    let json = serde_json::Value::from(secret).to_string();
    let json = &json[1..json.len() - 1];
    let mut needles = vec![Needle::new(secret)];
    for escaped in [json.to_owned(), json.replace('/', "\\/")] {
        if escaped != secret {
            needles.push(Needle::new(escaped));
        }
    }
    needles
}

/// Returns the secret itself, in hexadecimal and in base64. Escapes are not among them: they are
/// undone before the search.
pub(super) fn all(secret: &str) -> Vec<Needle> {
    let mut needles = vec![Needle::new(secret)];
    let mut hex = String::with_capacity(secret.len() * 2);
    for byte in secret.bytes() {
        hex.extend(
            [byte >> 4, byte & 15].map(|half| char::from(b"0123456789abcdef"[usize::from(half)])),
        );
    }

    needles.push(Needle::new(hex.to_ascii_uppercase()));
    needles.push(Needle::new(hex));
    for before in 0..3 {
        needles.extend(base64(secret, before));
    }

    needles
}

/// The base64 characters that hold nothing but bits of a secret that begins `before` bytes into a
/// group of three.
fn base64(secret: &str, before: usize) -> [Needle; 2] {
    let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
    let first = (before * 8).div_ceil(6);
    let has_rest = bytes.len() % 3 != 0;
    [STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|engine| {
        let text = engine.encode(&bytes);
        let last = text.len() - usize::from(has_rest);
        Needle {
            bytes: text.as_bytes()[first..last].into(),
            has_bits_before: before > 0,
            has_bits_after: has_rest,
        }
    })
}
