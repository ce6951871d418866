//! Counts as others write them.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Number;

/// Reads a count. A fraction is rounded; `null` counts nothing.
pub(crate) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(maybe_count(from)?.unwrap_or_default())
}

/// Reads a count. A fraction is rounded; `null` is none.
pub(crate) fn maybe_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else {
        return Ok(None);
    };
    match (number.as_u64(), number.as_f64()) {
        (Some(whole), _) => Ok(Some(whole)),
        (None, Some(fraction)) if fraction >= 0.0 => Ok(Some(fraction.round() as u64)),
        _ => Err(D::Error::custom(format_args!(
            "expected a count, got {number}"
        ))),
    }
}
