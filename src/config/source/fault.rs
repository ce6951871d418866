//! An error in a configuration, with its position.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::tool::near_names;
use crate::util::text::quoted;

use super::tree::Position;

/// The maximum number of names that an error lists.
const MAX_NAMES: usize = 16;

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct Fault {
    pub(in crate::config) text: String,
    pub(in crate::config) position: Option<Position>,
    /// True if the text is about a value, so that its key is prepended.
    is_of_value: bool,
}

impl Fault {
    pub(in crate::config) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            position: None,
            is_of_value: false,
        }
    }

    /// Sets the position, unless an inner one is known.
    pub(in crate::config) fn at(mut self, position: Position) -> Self {
        self.position.get_or_insert(position);
        self
    }

    /// Sets the position of the value of `key`, unless an inner one is known.
    pub(super) fn at_value_of(mut self, key: &str, position: Position) -> Self {
        if std::mem::take(&mut self.is_of_value) {
            self.text = format!("{}: {}", quoted(key), self.text);
        }
        self.at(position)
    }

    fn of_value(text: String) -> Self {
        Self {
            is_of_value: true,
            ..Self::new(text)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(text.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let kind = kind_of(&unexpected);
        Self::of_value(format!("expected {}, not {kind}", plain_text(expected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let value = match unexpected {
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            other => kind_of(&other).to_owned(),
        };
        Self::of_value(format!("expected {}, not {value}", plain_text(expected)))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        let text = format!("expected {}, not {length} values", plain_text(expected));
        Self::of_value(text)
    }

    fn unknown_variant(name: &str, expected: &'static [&'static str]) -> Self {
        Self::of_value(unknown_name("value", name, expected))
    }

    fn unknown_field(name: &str, expected: &'static [&'static str]) -> Self {
        Self::new(unknown_name("key", name, expected))
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(format!("the key {name:?} is missing"))
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new(format!("the key {name:?} occurs twice"))
    }
}

/// Returns the error text about a name that is not in `names`.
pub(in crate::config) fn unknown_name(what: &str, name: &str, names: &[&str]) -> String {
    let mut text = format!("unknown {what} {}", quoted(name));
    match near_names(name, names).first() {
        Some(near) => text.push_str(&format!("; did you mean {near:?}?")),
        None if names.is_empty() => {}
        None => {
            let more = if names.len() > MAX_NAMES { ", .." } else { "" };
            let names: Vec<&str> = names.iter().copied().take(MAX_NAMES).collect();
            text.push_str(&format!("; use one of: {}{more}", names.join(", ")));
        }
    }
    text
}

/// Returns the kind of a value, because the value itself may be a secret.
fn kind_of(unexpected: &Unexpected<'_>) -> &'static str {
    match unexpected {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a number",
        Unexpected::Float(_) => "a number with a fraction",
        Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Bytes(_) => "a text",
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a map",
        _ => "another value",
    }
}

/// Returns the expectation in the terms of a configuration instead of Rust's.
fn plain_text(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, at least 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        _ if text.starts_with("struct ") => "a map".to_owned(),
        _ => text,
    }
}
