//! The values that the JSON texts of a request become.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::util::json::count_values;

/// The maximum number of values that the texts of a request become. A text of 1 MiB may have
/// 150,000 short objects, which take 100 MB of memory.
const MAX_VALUES: usize = 50_000;

/// The number of values that the texts of one request may still become.
///
/// The parts of a body whose size a client chooses stay texts until the thread is loaded. They
/// become values then: requests that wait for a thread take no more memory than their bodies.
#[derive(Debug)]
pub(super) struct ValueRoom {
    remaining: usize,
}

impl Default for ValueRoom {
    fn default() -> Self {
        Self {
            remaining: MAX_VALUES,
        }
    }
}

impl ValueRoom {
    /// Parses the text of the body's field `name`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRequest`](ErrorKind::InvalidRequest) if the texts of the request have more
    /// than 50,000 values together, or if the text is not a `T`.
    pub(super) fn parse<'a, T: Deserialize<'a>>(
        &mut self,
        name: &str,
        json: &'a RawValue,
    ) -> Result<T> {
        let count = count_values(json.get(), self.remaining);
        let Some(remaining) = self.remaining.checked_sub(count) else {
            return Err(invalid(format!(
                "the body has more than {MAX_VALUES} JSON values at {name:?}, which is the limit; \
                 send fewer"
            )));
        };
        self.remaining = remaining;
        serde_json::from_str(json.get())
            .map_err(|error| invalid(format!("the body is invalid at {name:?}: {error}")))
    }
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidRequest, text)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn texts_of_a_request_have_a_limit_of_values_together() {
        let half = to_raw_value(&vec![0; MAX_VALUES / 2 - 1]).unwrap();
        let mut room = ValueRoom::default();
        room.parse::<Value>("args", &half).unwrap();
        room.parse::<Value>("args", &half).unwrap();
        let error = room.parse::<Value>("args", &half).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("50000 JSON values"), "{error}");
    }

    #[test]
    fn text_of_another_type_is_an_error_that_names_the_field() {
        let text = to_raw_value("x").unwrap();
        let outcome = ValueRoom::default().parse::<Vec<u8>>("args", &text);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(r#"invalid at "args""#), "{error}");
    }
}
