//! Redaction of secrets before a recorder.

use serde_json::Value;

use crate::util::secret::{redact, redacted};

use super::recorder::{SpanHandle, SpanId, TraceRecorder};

/// A recorder that redacts registered secrets in everything that it passes on.
pub(crate) struct Redacting<R>(pub(crate) R);

struct RedactingSpan(Box<dyn SpanHandle>);

impl<R: TraceRecorder> TraceRecorder for Redacting<R> {
    fn start_span(&self, name: &str) -> Box<dyn SpanHandle> {
        Box::new(RedactingSpan(self.0.start_span(&redacted(name))))
    }

    fn start_child(&self, name: &str, parent: SpanId) -> Box<dyn SpanHandle> {
        let span = self.0.start_child(&redacted(name), parent);
        Box::new(RedactingSpan(span))
    }

    fn record_event(&self, name: &str, mut metadata: Value) {
        redact(&mut metadata);
        self.0.record_event(&redacted(name), metadata);
    }
}

impl SpanHandle for RedactingSpan {
    fn id(&self) -> Option<SpanId> {
        self.0.id()
    }

    fn set(&mut self, key: &str, mut value: Value) -> &mut dyn SpanHandle {
        redact(&mut value);
        self.0.set(key, value);
        self
    }

    fn end(self: Box<Self>) {
        self.0.end();
    }
}
