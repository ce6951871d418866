//! JSON values that servers send in several shapes.
//!
//! A field of an unexpected type reads as absent instead of making the whole frame unreadable.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// A text: a string, the digits of a number, the text of a text part, or the joined texts of an
/// array. Anything else reads as the empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Self::Value, A::Error> {
        let mut text = String::new();
        AppendText(&mut text).visit_seq(parts)?;
        Ok(Text(Cow::Owned(text)))
    }

    /// A part of an array: `{"type":"text","text":".."}`.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut text = Text::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "text" {
                text = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

/// Appends text in any of the shapes of [`Text`]. Arrays may be nested a hundred levels deep, and a
/// separate text for each level would be copied as often.
struct AppendText<'t>(&'t mut String);

impl<'de> DeserializeSeed<'de> for AppendText<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AppendText<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.push_str(text);
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<(), A::Error> {
        while parts.next_element_seed(AppendText(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let start = self.0.len();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "text" {
                // The last field of that name counts.
                self.0.truncate(start);
                map.next_value_seed(AppendText(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Returns `true` for an empty string, object or array, and for `false`.
pub(super) fn is_empty_value(value: &RawValue) -> bool {
    matches!(value.get(), "\"\"" | "false" | "{}" | "[]")
}

/// A count: a number that is not negative, or its digits; anything else reads as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) Option<u64>);

impl Count {
    pub(super) fn get(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Count, E> {
        Ok(Count(Some(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(number).ok()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Count, E> {
        Ok(Count((number >= 0.0).then_some(number as u64)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.trim().parse().ok()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Count, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

/// The methods of a visitor that read `null`, a boolean, a number and a text as `$absent`.
macro_rules! scalars_read_as {
    ($absent:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($absent)
        }
    };
}

/// An object; anything else reads as absent.
#[derive(Debug, Default)]
pub(super) struct Object<T>(pub(super) Option<T>);

struct ObjectVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let object = T::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(Object(Some(object)))
    }

    scalars_read_as!(Object(None));

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Object(None))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(std::marker::PhantomData))
    }
}

/// A list: an array, or a single object as an array of one; anything else reads as empty.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct ListVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    scalars_read_as!(List::default());

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element::<Option<T>>()? {
            out.extend(item);
        }
        Ok(List(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let one = T::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(List(vec![one]))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(std::marker::PhantomData))
    }
}

/// A [`List`] that nearly always has one item, which is stored inline: every chunk of a stream has
/// one.
#[derive(Debug)]
pub(super) struct Few<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Few<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the item, if there is exactly one.
    pub(super) fn only(&self) -> Option<&T> {
        self.first.as_ref().filter(|_| self.rest.is_empty())
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self {
            first: None,
            rest: Vec::new(),
        }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

struct FewVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FewVisitor<T> {
    type Value = Few<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    scalars_read_as!(Few::default());

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut few = Few {
            first: items.next_element()?.flatten(),
            rest: Vec::new(),
        };
        while let Some(item) = items.next_element::<Option<T>>()? {
            match few.first {
                None => few.first = item,
                Some(_) => few.rest.extend(item),
            }
        }
        Ok(few)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let one = T::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(Few {
            first: Some(one),
            rest: Vec::new(),
        })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FewVisitor(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_deserializes_from_every_shape() {
        let read = |json: &str| serde_json::from_str::<Text<'_>>(json).map(|t| t.0.into_owned());
        for (json, expected) in [
            (r#""a""#, "a"),
            (r#""\u00e9""#, "é"),
            ("null", ""),
            ("7", "7"),
            ("true", ""),
            (r#"[{"type":"text","text":"a"},"b",null]"#, "ab"),
            (r#"{"x":[1],"text":"a"}"#, "a"),
            (
                r#"[[["a"],{"text":["b",{"text":"c"}]}],1,-2,3.5,true]"#,
                "abc1-23.5",
            ),
            (
                r#"["a",{"text":"b","text":["c"]},{"text":{"text":"\u00e9"}},"d"]"#,
                "acéd",
            ),
        ] {
            assert_eq!(read(json).ok().as_deref(), Some(expected), "{json}");
        }
    }

    #[test]
    fn counts_and_lists_deserialize_from_every_shape() {
        let count = |json: &str| serde_json::from_str::<Count>(json).ok().and_then(|c| c.0);
        assert_eq!(count("12"), Some(12));
        assert_eq!(count("12.0"), Some(12));
        assert_eq!(count("null"), None);
        assert_eq!(count("-1"), None);
        assert_eq!(count("\"3\""), Some(3));
        assert_eq!(count("[{}]"), None);
        assert_eq!(count(r#"{"a":1}"#), None);
        let list = |json: &str| {
            serde_json::from_str::<List<Vec<u8>>>(json)
                .map(|l| l.0)
                .ok()
        };

        assert_eq!(list("null"), Some(vec![]));
        assert_eq!(list("[null,[1]]"), Some(vec![vec![1]]));
        for json in ["false", "7", "-7", "0.5", r#""""#, r#""\u00e9""#] {
            assert_eq!(list(json), Some(vec![]), "{json}");
        }

        let few = |json: &str| {
            serde_json::from_str::<Few<u8>>(json).map(|few| few.into_iter().collect::<Vec<_>>())
        };

        for (json, expected) in [
            ("null", vec![]),
            ("[]", vec![]),
            ("[1]", vec![1]),
            ("[null,1,null,2]", vec![1, 2]),
            ("true", vec![]),
            ("7", vec![]),
            ("-7", vec![]),
            ("0.5", vec![]),
            (r#""""#, vec![]),
        ] {
            assert_eq!(few(json).ok(), Some(expected), "{json}");
        }
    }
}
