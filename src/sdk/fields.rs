//! Flat JSON objects that keep unknown fields.
//!
//! Writing: [`Fields`] writes the known fields of an object in order and then the unknown ones.
//! Reading: [`with_extra`] compares what was read with what would be written, and keeps the rest.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::{Error as _, SerializeMap};
use serde_json::{Map, Value};

/// Writes one object: known fields first, then the fields of `extra`.
///
/// A key that is both known and in `extra` is written once: its value in `extra` has the unknown
/// fields inside of the known value, and is merged into it.
pub(super) struct Fields<'a, M> {
    map: M,
    extra: &'a Map<String, Value>,
    /// The keys that were written, if there are unknown fields.
    known_keys: Vec<Cow<'static, str>>,
}

impl<'a, M: SerializeMap> Fields<'a, M> {
    pub(super) fn new(map: M, extra: &'a Map<String, Value>) -> Self {
        Self {
            map,
            extra,
            known_keys: Vec::new(),
        }
    }

    /// Writes a field.
    pub(super) fn put<T>(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        value: &T,
    ) -> Result<(), M::Error>
    where
        T: Serialize + ?Sized,
    {
        let key = key.into();
        if self.extra.is_empty() {
            return self.map.serialize_entry(&key, value);
        }

        let inner = self.extra.get(&*key);
        self.known_keys.push(key.clone());
        match inner {
            None => self.map.serialize_entry(&key, value),
            Some(inner) => {
                let mut merged_value = serde_json::to_value(value).map_err(M::Error::custom)?;
                merge(&mut merged_value, inner);
                self.map.serialize_entry(&key, &merged_value)
            }
        }
    }

    /// Writes a field that is absent when it is `None`.
    pub(super) fn maybe<T: Serialize>(
        &mut self,
        key: &'static str,
        value: &Option<T>,
    ) -> Result<(), M::Error> {
        match value {
            Some(value) => self.put(key, value),
            None => Ok(()),
        }
    }

    /// Writes a field that is absent when it is false.
    pub(super) fn flag(&mut self, key: &'static str, value: bool) -> Result<(), M::Error> {
        if value { self.put(key, &true) } else { Ok(()) }
    }

    /// Writes a field that is absent when it is empty.
    pub(super) fn list<T: Serialize>(
        &mut self,
        key: &'static str,
        value: &[T],
    ) -> Result<(), M::Error> {
        if value.is_empty() {
            return Ok(());
        }
        self.put(key, value)
    }

    /// Writes the unknown fields and closes the object.
    pub(super) fn end(mut self) -> Result<M::Ok, M::Error> {
        for (key, value) in self.extra {
            if !self.known_keys.iter().any(|known| known == key) {
                self.map.serialize_entry(key, value)?;
            }
        }
        self.map.end()
    }
}

/// Reads the fields of `T`, and skips the others.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}

/// Adds to `value` the fields of `text` that `value` would not write.
pub(super) fn with_extra<T: Serialize>(
    text: &str,
    mut value: T,
    extra: impl FnOnce(&mut T) -> &mut Map<String, Value>,
) -> serde_json::Result<T> {
    let original = serde_json::from_str(text)?;
    if let Some(Value::Object(unknown_fields)) = rest(original, &serde_json::to_value(&value)?) {
        *extra(&mut value) = unknown_fields;
    }
    Ok(value)
}

/// Returns the part of `original` that is not in `known`, at any depth. In an array, `null`
/// represents an element that is wholly known. If `original` has content in blocks that `known` has
/// as one text, the blocks are returned.
fn rest(original: Value, known: &Value) -> Option<Value> {
    match (original, known) {
        (Value::Object(original), Value::Object(known)) => {
            let unknown_field = |(key, value)| match known.get(&key) {
                None => Some((key, value)),
                Some(known) => Some((key, rest(value, known)?)),
            };

            let fields: Map<_, _> = original.into_iter().filter_map(unknown_field).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        (Value::Array(original), Value::Array(known)) if original.len() == known.len() => {
            let unknown_items: Vec<_> = original
                .into_iter()
                .zip(known)
                .map(|(value, known)| rest(value, known))
                .collect();
            if unknown_items.iter().all(Option::is_none) {
                return None;
            }

            Some(
                unknown_items
                    .into_iter()
                    .map(Option::unwrap_or_default)
                    .collect(),
            )
        }
        (Value::Array(original), Value::String(known)) if is_long_form(&original, known) => {
            Some(Value::Array(original))
        }
        _ => None,
    }
}

/// Adds what [`rest`] returned to `known` again. Plain values of `known` are not replaced.
fn merge(known: &mut Value, rest: &Value) {
    match (&mut *known, rest) {
        (Value::Object(known), Value::Object(rest)) => {
            for (key, value) in rest {
                match known.get_mut(key) {
                    Some(known) => merge(known, value),
                    None => {
                        known.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(known), Value::Array(rest)) if known.len() == rest.len() => {
            for (known, rest) in known.iter_mut().zip(rest) {
                merge(known, rest);
            }
        }
        (Value::String(text), Value::Array(blocks)) if is_long_form(blocks, text) => {
            *known = rest.clone();
        }
        _ => {}
    }
}

/// Returns `true` if these blocks are equivalent to content in one text, so that either form may be
/// used for both.
fn is_long_form(blocks: &[Value], text: &str) -> bool {
    match blocks {
        [] => text.is_empty(),
        [block] => block["type"] == "text" && block["text"] == text,
        _ => false,
    }
}

/// A set of words that may grow: an enum with one more variant, for unknown words.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$about])* $variant,)*
            /// A word unknown to this version.
            Other(std::sync::Arc<str>),
        }

        impl $name {
            /// Returns the word on the wire.
            pub(super) fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Ok(Self::from(&*String::deserialize(from)?))
            }
        }
    };
}
pub(super) use words;
