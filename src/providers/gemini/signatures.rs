//! The signatures of thoughts.
//!
//! From Gemini 3 on, the first call of each answer needs a signature. The server checks that it is
//! one of its own, or the placeholder for calls that it did not make.

use serde_json::{Map, Value};

use crate::message::ProviderBlock;

use super::super::gemini_family::PLACEHOLDER;

/// The field of a part with its signature.
pub(super) const SIGNATURE: &str = "thoughtSignature";

/// Returns the fields of a block; `None` if it is no object.
pub(super) fn fields_of(block: &ProviderBlock) -> Option<Map<String, Value>> {
    serde_json::from_str(block.raw.get()).ok()
}

/// Returns `true` if a part has a signature.
pub(super) fn is_signed(part: &Map<String, Value>) -> bool {
    let signature = part.get(SIGNATURE).and_then(Value::as_str);
    signature.is_some_and(|signature| !signature.is_empty())
}

/// Removes the signature of a part, and sets the placeholder if it is the first call of its answer.
/// Returns `false` if nothing of the part is left to send: it is a thought, or an empty text.
pub(super) fn strip(part: &mut Map<String, Value>, has_call: &mut bool) -> bool {
    part.remove(SIGNATURE);
    if part.contains_key("functionCall") {
        if !std::mem::replace(has_call, true) {
            part.insert(SIGNATURE.to_owned(), PLACEHOLDER.into());
        }
        return true;
    }

    let is_empty = part.get("text").is_some_and(|text| text == "");
    let is_thought = part.get("thought").is_some_and(|thought| thought == true);
    !is_empty && !is_thought
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn placeholder_is_the_documented_text() {
        let text = STANDARD.decode(PLACEHOLDER).unwrap();
        assert_eq!(text, b"skip_thought_signature_validator");
    }
}
