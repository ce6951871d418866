//! JSON pieces that providers share.

use std::borrow::Cow;

use memchr::memchr;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::ToolCall;

/// A string that is borrowed when it holds no escapes, also inside an `Option`, where serde
/// would make a bare `Cow` an owned one.
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

/// A string and the JSON text it was read from.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) raw: &'a str,
    pub(crate) text: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Piece<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let text: Str<'_> = serde_json::from_str(raw).map_err(D::Error::custom)?;
        Ok(Self { raw, text: text.0 })
    }
}

/// Appends `value` as JSON.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<()> {
    Ok(serde_json::to_writer(out, value)?)
}

/// Appends `text` as a JSON string. NUL, which some servers refuse, becomes U+FFFD.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    match memchr(0, text.as_bytes()) {
        None => write(out, text),
        Some(_) => write(out, &text.replace('\0', "\u{FFFD}")),
    }
}

/// The JSON object to send as a call's arguments: what the model wrote, verbatim, if that is an
/// object; else the parsed arguments; else `{}`, because a call without an object is refused.
pub(crate) fn call_args(call: &ToolCall) -> Result<Cow<'_, str>> {
    if !call.args.is_object() {
        return Ok(Cow::Borrowed("{}"));
    }
    match call.raw_args.as_deref().map(str::trim) {
        Some(raw) if raw.starts_with('{') && serde_json::from_str::<&RawValue>(raw).is_ok() => {
            Ok(Cow::Borrowed(raw))
        }
        _ => Ok(Cow::Owned(serde_json::to_string(&*call.args)?)),
    }
}

/// Appends `value` as a JSON string in which only letters, digits, `_` and `-` occur: ids and
/// names from one provider may have characters that another refuses. The same value always
/// becomes the same string.
pub(crate) fn write_identifier(out: &mut Vec<u8>, value: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match value {
        "" => write(out, "_"),
        value if value.chars().all(allowed) => write(out, value),
        value => write(out, &value.replace(|c| !allowed(c), "_")),
    }
}
