//! Fields with special forms.

use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::providers::env;
use crate::util::Secret;

/// Reads the name of a model: a string, or `{provider, model}`.
pub(in crate::config) fn model_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    struct NameVisitor;

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ProviderAndModel {
        provider: String,
        model: String,
    }

    impl<'de> Visitor<'de> for NameVisitor {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text such as \"ollama:llama3.1:8b\", or a map with provider and model")
        }

        fn visit_str<E: de::Error>(self, name: &str) -> Result<String, E> {
            Ok(name.to_owned())
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<String, A::Error> {
            let parts = ProviderAndModel::deserialize(de::value::MapAccessDeserializer::new(map))?;
            Ok(format!("{}:{}", parts.provider, parts.model))
        }
    }

    deserializer.deserialize_any(NameVisitor)
}

/// Reads a key, which must be a reference to the environment.
pub(in crate::config) fn secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Secret>, D::Error> {
    reference_or(deserializer, |_| {
        Err(de::Error::custom(
            "a key must not be written into a configuration; set an environment variable, and \
             write its name as \"${NAME}\"",
        ))
    })
}

/// Reads the address of a server: a reference to the environment, or an address without a password.
pub(in crate::config) fn address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Secret>, D::Error> {
    reference_or(deserializer, |text| {
        if has_password(&text) {
            return Err(de::Error::custom(
                "a password must not be written into a configuration; set an environment \
                 variable to the whole address, and write its name as \"${NAME}\"",
            ));
        }
        Ok(Secret::new(text))
    })
}

/// Reads a reference to the environment, or any other string with `read_literal`.
fn reference_or<'de, D: Deserializer<'de>>(
    deserializer: D,
    read_literal: impl FnOnce(String) -> Result<Secret, D::Error>,
) -> Result<Option<Secret>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    match reference(&text) {
        Some(name) => variable(name).map(Some),
        None => read_literal(text).map(Some),
    }
}

/// Returns the name in `${NAME}`.
fn reference(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix("${")?.strip_suffix('}')?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_allowed)).then_some(name)
}

fn variable<E: de::Error>(name: &str) -> Result<Secret, E> {
    let value = env::var(name).map(Secret::new);
    value.ok_or_else(|| {
        let text = format!("the environment variable {name} is not set; set it first");
        E::custom(text)
    })
}

/// Returns `true` if an address may contain a password: before its host, in a parameter, or in a
/// list such as `host=db user=agent`.
fn has_password(address: &str) -> bool {
    let (after_scheme, parameters) = match address.split_once("://") {
        Some((_, rest)) => (rest, rest.split_once(['?', '#']).map_or("", |(_, end)| end)),
        None => (address, address),
    };
    // Not only up to a `?` or `#`: a password may contain them.
    let user = after_scheme.rsplit_once('@').map_or("", |(user, _)| user);
    let after_colon = user.split_once(':').map(|(_, rest)| rest);
    after_colon.is_some_and(|rest| !is_port(rest)) || names_password(parameters)
}

/// Returns `true` if the text after a colon begins with a port, a path and parameters, as in
/// `host:6379/0?name=a@b`: its `@` belongs to a parameter.
fn is_port(text: &str) -> bool {
    let after_digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    after_digits.len() < text.len() && after_digits.starts_with('/') && after_digits.contains('?')
}

fn names_password(parameters: &str) -> bool {
    let parameters = parameters.to_ascii_lowercase();
    let mut ends = parameters
        .match_indices("password")
        .map(|(start, name)| &parameters[start + name.len()..]);
    ends.any(|end| end.trim_start().starts_with('='))
}

pub(in crate::config) fn model_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "provider:name, a bare name such as claude-sonnet-5, or a map.",
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {"provider": {"type": "string"}, "model": {"type": "string"}},
                "required": ["provider", "model"],
                "additionalProperties": false
            }
        ]
    })
}

pub(in crate::config) fn secret_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "A reference to an environment variable, such as ${NAME}.",
        "type": ["string", "null"]
    })
}

pub(in crate::config) fn permissions_schema(_: &mut SchemaGenerator) -> Schema {
    let rules = serde_json::json!({"type": "array", "items": {"type": "string"}});
    json_schema!({
        "description": "Permission rules such as Bash(git push:*), and the mode.",
        "type": ["object", "null"],
        "properties": {
            "allow": rules,
            "ask": rules,
            "deny": rules,
            "mode": {"enum": ["default", "plan", "acceptEdits", "bypassPermissions", "dontAsk"]}
        },
        "additionalProperties": false
    })
}
