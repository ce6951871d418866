//! JSON pieces that providers share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use memchr::memchr;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::ToolCall;
use crate::util::hash::fnv1a;
use crate::util::json_size::{WORD, is_escaped, is_plain};

/// A string that is borrowed if it has no escapes. Inside an `Option`, serde would make a plain
/// `Cow` an owned one.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Str<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl Str<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A string and the JSON text that it was read from.
#[derive(Debug)]
pub(crate) struct RawText<'a> {
    pub(crate) raw: &'a str,
    pub(crate) text: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for RawText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let text: Str<'_> = serde_json::from_str(raw).map_err(D::Error::custom)?;
        Ok(Self { raw, text: text.0 })
    }
}

/// Returns the fields of a JSON object, unchanged, without the fields with these names.
///
/// # Errors
///
/// Returns an error if `json` is not an object.
pub(crate) fn fields_without<'a>(
    json: &'a str,
    names: &[&str],
) -> serde_json::Result<BTreeMap<Cow<'a, str>, &'a RawValue>> {
    struct FieldsVisitor<'n>(&'n [&'n str]);

    impl<'de> Visitor<'de> for FieldsVisitor<'_> {
        type Value = BTreeMap<Cow<'de, str>, &'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(
            self,
            mut map: A,
        ) -> std::result::Result<Self::Value, A::Error> {
            let mut fields = BTreeMap::new();
            while let Some(name) = map.next_key::<Str<'de>>()? {
                if self.0.contains(&name.as_str()) {
                    map.next_value::<IgnoredAny>()?;
                } else {
                    fields.insert(name.0, map.next_value()?);
                }
            }
            Ok(fields)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(json);
    let fields = deserializer.deserialize_map(FieldsVisitor(names))?;
    deserializer.end()?;
    Ok(fields)
}

/// Appends `value` as JSON.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<()> {
    Ok(serde_json::to_writer(out, value)?)
}

/// Inserts a piece of JSON at `offset`. The bytes after it are copied, so it should be near the end
/// of `out`.
pub(crate) fn insert(out: &mut Vec<u8>, offset: usize, piece: &str) {
    let end = out.split_off(offset);
    out.extend_from_slice(piece.as_bytes());
    out.extend_from_slice(&end);
}

/// The number of words that are searched at once for a byte to escape.
const BLOCK_WORDS: usize = 4;

/// Appends `text` as a JSON string. NUL, which some servers refuse, becomes U+FFFD.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    while let Some(offset) = first_escaped(rest) {
        out.extend_from_slice(&rest[..offset]);
        match rest[offset] {
            0 => out.extend_from_slice("\u{FFFD}".as_bytes()),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[offset + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
    Ok(())
}

/// Returns the offset of the first byte that is written as an escape in a JSON string.
fn first_escaped(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<WORD>();
    let blocks = words.chunks_exact(BLOCK_WORDS);
    let start = blocks.take_while(|words| is_plain(words)).count() * BLOCK_WORDS * WORD;
    let offset = bytes[start..].iter().position(|byte| is_escaped(*byte))?;
    Some(start + offset)
}

/// Returns the JSON object to send as a call's arguments: the text of the model if it is an object,
/// otherwise the parsed arguments. Arguments that are no object become `{}`, because servers refuse
/// them. Escapes that servers refuse are replaced.
pub(crate) fn call_args(call: &ToolCall) -> Result<Cow<'_, str>> {
    if !call.args.is_object() {
        return Ok(Cow::Borrowed("{}"));
    }

    match call.raw_args.as_deref().map(str::trim) {
        Some(raw) if raw.starts_with('{') && serde_json::from_str::<&RawValue>(raw).is_ok() => {
            Ok(replace_refused(raw))
        }
        _ => {
            let args = serde_json::to_string(&*call.args)?;
            Ok(Cow::Owned(replace_refused(&args).into_owned()))
        }
    }
}

/// Returns the text of a JSON string, even if the string was cut between the halves of a surrogate
/// pair.
pub(crate) fn unquoted(json: &str) -> serde_json::Result<Cow<'_, str>> {
    match serde_json::from_str::<Str<'_>>(json) {
        Ok(text) => Ok(text.0),
        Err(error) => match replace_refused(json) {
            Cow::Owned(repaired) => serde_json::from_str(&repaired).map(Cow::Owned),
            Cow::Borrowed(_) => Err(error),
        },
    }
}

/// Replaces the escapes that servers refuse in strings by U+FFFD: NUL, and halves of surrogate
/// pairs. Returns the JSON unchanged if it has none.
pub(crate) fn replace_refused(json: &str) -> Cow<'_, str> {
    const REPLACEMENT: &str = "\\ufffd";
    let mut out = String::new();
    let mut copied_len = 0;
    let mut offset = 0;

    // Text that is not JSON may end in a backslash, so that `offset` exceeds its length.
    while let Some(distance) = json
        .as_bytes()
        .get(offset..)
        .and_then(|rest| memchr(b'\\', rest))
    {
        let start = offset + distance;
        let (len, is_refused) = match utf16_unit(json, start) {
            None => (2, false),
            Some(0xD800..=0xDBFF) => match utf16_unit(json, start + 6) {
                Some(0xDC00..=0xDFFF) => (12, false),
                _ => (6, true),
            },
            Some(unit) => (6, matches!(unit, 0 | 0xDC00..=0xDFFF)),
        };

        offset = start + len;
        if is_refused {
            out.push_str(&json[copied_len..start]);
            out.push_str(REPLACEMENT);
            copied_len = offset;
        }
    }

    if copied_len == 0 {
        return Cow::Borrowed(json);
    }

    out.push_str(&json[copied_len..]);
    Cow::Owned(out)
}

/// Returns the UTF-16 unit of the escape at `start`; `None` for an escape of another kind.
fn utf16_unit(json: &str, start: usize) -> Option<u16> {
    let digits = json.get(start..start + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

/// Appends [`identifier`] of `value` as a JSON string.
pub(crate) fn write_identifier(out: &mut Vec<u8>, value: &str) -> Result<()> {
    write(out, &*identifier(value))
}

/// The maximum length of a name of a tool, which providers limit to 64 characters or more.
const MAX_NAME: usize = 64;

/// Returns the name with every character other than letters, digits, `_` and `-` replaced by `_`,
/// and cut after 64 characters: a name from another provider, or one that a model made up, may be
/// refused otherwise. An empty name becomes `_`.
pub(crate) fn identifier(name: &str) -> Cow<'_, str> {
    if is_identifier(name) {
        return name[..name.len().min(MAX_NAME)].into();
    }
    if name.is_empty() {
        return "_".into();
    }
    let letters = name
        .chars()
        .map(|c| if is_not_allowed(c) { '_' } else { c });
    letters.take(MAX_NAME).collect()
}

/// Appends [`call_identifier`] of `id` as a JSON string.
pub(crate) fn write_call_identifier(out: &mut Vec<u8>, id: &str) -> Result<()> {
    write(out, &*call_identifier(id))
}

/// Returns the id of a call as an [`identifier`]. An id that has to be changed ends in six digits
/// of a hash, so that different ids stay different, and has at most 64 characters.
fn call_identifier(id: &str) -> Cow<'_, str> {
    const MAX_START: usize = 64 - "_123456".len();
    if is_identifier(id) {
        return id.into();
    }
    let start: String = identifier(id).chars().take(MAX_START).collect();
    let hash = fnv1a([id.as_bytes()]) & 0xFF_FFFF;
    format!("{start}_{hash:06x}").into()
}

fn is_identifier(value: &str) -> bool {
    !value.is_empty() && !value.contains(is_not_allowed)
}

/// Returns `true` for a character that no identifier has.
fn is_not_allowed(c: char) -> bool {
    !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{identifier, replace_refused, write_text};

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_text(&mut out, text).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_byte_of_a_long_text_is_written_as_by_the_serializer() {
        for byte in 1..0x80_u8 {
            for place in [0, 31, 32, 63, 64, 69] {
                let mut bytes = vec![b'a'; 70];
                bytes[place] = byte;
                let text = String::from_utf8(bytes).unwrap();
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
            }
        }
        assert_eq!(written("\0a\0"), "\"\u{FFFD}a\u{FFFD}\"");
    }

    proptest! {
        #[test]
        fn text_without_nul_is_written_as_by_the_serializer(text in "(?s)([a-zé𝄞]{0,40}[\\x01-\\x7f]{0,4}){0,6}") {
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }

    #[test]
    fn name_is_cut_and_has_no_other_characters() {
        for (name, sent) in [
            ("get_time-2", "get_time-2".to_owned()),
            ("", "_".to_owned()),
            ("a.b c", "a_b_c".to_owned()),
            (&*"n".repeat(900), "n".repeat(64)),
            (&*"é".repeat(900), "_".repeat(64)),
        ] {
            assert_eq!(identifier(name), sent);
        }
    }

    #[test]
    fn nul_and_lone_surrogates_are_replaced() {
        for (json, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            (r#"{"\u0000":"a\u0000b"}"#, r#"{"\ufffd":"a\ufffdb"}"#),
            (
                r#"["\\u0000","\\\u0000","\n\u0001"]"#,
                r#"["\\u0000","\\\ufffd","\n\u0001"]"#,
            ),
            (r#"["\ud83d\ude00","é"]"#, r#"["\ud83d\ude00","é"]"#),
            (r#"["\ud83d","\uDE00"]"#, r#"["\ufffd","\ufffd"]"#),
            (r#"["\ud83d\ud83d\ude00"]"#, r#"["\ufffd\ud83d\ude00"]"#),
            (r#"["\ud83dé"]"#, r#"["\ufffdé"]"#),
            (r#"["\é\"#, r#"["\é\"#),
        ] {
            assert_eq!(replace_refused(json), expected);
        }
    }
}
