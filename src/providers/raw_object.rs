//! Changing single elements of a JSON object without parsing the others.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// The fields of an object as text.
pub(super) type RawFields<'a> = BTreeMap<String, &'a RawValue>;

/// The change of an element of an array.
pub(super) enum Change {
    Keep,
    Remove,
    Replace(Box<RawValue>),
}

/// The field `type` of an object; `None` if there is none, or if it is not a string.
#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<Cow<'a, str>>,
}

/// A field that stays, or the elements of the changed array.
#[derive(Serialize)]
#[serde(untagged)]
enum Field<'a> {
    Same(&'a RawValue),
    Elements(Vec<Cow<'a, RawValue>>),
}

/// Returns the bytes of a text without copying them.
pub(super) fn bytes_of(text: Box<RawValue>) -> Bytes {
    String::from(Box::<str>::from(text)).into()
}

/// Returns the type of an object.
pub(super) fn type_of(object: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Typed<'_>>(object.get()).ok()?.kind
}

/// Returns the object in `text` with each element of the array `name` changed by `change`. An array
/// that becomes empty receives `filler`. `None` if nothing changes, or if there is no such array.
pub(super) fn change_elements<'a>(
    text: &'a [u8],
    name: &str,
    filler: Option<&impl Serialize>,
    mut change: impl FnMut(&'a RawValue) -> Change,
) -> Option<Box<RawValue>> {
    let fields: RawFields<'a> = serde_json::from_slice(text).ok()?;
    let elements: Vec<&RawValue> = serde_json::from_str(fields.get(name)?.get()).ok()?;
    let mut has_changed = false;
    let mut new_elements = Vec::with_capacity(elements.len());
    for element in elements {
        let change = change(element);
        has_changed |= !matches!(change, Change::Keep);
        match change {
            Change::Keep => new_elements.push(Cow::Borrowed(element)),
            Change::Remove => {}
            Change::Replace(element) => new_elements.push(Cow::Owned(element)),
        }
    }
    if !has_changed {
        return None;
    }

    if let (true, Some(filler)) = (new_elements.is_empty(), filler) {
        new_elements.push(Cow::Owned(to_raw_value(filler).ok()?));
    }
    let mut new_fields: BTreeMap<_, _> = fields
        .into_iter()
        .map(|(name, value)| (name, Field::Same(value)))
        .collect();
    new_fields.insert(name.to_owned(), Field::Elements(new_elements));
    to_raw_value(&new_fields).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn changed(object: &Value, filler: Option<&Value>) -> Option<Value> {
        let text = object.to_string();
        let change = |element: &RawValue| match type_of(element).as_deref() {
            Some("bad") => Change::Remove,
            Some("old") => Change::Replace(to_raw_value("new").unwrap()),
            _ => Change::Keep,
        };
        let new_text = change_elements(text.as_bytes(), "list", filler, change);
        new_text.map(|text| serde_json::from_str(text.get()).unwrap())
    }

    #[test]
    fn elements_are_removed_and_replaced_where_they_are() {
        let object = json!({
            "a": {"list": [{"type": "bad"}]},
            "list": [1, {"type": "bad"}, {"b": 0, "type": "old"}, {"type": 7}, "bad", {}],
        });
        let expected = json!({
            "a": {"list": [{"type": "bad"}]},
            "list": [1, "new", {"type": 7}, "bad", {}],
        });
        assert_eq!(changed(&object, None), Some(expected));
    }

    #[test]
    fn array_that_becomes_empty_gets_the_filler() {
        let object = json!({"list": [{"type": "bad"}]});
        assert_eq!(changed(&object, None), Some(json!({"list": []})));
        let filled = changed(&object, Some(&json!({"x": 1})));
        assert_eq!(filled, Some(json!({"list": [{"x": 1}]})));
    }

    #[test]
    fn object_without_a_change_has_no_other_text() {
        for object in [
            json!({"list": []}),
            json!({"list": "bad"}),
            json!({}),
            json!(1),
        ] {
            assert_eq!(changed(&object, Some(&json!(0))), None, "{object}");
        }
    }
}
