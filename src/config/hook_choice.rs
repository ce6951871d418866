//! The choice of an agent's hooks.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use super::source::unknown_name;

/// The hook that enforces an agent's permission rules.
pub(crate) const PERMISSIONS: &str = "permissions";

/// The choice of an agent's hooks: `{todolist: off}` disables single hooks, `[tracing, filesystem]`
/// enables only these. Defaults to all hooks that apply. `permissions` cannot be disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookChoice {
    /// All hooks except those set to `false`.
    Switches(BTreeMap<String, bool>),
    /// Only these hooks, and `permissions`.
    Only(Vec<String>),
}

impl HookChoice {
    /// The hooks of a configured agent that can be disabled, outermost first.
    pub const CONFIGURABLE: [&'static str; 6] = [
        "tracing",
        "todolist",
        "filesystem",
        "skills",
        "memory",
        "summarization",
    ];

    /// Chooses all hooks except these.
    pub fn without<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter();
        Self::Switches(names.map(|name| (name.into(), false)).collect())
    }

    /// Returns `true` if the hook is chosen.
    pub fn has(&self, name: &str) -> bool {
        match self {
            _ if name == PERMISSIONS => true,
            Self::Switches(switches) => switches.get(name).copied().unwrap_or(true),
            Self::Only(names) => names.iter().any(|chosen| chosen == name),
        }
    }

    /// Returns the choice of the hooks that both `self` and `other` choose.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let names = Self::CONFIGURABLE.iter().copied();
        Self::without(names.filter(|name| !self.has(name) || !other.has(name)))
    }
}

impl Default for HookChoice {
    fn default() -> Self {
        Self::Switches(BTreeMap::new())
    }
}

/// Checks the name of a hook in a configuration or a request.
pub(crate) fn check_hook(name: &str) -> Result<(), String> {
    if name == PERMISSIONS {
        return Err(format!(
            "the hook {PERMISSIONS:?} cannot be switched on or off; change the key \"permissions\""
        ));
    }
    if HookChoice::CONFIGURABLE.contains(&name) {
        return Ok(());
    }
    Err(unknown_name("hook", name, &HookChoice::CONFIGURABLE))
}

impl<'de> Deserialize<'de> for HookChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ChoiceVisitor)
    }
}

struct ChoiceVisitor;

impl<'de> Visitor<'de> for ChoiceVisitor {
    type Value = HookChoice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map such as {todolist: off}, or a list of hooks to keep")
    }

    fn visit_unit<E: de::Error>(self) -> Result<HookChoice, E> {
        Ok(HookChoice::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HookChoice, A::Error> {
        let mut switches = BTreeMap::new();
        while let Some(HookName(name)) = map.next_key()? {
            let Switch(is_on) = map.next_value()?;
            switches.insert(name, is_on);
        }
        Ok(HookChoice::Switches(switches))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<HookChoice, A::Error> {
        let mut names = Vec::new();
        while let Some(HookName(name)) = list.next_element()? {
            names.push(name);
        }
        Ok(HookChoice::Only(names))
    }
}

/// The name of a hook that can be disabled.
struct HookName(String);

impl<'de> Deserialize<'de> for HookName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match check_hook(&name) {
            Ok(()) => Ok(Self(name)),
            Err(text) => Err(de::Error::custom(text)),
        }
    }
}

/// A boolean, or `on` or `off`, which are strings in YAML 1.2.
struct Switch(bool);

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SwitchVisitor;

        impl Visitor<'_> for SwitchVisitor {
            type Value = Switch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("on or off")
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Switch, E> {
                Ok(Switch(is_on))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Switch, E> {
                match text {
                    "on" => Ok(Switch(true)),
                    "off" => Ok(Switch(false)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(SwitchVisitor)
    }
}

impl schemars::JsonSchema for HookChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HookChoice".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let switch = serde_json::json!({
            "anyOf": [{"type": "boolean"}, {"enum": ["on", "off"]}]
        });
        let properties: serde_json::Map<_, _> = Self::CONFIGURABLE
            .iter()
            .map(|name| ((*name).to_owned(), switch.clone()))
            .collect();
        schemars::json_schema!({
            "description": "The hooks that are on or off, or a list of the hooks to keep.",
            "anyOf": [
                {"type": "object", "properties": properties, "additionalProperties": false},
                {"type": "array", "items": {"enum": Self::CONFIGURABLE}},
                {"type": "null"}
            ]
        })
    }
}
