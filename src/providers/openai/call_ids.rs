//! The ids of calls as a server takes them.

use std::borrow::Cow;

use crate::util::hash::fnv1a;

use super::super::chat::id_end;
use super::rules::CallIdForm;

/// The maximum length of a call's id at OpenAI's server, in bytes.
const MAX_ID: usize = 40;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the id of a call as it is sent. It depends on `id` alone, so that a call and its result
/// have the same id, and each body continues the previous body.
pub(super) fn sent_id(id: &str, form: CallIdForm) -> Cow<'_, str> {
    match form {
        CallIdForm::Short => id_end(id, MAX_ID).into(),
        CallIdForm::NineCharacters if is_nine(id) => id.into(),
        CallIdForm::NineCharacters => nine(fnv1a([id.as_bytes()])).into(),
    }
}

fn is_nine(id: &str) -> bool {
    id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the last nine digits of the hash to the base 62: 53 bits, so two ids of one history are
/// practically never the same.
fn nine(mut hash: u64) -> String {
    (0..9)
        .map(|_| {
            let digit = DIGITS[(hash % 62) as usize];
            hash /= 62;
            char::from(digit)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_nine_characters_and_own_ones_stay() {
        let of = |id| sent_id(id, CallIdForm::NineCharacters);
        assert_eq!(of("abcDEF123"), "abcDEF123");
        let ids = [
            "",
            "call_1",
            "call_2",
            "abc-EF123",
            "toolu_01AbCdEfGhIj",
            "ü",
        ];
        for (index, id) in ids.iter().enumerate() {
            let changed_id = of(id);
            assert!(is_nine(&changed_id), "{id}: {changed_id}");
            assert_eq!(changed_id, of(id));
            assert!(
                ids[..index].iter().all(|other| of(other) != changed_id),
                "{id}"
            );
        }
    }
}
