//! The names of subjects and consumers, and the ids of messages.

use std::fmt::Write as _;

use crate::util::hash::fnv1a;

/// The maximum length of the escaped name of a channel in a subject, in bytes. A server accepts
/// names of 255 bytes.
const MAX_TOKEN: usize = 160;
/// The length of the beginning that is kept of a longer name, in bytes.
const HEAD: usize = 100;

/// Returns the subject token of a session, a hash of its key. Sessions with the same hash share
/// one order.
pub(super) fn session_token(key: &str) -> String {
    format!("{:016x}", fnv1a([key.as_bytes()]))
}

/// Returns the subject token of a channel, which is also the name of its consumer. The token of a
/// long name ends in a hash.
pub(super) fn channel_token(channel: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let mut token = escaped(channel, '=', is_plain);
    if token.len() > MAX_TOKEN || token.is_empty() {
        token.truncate(HEAD);
        let _ = write!(token, "=={:016x}", fnv1a([channel.as_bytes()]));
    }
    token
}

/// Returns the id of a message as the value of a header.
pub(super) fn message_id(parts: &[&str]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%' && byte != b'/';
    let parts: Vec<_> = parts
        .iter()
        .map(|part| escaped(part, '%', is_plain))
        .collect();
    parts.join("/")
}

/// Returns the text with the bytes that are not plain as two hexadecimal digits after `mark`.
fn escaped(text: &str, mark: char, is_plain: impl Fn(u8) -> bool) -> String {
    let mut output = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            output.push(char::from(byte));
        } else {
            let _ = write!(output, "{mark}{byte:02X}");
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_tokens_of_their_own() {
        let long = "x".repeat(1_024);
        let longer = "x".repeat(1_023);
        let names = [
            "tg", "a.b", "a b", "a=2Eb", "", "é", &long, &longer, "*", ">",
        ];
        let tokens: std::collections::BTreeSet<_> = names.map(channel_token).into();
        assert_eq!(tokens.len(), names.len());
        for token in tokens {
            assert!((1..=MAX_TOKEN).contains(&token.len()), "{token}");
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_=".contains(c);
            assert!(token.chars().all(is_allowed), "{token}");
        }
        assert_eq!(channel_token("tg"), "tg");
    }

    #[test]
    fn ids_are_headers_and_stay_different() {
        assert_eq!(message_id(&["tg", "tg:77:reply"]), "tg/tg:77:reply");
        assert_eq!(message_id(&["a\r\nb c%"]), "a%0D%0Ab%20c%25");
        assert_ne!(message_id(&["a/b", "c"]), message_id(&["a", "b/c"]));
    }
}
