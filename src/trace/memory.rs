//! Spans in memory.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::util::sync::lock;

use super::recorder::{SpanHandle, SpanId, TraceRecorder};
use super::tree;

/// A recorded span.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpanRecord {
    /// Its id.
    pub id: SpanId,
    /// The id of its parent span.
    pub parent: Option<SpanId>,
    /// Its name.
    pub name: String,
    /// The start, relative to the first of all spans and events.
    pub start: Duration,
    /// The duration; `None` while it is open.
    pub duration: Option<Duration>,
    /// Its attributes, in the order in which they were first set.
    pub attributes: Vec<(String, Value)>,
}

impl SpanRecord {
    /// Returns the value of the attribute `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let attribute = self.attributes.iter().find(|(name, _)| name == key);
        attribute.map(|(_, value)| value)
    }
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventRecord {
    /// Its name.
    pub name: String,
    /// The time, relative to the first of all spans and events.
    pub at: Duration,
    /// The metadata of the event.
    pub metadata: Value,
}

/// A recorder that stores spans and events in memory, for tests and debugging. Clones share them.
/// The memory is not limited: a long-running process must [`clear`](MemoryRecorder::clear) it.
///
/// [`Display`](fmt::Display) prints the spans as a tree, with their starts and durations in seconds
/// and without the ids of runs. The clock is tokio's: while it is paused, the output is
/// deterministic.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::hooks::TracingHook;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::trace::MemoryRecorder;
///
/// # async fn example() -> agentcore::Result<()> {
/// let recorder = MemoryRecorder::new();
/// let agent = AgentBuilder::new(ScriptedModel::new().say("Hello!"))
///     .hook(TracingHook::new())
///     .trace_recorder(recorder.clone())
///     .build()?;
/// agent.run("Hi").await?;
/// println!("{recorder}");
/// assert_eq!(recorder.spans()[0].name, "llm.call");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct MemoryRecorder(Arc<Mutex<Trace>>);

#[derive(Default)]
struct Trace {
    /// The time of the first span or event.
    zero: Option<Instant>,
    /// The id of the first span. Clearing the records increases it, so that a span that ends later
    /// does not change a new span.
    first_id: u64,
    spans: Vec<SpanRecord>,
    events: Vec<EventRecord>,
}

impl Trace {
    fn now(&mut self) -> Duration {
        let now = Instant::now();
        now - *self.zero.get_or_insert(now)
    }

    fn span(&mut self, id: SpanId) -> Option<&mut SpanRecord> {
        let index = id.get().checked_sub(self.first_id)?;
        self.spans.get_mut(usize::try_from(index).ok()?)
    }
}

impl MemoryRecorder {
    /// Creates an empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the spans so far, in the order in which they began.
    pub fn spans(&self) -> Vec<SpanRecord> {
        lock(&self.0).spans.clone()
    }

    /// Returns the events so far.
    pub fn events(&self) -> Vec<EventRecord> {
        lock(&self.0).events.clone()
    }

    /// Removes all spans and events. Spans in progress are no longer recorded.
    pub fn clear(&self) {
        let mut trace = lock(&self.0);
        trace.first_id += trace.spans.len() as u64;
        trace.spans.clear();
        trace.events.clear();
        trace.zero = None;
    }

    fn start(&self, name: &str, parent: Option<SpanId>) -> Box<dyn SpanHandle> {
        let mut trace = lock(&self.0);
        let id = SpanId::new(trace.first_id + trace.spans.len() as u64);
        let start = trace.now();
        trace.spans.push(SpanRecord {
            id,
            parent,
            name: name.to_owned(),
            start,
            duration: None,
            attributes: Vec::new(),
        });

        Box::new(OpenSpan {
            recorder: self.clone(),
            id,
        })
    }
}

impl TraceRecorder for MemoryRecorder {
    fn start_span(&self, name: &str) -> Box<dyn SpanHandle> {
        self.start(name, None)
    }

    fn start_child(&self, name: &str, parent: SpanId) -> Box<dyn SpanHandle> {
        self.start(name, Some(parent))
    }

    fn record_event(&self, name: &str, metadata: Value) {
        let mut trace = lock(&self.0);
        let time = trace.now();
        trace.events.push(EventRecord {
            name: name.to_owned(),
            at: time,
            metadata,
        });
    }
}

/// A span in progress. Dropping it ends the span.
struct OpenSpan {
    recorder: MemoryRecorder,
    id: SpanId,
}

impl SpanHandle for OpenSpan {
    fn id(&self) -> Option<SpanId> {
        Some(self.id)
    }

    fn set(&mut self, key: &str, value: Value) -> &mut dyn SpanHandle {
        if let Some(span) = lock(&self.recorder.0).span(self.id) {
            match span.attributes.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => span.attributes.push((key.to_owned(), value)),
            }
        }
        self
    }

    fn end(self: Box<Self>) {}
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let mut trace = lock(&self.recorder.0);
        // The end of a removed span does not set the zero of later records.
        let Some(zero) = trace.zero else { return };
        let now = Instant::now() - zero;
        if let Some(span) = trace.span(self.id) {
            span.duration = Some(now.saturating_sub(span.start));
        }
    }
}

impl fmt::Display for MemoryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tree::write(f, &lock(&self.0).spans)
    }
}

impl fmt::Debug for MemoryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = lock(&self.0);
        f.debug_struct("MemoryRecorder")
            .field("spans", &trace.spans.len())
            .field("events", &trace.events.len())
            .finish_non_exhaustive()
    }
}
