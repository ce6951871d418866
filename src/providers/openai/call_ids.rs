//! The ids of calls as a server takes them.

use std::borrow::Cow;

use crate::util::hash::fnv1a;

use super::super::chat::short_id;
use super::rules::CallIdForm;

/// The maximum length of a call's id at OpenAI's server, in bytes.
const MAX_ID: usize = 40;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the id of a call as it is sent. It depends on `id` alone, so that a call and its result
/// have the same id, and each body continues the previous body.
pub(super) fn sent_id(id: &str, form: CallIdForm) -> Cow<'_, str> {
    match form {
        CallIdForm::Short => short_id(id, MAX_ID),
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
    fn long_ids_that_differ_anywhere_stay_different() {
        let of = |id: &str| sent_id(id, CallIdForm::Short).into_owned();
        let x = "x".repeat(40);
        assert_eq!(of(&x), x);
        let ids = [
            format!("a{x}"),
            format!("b{x}"),
            format!("{x}a"),
            format!("{x}b"),
            format!("{x}a{x}"),
            format!("{}é{x}", &x[..22]),
        ];
        let sent_ids: std::collections::BTreeSet<_> = ids.iter().map(|id| of(id)).collect();
        assert_eq!(sent_ids.len(), ids.len(), "{sent_ids:?}");
        let is_short = |id: &String| id.len() <= MAX_ID;
        assert!(sent_ids.iter().all(is_short), "{sent_ids:?}");
    }

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
