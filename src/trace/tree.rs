//! Formatting spans as a tree.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::util::text::truncate;

use super::memory::SpanRecord;
use super::recorder::SpanId;

/// The maximum length of an attribute's value, in characters; longer ones are cut.
const MAX_VALUE: usize = 60;

/// The attribute with the id of a run, which differs from run to run.
const RUN_ID: &str = "run_id";

/// Writes one line for each span: its start, its duration, its name, indented below its parent's,
/// and its attributes, except texts that are equal to its parent's texts and the random ids of
/// runs. A span without a parent in `spans` is not indented.
pub(super) fn write(out: &mut fmt::Formatter<'_>, spans: &[SpanRecord]) -> fmt::Result {
    let ids: HashSet<SpanId> = spans.iter().map(|span| span.id).collect();
    let mut child_spans: BTreeMap<Option<SpanId>, Vec<&SpanRecord>> = BTreeMap::new();
    for span in spans {
        let parent = span.parent.filter(|parent| ids.contains(parent));
        child_spans.entry(parent).or_default().push(span);
    }

    // Not recursive, since recorded spans may be nested to any depth.
    let mut stack: Vec<(usize, Option<&SpanRecord>, &SpanRecord)> = Vec::new();
    let children = |of: Option<&SpanRecord>| {
        let id = of.map(|span| span.id);
        child_spans.get(&id).into_iter().flatten().rev().copied()
    };

    stack.extend(children(None).map(|span| (0, None, span)));
    while let Some((depth, parent, span)) = stack.pop() {
        write_line(out, depth, parent, span)?;
        let inner = children(Some(span)).map(|inner| (depth + 1, Some(span), inner));
        stack.extend(inner);
    }

    Ok(())
}

/// Writes the line of a span.
fn write_line(
    out: &mut fmt::Formatter<'_>,
    depth: usize,
    parent: Option<&SpanRecord>,
    span: &SpanRecord,
) -> fmt::Result {
    let start = span.start.as_secs_f64();
    let seconds = match span.duration {
        Some(duration) => format!("{:.3}", duration.as_secs_f64()),
        None => "...".to_owned(),
    };

    write!(
        out,
        "{start:>9.3} {seconds:>9}  {:1$}{2}",
        "",
        depth * 2,
        span.name
    )?;
    for (key, value) in &span.attributes {
        let is_repeated = parent.and_then(|parent| parent.get(key)) == Some(value);
        if key != RUN_ID && !(is_repeated && value.is_string()) {
            write!(out, " {key}={}", display_value(value))?;
        }
    }

    out.write_char('\n')
}

/// Returns the text of a value: a bare word unchanged, any other value as JSON on one line.
fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let text = truncate(text, MAX_VALUE);
            let is_bare = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=';
            if !text.is_empty() && text.chars().all(is_bare) {
                text.into_owned()
            } else {
                Value::String(text.into_owned()).to_string()
            }
        }
        value => truncate(&value.to_string(), MAX_VALUE).into_owned(),
    }
}
