//! The validator: one walk over the arguments and the schema together.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::util::text::truncate;

use super::failure::{ArgumentError, Failure, MAX_FAILURES, MAX_NAMED, MAX_QUOTE, list, quote};
use super::reference::resolve;
use super::report::{Mismatch, MismatchKind, PathStep};
use super::value::{compare, first_repeat, is_multiple, is_type, same_within, size, type_name};

/// The maximum nesting depth of applied schemas: the maximum depth of the JSON parser, with room
/// for a reference and an alternative at every second level.
const MAX_DEPTH: usize = 256;

/// The effort of applying one schema. Comparing two values has an effort of 1, and more for long
/// texts.
const SCHEMA_EFFORT: usize = 16;

/// The effort of a name that is looked up.
pub(super) const NAME_EFFORT: usize = 4;

/// The effort before the size of the arguments is computed: 20,000 schemas.
const FREE_EFFORT: usize = 20_000 * SCHEMA_EFFORT;

/// The additional effort for each value among the arguments: 100 schemas. Alternatives within
/// alternatives, and long lists under `enum`, would need unlimited effort, and are stopped here.
const EFFORT_PER_VALUE: usize = 100 * SCHEMA_EFFORT;

/// The maximum effort, regardless of the size of the arguments: 500,000 schemas, which take less
/// than a second. The check runs on the executor.
const MAX_EFFORT: usize = 500_000 * SCHEMA_EFFORT;

/// The walk over the arguments and the schema.
pub(super) struct Validator<'a> {
    root: &'a Value,
    pub(super) path: Vec<PathStep<'a>>,
    /// The references that are being followed, each with the value that it is applied to.
    following: Vec<(&'a Value, &'a Value)>,
    pub(super) mismatches: Vec<Mismatch<'a>>,
    pub(super) omitted: usize,
    depth: usize,
    /// The effort that is left.
    effort: usize,
    /// The arguments, until their size is counted to add effort.
    uncounted: Option<&'a Value>,
    /// True once the effort is used up or the schemas are nested too deep. The arguments are then
    /// refused.
    exhausted: bool,
}

impl<'a> Validator<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            path: Vec::new(),
            following: Vec::new(),
            mismatches: Vec::new(),
            omitted: 0,
            depth: 0,
            effort: FREE_EFFORT,
            uncounted: None,
            exhausted: false,
        }
    }

    pub(super) fn run(mut self, value: &'a Value) -> Result<(), ArgumentError> {
        self.uncounted = Some(value);
        self.apply(self.root, value);
        if self.exhausted {
            let text = "nested too deeply or too large to check against the schema";
            let failure = Failure {
                path: String::from("/"),
                text: text.to_owned(),
            };
            return Err(ArgumentError::new(vec![failure], 0));
        }

        if self.mismatches.is_empty() {
            return Ok(());
        }

        let failures = self.mismatches.into_iter().map(Failure::from).collect();
        Err(ArgumentError::new(failures, self.omitted))
    }

    pub(super) fn apply(&mut self, schema: &'a Value, value: &'a Value) {
        if self.depth >= MAX_DEPTH {
            self.exhausted = true;
        }

        if !self.spend(SCHEMA_EFFORT) {
            return;
        }

        self.depth += 1;
        match schema {
            Value::Bool(false) => self.fail(MismatchKind::Other, "not allowed"),
            Value::Object(keywords) => self.keywords(keywords, value),
            _ => {}
        }

        self.depth -= 1;
    }

    /// Takes effort. Returns `false` if too little is left, which ends the check.
    pub(super) fn spend(&mut self, effort: usize) -> bool {
        if self.effort < effort {
            self.add_effort();
        }

        self.exhausted |= self.effort < effort;
        if !self.exhausted {
            self.effort -= effort;
        }
        !self.exhausted
    }

    /// Subtracts the effort of reading a text of `len` bytes.
    fn spend_text(&mut self, len: usize) -> bool {
        self.spend(NAME_EFFORT + len / 256)
    }

    /// Adds the effort that the size of the arguments allows, once. Returns `false` later.
    fn add_effort(&mut self) -> bool {
        let Some(args) = self.uncounted.take() else {
            return false;
        };
        self.effort = size(args).saturating_mul(EFFORT_PER_VALUE).min(MAX_EFFORT);
        true
    }

    /// Returns `true` if two values are the same, or nothing is left of the effort.
    fn is_same(&mut self, a: &Value, b: &Value) -> bool {
        if self.exhausted {
            return true;
        }

        let mut comparison = same_within(a, b, &mut self.effort);
        if comparison.is_none() && self.add_effort() {
            comparison = same_within(a, b, &mut self.effort);
        }
        self.exhausted = comparison.is_none();
        comparison.unwrap_or(true)
    }

    /// Applies the keywords of a schema.
    fn keywords(&mut self, schema: &'a Map<String, Value>, value: &'a Value) {
        if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
            return;
        }

        if !self.check_type(schema, value) {
            return;
        }

        if is_plain(schema) {
            if let Value::Object(members) = value {
                self.object(schema, members);
            }

            return;
        }

        self.fixed_values(schema, value);
        match value {
            Value::Object(members) => self.object(schema, members),
            Value::Array(items) => self.array(schema, items),
            Value::String(text) => self.string(schema, text),
            Value::Number(number) => self.number(schema, number),
            Value::Null | Value::Bool(_) => {}
        }

        self.combinations(schema, value);
        if let Some(Value::String(reference)) = schema.get("$ref") {
            self.reference(reference, value);
        }
    }

    /// Checks the keyword `type`. Returns `false` if the value is of another type, or no effort is
    /// left.
    fn check_type(&mut self, schema: &'a Map<String, Value>, value: &'a Value) -> bool {
        let expected: Cow<'_, str> = match schema.get("type") {
            Some(Value::String(name)) if !is_type(value, name) => name.into(),
            Some(Value::Array(names)) => {
                if !self.spend(names.len().saturating_mul(NAME_EFFORT)) {
                    return false;
                }

                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                if names.is_empty() || names.iter().any(|name| is_type(value, name)) {
                    return true;
                }

                names.join(" or ").into()
            }
            _ => return true,
        };

        let expected = truncate(&expected, MAX_QUOTE);
        let actual = match value {
            Value::Number(number) if expected == "integer" => number.to_string().into(),
            _ => Cow::Borrowed(type_name(value)),
        };

        self.fail(
            MismatchKind::Type,
            format!("expected {expected}, got {actual}"),
        );
        false
    }

    /// Applies `const` and `enum`.
    fn fixed_values(&mut self, schema: &'a Map<String, Value>, value: &'a Value) {
        if let Some(constant) = schema.get("const")
            && !self.is_same(constant, value)
        {
            let text = format!("expected {}, got {}", quote(constant), quote(value));
            self.fail(MismatchKind::Tag, text);
        }

        if let Some(Value::Array(variants)) = schema.get("enum")
            && !variants.iter().any(|variant| self.is_same(variant, value))
        {
            let text = format!("expected one of {}, got {}", list(variants), quote(value));
            self.fail(MismatchKind::Tag, text);
        }
    }

    fn object(&mut self, schema: &'a Map<String, Value>, members: &'a Map<String, Value>) {
        for name in strings(schema.get("required")) {
            if !self.spend_text(name.len()) {
                return;
            }

            if !members.contains_key(name) {
                self.inside(PathStep::Key(name), |v| {
                    v.fail(MismatchKind::Other, "required, but missing");
                });
            }
        }

        if let Some(Value::Object(dependents)) = schema.get("dependentRequired") {
            for (cause, names) in dependents {
                if !self.spend_text(cause.len()) {
                    return;
                }

                let names = Some(names).filter(|_| members.contains_key(cause));
                for name in strings(names) {
                    if !self.spend_text(name.len()) {
                        return;
                    }

                    if !members.contains_key(name) {
                        let text = format!("required together with {cause:?}, but missing");
                        self.inside(PathStep::Key(name), |v| v.fail(MismatchKind::Other, text));
                    }
                }
            }
        }

        self.count(
            schema,
            members.len(),
            ["minProperties", "maxProperties"],
            "members",
        );
        let properties = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let additional = schema
            .get("additionalProperties")
            .filter(|_| patterns.is_none_or(Map::is_empty));
        for (key, member) in members {
            if !self.spend_text(key.len()) {
                return;
            }

            let property_schema = properties.and_then(|properties| properties.get(key));
            match (property_schema, additional) {
                (Some(schema), _) => self.inside(PathStep::Key(key), |v| v.apply(schema, member)),
                (None, Some(Value::Bool(false))) => {
                    let is_reported = self.mismatches.len() < MAX_FAILURES;
                    let text = is_reported.then(|| unexpected(properties));
                    let text = text.unwrap_or_default();
                    self.inside(PathStep::Key(key), |v| v.fail(MismatchKind::Other, text));
                }
                (None, Some(schema)) => {
                    self.inside(PathStep::Key(key), |v| v.apply(schema, member));
                }
                (None, None) => {}
            }
        }
    }

    fn array(&mut self, schema: &'a Map<String, Value>, items: &'a [Value]) {
        self.count(schema, items.len(), ["minItems", "maxItems"], "items");

        // Before draft 2020-12 a list under `items` was what `prefixItems` is now.
        let (prefix, items_schema) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(prefix)), items_schema) => (prefix.as_slice(), items_schema),
            (_, Some(Value::Array(prefix))) => (prefix.as_slice(), schema.get("additionalItems")),
            (_, items_schema) => (&[][..], items_schema),
        };

        let checked_len = items_schema.map_or(prefix.len(), |_| items.len());
        for (index, item) in items.iter().enumerate().take(checked_len) {
            if let Some(schema) = prefix.get(index).or(items_schema) {
                self.inside(PathStep::Index(index), |v| v.apply(schema, item));
            }
        }

        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let value_count: usize = items.iter().map(size).sum();
            if self.spend(value_count.saturating_mul(SCHEMA_EFFORT))
                && let Some((first, repeat)) = first_repeat(items)
            {
                let text = format!("the same as item {first}, but items must differ");
                self.inside(PathStep::Index(repeat), |v| {
                    v.fail(MismatchKind::Other, text);
                });
            }
        }
    }

    fn string(&mut self, schema: &'a Map<String, Value>, text: &str) {
        let has_limit = schema.contains_key("minLength") || schema.contains_key("maxLength");
        if has_limit && self.spend_text(text.len()) {
            let length = text.chars().count();
            self.count(schema, length, ["minLength", "maxLength"], "characters");
        }
    }

    /// Applies the two keywords that limit a count.
    fn count(
        &mut self,
        schema: &Map<String, Value>,
        count: usize,
        [min, max]: [&str; 2],
        what: &str,
    ) {
        let count = Number::from(count);
        let limit = |name: &str| schema.get(name).and_then(Value::as_number);
        if let Some(min) = limit(min)
            && compare(&count, min) == Some(Ordering::Less)
        {
            self.fail(
                MismatchKind::Other,
                format!("expected at least {min} {what}, got {count}"),
            );
        }

        if let Some(max) = limit(max)
            && compare(&count, max) == Some(Ordering::Greater)
        {
            self.fail(
                MismatchKind::Other,
                format!("expected at most {max} {what}, got {count}"),
            );
        }
    }

    fn number(&mut self, schema: &'a Map<String, Value>, number: &Number) {
        use Ordering::{Equal, Greater, Less};
        let bounds: [(&str, &[Ordering], &str); 4] = [
            ("minimum", &[Less], "at least"),
            ("maximum", &[Greater], "at most"),
            ("exclusiveMinimum", &[Less, Equal], "more than"),
            ("exclusiveMaximum", &[Greater, Equal], "less than"),
        ];
        for (name, wrong, phrase) in bounds {
            if let Some(Value::Number(bound)) = schema.get(name)
                && compare(number, bound).is_some_and(|order| wrong.contains(&order))
            {
                self.fail(
                    MismatchKind::Other,
                    format!("expected {phrase} {bound}, got {number}"),
                );
            }
        }

        if let Some(Value::Number(step)) = schema.get("multipleOf")
            && !is_multiple(number, step)
        {
            self.fail(
                MismatchKind::Other,
                format!("expected a multiple of {step}, got {number}"),
            );
        }
    }

    fn reference(&mut self, reference: &str, value: &'a Value) {
        // A text that is decoded, names that are looked up, and a list that is searched.
        let name_count = 1 + reference.bytes().filter(|byte| *byte == b'/').count();
        let effort = name_count * NAME_EFFORT + reference.len() / 16 + self.following.len() / 4;
        if !self.spend(effort) {
            return;
        }

        let Some(target) = resolve(self.root, reference) else {
            return;
        };

        let is_repeated = |(schema, at): &(&'a Value, &'a Value)| {
            std::ptr::eq(*schema, target) && std::ptr::eq(*at, value)
        };

        // A schema that refers to itself for the same value adds nothing.
        if self.following.iter().any(is_repeated) {
            return;
        }

        self.following.push((target, value));
        self.apply(target, value);
        self.following.pop();
    }

    /// Runs `check` with the path extended by `step`.
    fn inside(&mut self, step: PathStep<'a>, check: impl FnOnce(&mut Self)) {
        self.path.push(step);
        check(self);
        self.path.pop();
    }
}

/// Returns `true` if a schema has only a type and an object's members, as most do: then the other
/// keywords need not be looked up.
fn is_plain(schema: &Map<String, Value>) -> bool {
    schema.keys().all(|keyword| {
        matches!(
            &**keyword,
            "type"
                | "properties"
                | "required"
                | "additionalProperties"
                | "description"
                | "title"
                | "default"
                | "$schema"
        )
    })
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let names = value.and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn unexpected(properties: Option<&Map<String, Value>>) -> String {
    match properties {
        Some(properties) if properties.len() > MAX_NAMED => String::from("unexpected property"),
        Some(properties) if !properties.is_empty() => {
            let names: Vec<&str> = properties.keys().map(String::as_str).collect();
            format!("unexpected property; known are {}", names.join(", "))
        }
        _ => String::from("unexpected property; none is known here"),
    }
}
