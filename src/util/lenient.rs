//! Lenient deserialization of fields that other programs write.

use serde::de::{Deserialize, Deserializer};

/// Reads a value; `null` is read as an empty one.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
