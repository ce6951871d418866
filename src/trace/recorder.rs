//! The traits a recorder and its spans implement.

use std::fmt;

use serde_json::Value;

/// Takes spans and events of a run.
pub trait TraceRecorder: Send + Sync + 'static {
    /// Begins a span. It lasts until its handle is ended or dropped.
    fn start_span(&self, name: &str) -> Box<dyn SpanHandle>;

    /// Records something that happened at one moment.
    fn record_event(&self, name: &str, metadata: Value);
}

/// A span that is going on.
pub trait SpanHandle: Send + Sync {
    /// Notes an attribute.
    fn set(&mut self, key: &str, value: Value);

    /// Ends the span and records how long it took. Dropping the handle does the same.
    fn end(self: Box<Self>);
}

impl fmt::Debug for dyn TraceRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRecorder").finish_non_exhaustive()
    }
}
