//! The cost of a regular expression, estimated before it is compiled.

use std::convert::Infallible;

use regex_syntax::hir::{Hir, HirKind, Look, Visitor, visit};
use regex_syntax::{Error, ParserBuilder};

use crate::error::Result;

use super::super::failure::invalid;

/// The maximum length of an expression, in bytes.
const MAX_BYTES: usize = 8 * 1024;
/// The maximum number of positions: characters and classes, each counted as often as it is
/// repeated.
const MAX_POSITIONS: usize = 4_096;

/// The maximum length of an expression that an error repeats, in bytes.
const MAX_REPEATED: usize = 500;

/// The maximum number of bytes searched at once for a plain expression.
const MAX_PLAIN: usize = 64 * 1024 * 1024;
/// The maximum number of bytes searched at once for any other expression.
const MAX_HEAP: usize = 8 * 1024 * 1024;
/// The least bytes searched at once, however costly the expression.
const MIN_HEAP: usize = 64 * 1024;
/// The maximum product of the bytes searched at once and the positions of the expression. A single
/// search cannot be interrupted: in the worst case measured, this takes a few seconds.
const MAX_WORK: usize = 128 * 1024 * 1024;

/// Returns the maximum number of bytes to search at once for an expression. The time of a search
/// grows with the bytes and, if the state machine for the expression gets too large, with its
/// positions. The state machine of a plain expression never gets too large: it consists of texts,
/// alternatives, and the beginnings and ends of lines.
///
/// # Errors
///
/// Returns an error if the expression is malformed or over a limit.
pub(super) fn searched_at_once(pattern: &str) -> Result<usize> {
    let bytes = pattern.len();
    if bytes > MAX_BYTES {
        return Err(invalid(format!(
            "the regular expression has {bytes} bytes; at most {MAX_BYTES} are allowed"
        )));
    }

    // These settings do not change the number of positions; they only reject non-UTF-8 patterns.
    let mut parser = ParserBuilder::new().utf8(false).build();
    let hir = parser
        .parse(pattern)
        .map_err(|error| invalid(described(pattern, &error)))?;
    let Ok(cost) = visit(&hir, Cost::default());
    let positions = cost.positions;
    if positions > MAX_POSITIONS {
        return Err(invalid(format!(
            "the repetitions of the regular expression amount to {positions} positions; at most \
             {MAX_POSITIONS} are allowed; repeat fewer times"
        )));
    }

    if cost.is_plain() {
        return Ok(MAX_PLAIN);
    }

    Ok((MAX_WORK / positions.max(1)).clamp(MIN_HEAP, MAX_HEAP))
}

/// Returns the text of an error. It has the place and repeats the expression, unless that is long.
fn described(pattern: &str, error: &Error) -> String {
    let kind = match error {
        Error::Parse(error) if pattern.len() > MAX_REPEATED => error.kind().to_string(),
        Error::Translate(error) if pattern.len() > MAX_REPEATED => error.kind().to_string(),
        error => return error.to_string(),
    };
    format!("the regular expression is malformed: {kind}")
}

#[derive(Default)]
struct Cost {
    positions: usize,
    has_class_or_repetition: bool,
    has_word_boundary: bool,
    /// The product of the repetitions around a part, one entry for each of them.
    repeated: Vec<usize>,
}

impl Cost {
    fn is_plain(&self) -> bool {
        !self.has_class_or_repetition && !self.has_word_boundary
    }

    fn times(&self) -> usize {
        self.repeated.last().copied().unwrap_or(1)
    }
}

impl Visitor for Cost {
    type Output = Self;
    type Err = Infallible;

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }

    fn visit_pre(&mut self, part: &Hir) -> Result<(), Infallible> {
        let times = self.times();
        let own_positions = match part.kind() {
            HirKind::Literal(literal) => literal.0.len(),
            _ => 1,
        };

        self.positions = self
            .positions
            .saturating_add(own_positions.saturating_mul(times));
        match part.kind() {
            HirKind::Class(_) | HirKind::Repetition(_) => self.has_class_or_repetition = true,
            HirKind::Look(Look::Start | Look::End | Look::StartLF | Look::EndLF) => {}
            HirKind::Look(_) => self.has_word_boundary = true,
            _ => {}
        }

        if let HirKind::Repetition(repetition) = part.kind() {
            let max_repeats = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            let max_repeats = usize::try_from(max_repeats.max(1)).unwrap_or(usize::MAX);
            self.repeated.push(times.saturating_mul(max_repeats));
        }

        Ok(())
    }

    fn visit_post(&mut self, part: &Hir) -> Result<(), Infallible> {
        if matches!(part.kind(), HirKind::Repetition(_)) {
            self.repeated.pop();
        }
        Ok(())
    }
}
