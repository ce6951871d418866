//! Schemas that combine others: `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::{Map, Value};

use super::report::{Mismatch, MismatchKind, pointer};
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
            self.fail(MismatchKind::Other, "matches what the schema excludes");
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
                self.fail(MismatchKind::Other, text);
            }
        }
    }

    /// Reports that no alternative matches. `misses` has the failures of each alternative. If the
    /// value's type or its tag identifies the intended alternative, all failures of that one are
    /// reported, else the first failure of each.
    fn report_misses(&mut self, mut misses: Vec<Vec<Mismatch<'a>>>) {
        if misses.is_empty() {
            return;
        }

        let depth = self.path.len();
        let is_intended = |miss: &[Mismatch<'_>]| {
            !miss.iter().any(|mismatch| match mismatch.kind {
                MismatchKind::Type => mismatch.path.len() == depth,
                MismatchKind::Tag => mismatch.path.len() <= depth + 1,
                MismatchKind::Other => false,
            })
        };

        let mut candidates = (0..misses.len()).filter(|index| is_intended(&misses[*index]));
        if let (Some(index), None) = (candidates.next(), candidates.next()) {
            for mismatch in misses.swap_remove(index) {
                self.record(mismatch);
            }

            return;
        }

        let mut reasons: Vec<&Mismatch<'_>> = Vec::new();
        for reason in misses.iter().filter_map(|miss| miss.first()) {
            let is_same =
                |other: &&Mismatch<'_>| other.text == reason.text && other.path == reason.path;
            if reasons.len() < MAX_REASONS && !reasons.iter().any(is_same) {
                reasons.push(reason);
            }
        }

        let reasons = reasons.into_iter().map(|reason| {
            if reason.path.len() == depth {
                return reason.text.clone();
            }
            format!("{}: {}", pointer(&reason.path), reason.text)
        });
        let reasons: Vec<String> = reasons.collect();
        let text = format!("matches none of the alternatives ({})", reasons.join("; "));

        // If all alternatives fail by type, this is a wrong type for an enclosing choice as well.
        let is_type_failure = misses
            .iter()
            .flatten()
            .all(|m| m.kind == MismatchKind::Type && m.path.len() == depth);
        self.fail(
            if is_type_failure {
                MismatchKind::Type
            } else {
                MismatchKind::Other
            },
            text,
        );
    }

    /// Returns the failures of `value` against `schema` without reporting them.
    fn attempt(&mut self, schema: &'a Value, value: &'a Value) -> Vec<Mismatch<'a>> {
        let mismatches = std::mem::take(&mut self.mismatches);
        let old_omitted = self.omitted;
        self.apply(schema, value);
        self.omitted = old_omitted;
        std::mem::replace(&mut self.mismatches, mismatches)
    }
}
