//! Schemas that combine others: `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::{Map, Value};

use super::failure::{Failure, FailureKind};
use super::validate::Validator;

/// The maximum number of alternatives whose failures are reported.
const MAX_REASONS: usize = 4;

impl<'a> Validator<'a> {
    /// Applies `allOf`, `anyOf`, `oneOf` and `not`.
    pub(super) fn combinations(&mut self, schema: &'a Map<String, Value>, value: &'a Value) {
        if let Some(Value::Array(schemas)) = schema.get("allOf") {
            for all_of_schema in schemas {
                self.apply(all_of_schema, value);
            }
        }

        if let Some(Value::Array(alternatives)) = schema.get("anyOf") {
            self.any_of(alternatives, value);
        }

        if let Some(Value::Array(alternatives)) = schema.get("oneOf") {
            self.one_of(alternatives, value);
        }

        if let Some(not_schema) = schema.get("not")
            && self.attempt(not_schema, value).is_empty()
        {
            self.fail(FailureKind::Other, "matches what the schema excludes");
        }
    }

    fn any_of(&mut self, alternatives: &'a [Value], value: &'a Value) {
        let mut misses = Vec::new();
        for alternative in alternatives {
            let failures = self.attempt(alternative, value);
            if failures.is_empty() {
                return;
            }
            misses.push(failures);
        }
        self.report_misses(misses);
    }

    fn one_of(&mut self, alternatives: &'a [Value], value: &'a Value) {
        let attempts = alternatives
            .iter()
            .map(|alternative| self.attempt(alternative, value));
        let (matches, misses): (Vec<_>, Vec<_>) = attempts.partition(Vec::is_empty);
        match matches.len() {
            0 => self.report_misses(misses),
            1 => {}
            many => {
                let text = format!("matches {many} of the alternatives, but must match one");
                self.fail(FailureKind::Other, text);
            }
        }
    }

    /// Reports that no alternative matches: with the failures of the intended alternative if the
    /// value's type or its tag identifies one, else with the first failure of each.
    fn report_misses(&mut self, mut misses: Vec<Vec<Failure>>) {
        if misses.is_empty() {
            return;
        }

        let depth = self.path.len();
        let is_intended = |failures: &[Failure]| {
            !failures.iter().any(|failure| match failure.kind {
                FailureKind::Type => failure.depth == depth,
                FailureKind::Tag => failure.depth <= depth + 1,
                FailureKind::Other => false,
            })
        };

        let mut candidates = (0..misses.len()).filter(|index| is_intended(&misses[*index]));
        if let (Some(index), None) = (candidates.next(), candidates.next()) {
            for failure in misses.swap_remove(index) {
                self.record(failure);
            }

            return;
        }

        let own_pointer = self.pointer();
        let mut reasons: Vec<String> = Vec::new();
        for failure in misses.iter().filter_map(|failures| failures.first()) {
            let reason = if failure.path == own_pointer {
                failure.text.clone()
            } else {
                format!("{}: {}", failure.path, failure.text)
            };

            if !reasons.contains(&reason) && reasons.len() < MAX_REASONS {
                reasons.push(reason);
            }
        }

        let text = format!("matches none of the alternatives ({})", reasons.join("; "));

        // If all alternatives fail by type, this is a wrong type for an enclosing choice as well.
        let is_type_failure = misses
            .iter()
            .flatten()
            .all(|f| f.kind == FailureKind::Type && f.depth == depth);
        self.fail(
            if is_type_failure {
                FailureKind::Type
            } else {
                FailureKind::Other
            },
            text,
        );
    }

    /// Returns the failures of `value` against `schema` without reporting them.
    fn attempt(&mut self, schema: &'a Value, value: &'a Value) -> Vec<Failure> {
        let failures = std::mem::take(&mut self.failures);
        let old_omitted = self.omitted;
        self.apply(schema, value);
        self.omitted = old_omitted;
        std::mem::replace(&mut self.failures, failures)
    }
}
