//! Spans as a tree for people.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::util::text::truncate;

use super::memory::SpanRecord;
use super::recorder::SpanId;

/// The longest an attribute is printed, in characters.
const MAX_VALUE: usize = 60;

/// One line a span: when it began, how long it took, its name indented below its parent's, its
/// attributes. A span whose parent is not among them stands at the edge.
pub(super) fn write(out: &mut fmt::Formatter<'_>, spans: &[SpanRecord]) -> fmt::Result {
    let known: HashSet<SpanId> = spans.iter().map(|span| span.id).collect();
    let mut below: BTreeMap<Option<SpanId>, Vec<&SpanRecord>> = BTreeMap::new();
    for span in spans {
        let parent = span.parent.filter(|parent| known.contains(parent));
        below.entry(parent).or_default().push(span);
    }
    // Without recursion: how deep spans nest is not up to this crate.
    let mut stack: Vec<(usize, &SpanRecord)> = Vec::new();
    let push = |stack: &mut Vec<_>, depth: usize, parent: Option<SpanId>| {
        let children = below.get(&parent).into_iter().flatten().rev();
        stack.extend(children.map(|span| (depth, *span)));
    };
    push(&mut stack, 0, None);
    while let Some((depth, span)) = stack.pop() {
        line(out, depth, span)?;
        push(&mut stack, depth + 1, Some(span.id));
    }
    Ok(())
}

fn line(out: &mut fmt::Formatter<'_>, depth: usize, span: &SpanRecord) -> fmt::Result {
    let start = span.start.as_secs_f64();
    let took = match span.duration {
        Some(duration) => format!("{:.3}", duration.as_secs_f64()),
        None => "...".to_owned(),
    };
    write!(
        out,
        "{start:>9.3} {took:>9}  {:1$}{2}",
        "",
        depth * 2,
        span.name
    )?;
    for (key, value) in &span.attributes {
        write!(out, " {key}={}", printed(value))?;
    }
    out.write_char('\n')
}

/// Bare words as they are, everything else as JSON on one line.
fn printed(value: &Value) -> String {
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
