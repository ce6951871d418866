//! The traits of recorders and of spans.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// The id of a span, unique within one recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

impl SpanId {
    /// Creates an id from its number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the id.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A recorder of spans and events of a run. Hooks call it in the task that polls the run, so its
/// methods should not block.
pub trait TraceRecorder: Send + Sync + 'static {
    /// Starts a span, which lasts until its handle is ended or dropped.
    fn start_span(&self, name: &str) -> Box<dyn SpanHandle>;

    /// Starts a span as a child of another one of this recorder. The parent may have ended: a call
    /// of a tool may start a run in the background. The provided method starts a span without a
    /// parent.
    fn start_child(&self, name: &str, _parent: SpanId) -> Box<dyn SpanHandle> {
        self.start_span(name)
    }

    /// Records an event at the current time.
    fn record_event(&self, name: &str, metadata: Value);
}

impl<R: TraceRecorder + ?Sized> TraceRecorder for Arc<R> {
    fn start_span(&self, name: &str) -> Box<dyn SpanHandle> {
        (**self).start_span(name)
    }

    fn start_child(&self, name: &str, parent: SpanId) -> Box<dyn SpanHandle> {
        (**self).start_child(name, parent)
    }

    fn record_event(&self, name: &str, metadata: Value) {
        (**self).record_event(name, metadata);
    }
}

/// A span in progress.
pub trait SpanHandle: Send + Sync {
    /// Returns the span's id, for starting its children; `None` if the recorder has no tree of
    /// spans.
    fn id(&self) -> Option<SpanId> {
        None
    }

    /// Records an attribute, and returns the handle so that calls can be chained.
    fn set(&mut self, key: &str, value: Value) -> &mut dyn SpanHandle;

    /// Ends the span and records its duration. Dropping the handle does the same.
    fn end(self: Box<Self>);
}

impl fmt::Debug for dyn TraceRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRecorder").finish_non_exhaustive()
    }
}
