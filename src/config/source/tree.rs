//! The values of a configuration, with their positions.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Options, Spanned, from_str_with_options, options};

use crate::util::text::truncate_redacted;
use crate::util::yaml::duplicate_key;

use super::fault::Fault;

/// The maximum size of a text, in bytes.
pub(in crate::config) const MAX_BYTES: usize = 1024 * 1024;

/// The maximum number of scalars, lists and other parts of a text, including the parts of expanded
/// aliases.
const MAX_EVENTS: usize = 50_000;

/// The maximum nesting of lists and maps. The deepest configuration has eight levels.
const MAX_DEPTH: usize = 32;

/// The number of characters to which the error of the parser is cut: it may quote a value.
const MAX_ERROR_CHARS: usize = 300;

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::config) struct Position {
    pub(in crate::config) line: u64,
    pub(in crate::config) column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) struct Node {
    pub(in crate::config) position: Position,
    pub(in crate::config) tree: Tree,
}

/// A value: a scalar, or a list or map of values with their positions.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) enum Tree {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) struct Entry {
    pub(in crate::config) key: String,
    /// The position of the key.
    pub(in crate::config) position: Position,
    pub(in crate::config) value: Node,
}

impl Node {
    /// Returns `true` for an absent value and for a map without keys.
    pub(in crate::config) fn is_empty(&self) -> bool {
        match &self.tree {
            Tree::Null => true,
            Tree::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    /// Returns the entries of a map.
    pub(in crate::config) fn entries(&self) -> &[Entry] {
        match &self.tree {
            Tree::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the entry of a key.
    pub(in crate::config) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Returns the approximate size in memory, in bytes.
    pub(in crate::config) fn size(&self) -> usize {
        let inner = match &self.tree {
            Tree::Text(text) => text.len(),
            Tree::List(items) => items.iter().map(Self::size).sum(),
            Tree::Map(entries) => entries
                .iter()
                .map(|entry| size_of::<Entry>() + entry.key.len() + entry.value.size())
                .sum(),
            _ => 0,
        };
        size_of::<Self>() + inner
    }

    /// Returns the position of the value at `path`: keys and indexes of lists, separated by dots. A
    /// value with a key is located at its key. If the value does not exist, returns the position of
    /// the innermost value of the path that exists.
    pub(in crate::config) fn locate(&self, path: &str) -> Position {
        let mut position = self.position;
        let mut node = self;
        for step in path.split('.') {
            let next = match &node.tree {
                Tree::Map(_) => node.entry(step).map(|entry| (entry.position, &entry.value)),
                Tree::List(items) => {
                    let index = step.parse().ok();
                    let item = index.and_then(|index: usize| items.get(index));
                    item.map(|item| (item.position, item))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            (position, node) = next;
        }
        position
    }
}

/// Parses YAML.
pub(in crate::config) fn parse_yaml(text: &str) -> Result<Node, Fault> {
    if text.len() > MAX_BYTES {
        let size = text.len();
        let text = format!("the text has {size} bytes, more than {MAX_BYTES} bytes");
        return Err(Fault::new(text));
    }

    let node: Option<Spanned<Tree>> =
        from_str_with_options(text, plain_options()).map_err(|error| {
            let text = duplicate_key(&error);
            let fault = Fault::new(text.unwrap_or_else(|| without_position(&error.to_string())));
            match error.location() {
                Some(location) => fault.at(Position {
                    line: location.line(),
                    column: location.column(),
                }),
                None => fault,
            }
        })?;
    Ok(node.map_or(
        Node {
            position: Position { line: 1, column: 1 },
            tree: Tree::Null,
        },
        Node::from,
    ))
}

/// Parses JSON, which is YAML once the tabs between its values are replaced (a string of valid JSON
/// has none).
pub(in crate::config) fn parse_json(text: &str) -> Result<Node, Fault> {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        let position = Position {
            line: error.line() as u64,
            column: error.column() as u64,
        };
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        return Err(Fault::new(format!("this is not JSON: {text}")).at(position));
    }
    parse_yaml(&text.replace('\t', " "))
}

/// Returns options with which errors quote no lines of the text, because it may contain secrets.
fn plain_options() -> Options {
    options! {
        with_snippet: false,
        // `off` and `no` are strings, as in YAML 1.2: a model or a user may have such a name.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_events: MAX_EVENTS, max_nodes: MAX_EVENTS, max_depth: MAX_DEPTH
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_EVENTS },
    }
}

/// Returns the first line of the parser's error, cut, without the position at its end.
fn without_position(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let end = line.find(" at line ").unwrap_or(line.len());
    truncate_redacted(&line[..end], MAX_ERROR_CHARS)
}

fn position_of<T>(spanned: &Spanned<T>) -> Position {
    Position {
        line: spanned.referenced.line(),
        column: spanned.referenced.column(),
    }
}

impl From<Spanned<Tree>> for Node {
    fn from(spanned: Spanned<Tree>) -> Self {
        Self {
            position: position_of(&spanned),
            tree: spanned.value,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Unsigned(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tree, E> {
        Ok(u64::try_from(value).map_or(Tree::Signed(value), Tree::Unsigned))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Tree>>()? {
            items.push(item.into());
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            entries.push(Entry {
                position: position_of(&key),
                key: key.value,
                value: map.next_value::<Spanned<Tree>>()?.into(),
            });
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::Secret;

    #[test]
    fn cut_error_of_the_parser_shows_no_part_of_a_secret() {
        const KEY: &str = "kzgwvqjxhqzwvjxyqzkwzxqjgkvqwzhxjqvzkbwtpd";
        let _known = Secret::new(KEY);
        for before in 200..MAX_ERROR_CHARS {
            let text = format!("{}{KEY} at line 1, column 1", "x".repeat(before));
            let error = without_position(&text);
            let mut parts = (0..=KEY.len() - 4).map(|start| &KEY[start..start + 4]);
            assert!(!parts.any(|part| error.contains(part)), "{error}");
        }
    }
}
