//! A serde deserializer for values with their positions.

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::fault::Fault;
use super::tree::{Entry, Node, Tree};

/// Deserializes a `T` from a value.
pub(in crate::config) fn read<T: DeserializeOwned>(node: &Node) -> Result<T, Fault> {
    T::deserialize(node).map_err(|fault| fault.at(node.position))
}

impl<'de> Deserializer<'de> for &Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Unsigned(value) => visitor.visit_u64(*value),
            Tree::Signed(value) => visitor.visit_i64(*value),
            Tree::Float(value) => visitor.visit_f64(*value),
            Tree::Text(text) => visitor.visit_str(text),
            Tree::List(items) => visitor.visit_seq(Items {
                items: items.iter(),
            }),
            Tree::Map(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                current: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.tree {
            Tree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Reads a key without a value as an empty list; `deserialize_struct` reads it as a map without
    /// keys.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.tree {
            Tree::Null => visitor.visit_seq(Items { items: [].iter() }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.tree {
            Tree::Null => visitor.visit_map(Entries {
                entries: [].iter(),
                current: None,
            }),
            // The visitor of a struct would read a list as its fields in order.
            Tree::List(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.tree {
            Tree::Text(text) => {
                let name: StrDeserializer<'_, Fault> = text.as_str().into_deserializer();
                visitor.visit_enum(name)
            }
            _ => Err(de::Error::invalid_type(self.unexpected(), &"a text")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct map identifier ignored_any
    }
}

impl Node {
    fn unexpected(&self) -> Unexpected<'_> {
        match &self.tree {
            Tree::Null => Unexpected::Unit,
            Tree::Bool(value) => Unexpected::Bool(*value),
            Tree::Unsigned(value) => Unexpected::Unsigned(*value),
            Tree::Signed(value) => Unexpected::Signed(*value),
            Tree::Float(value) => Unexpected::Float(*value),
            Tree::Text(text) => Unexpected::Str(text),
            Tree::List(_) => Unexpected::Seq,
            Tree::Map(_) => Unexpected::Map,
        }
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Node>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.next() else {
            return Ok(None);
        };
        let value = seed.deserialize(item);
        value.map(Some).map_err(|fault| fault.at(item.position))
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, Entry>,
    current: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.current = Some(entry);
        let name: StrDeserializer<'_, Fault> = entry.key.as_str().into_deserializer();
        let key = seed.deserialize(name);
        key.map(Some).map_err(|fault| fault.at(entry.position))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some(entry) = self.current.take() else {
            return Err(Fault::new("a value was requested before its key"));
        };
        let value = seed.deserialize(&entry.value);
        value.map_err(|fault| fault.at_value_of(&entry.key, entry.value.position))
    }
}
