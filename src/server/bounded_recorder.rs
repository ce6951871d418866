//! A recorder of spans with a limit on its memory.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::trace::{EventRecord, MemoryRecorder, SpanHandle, SpanId, SpanRecord, TraceRecorder};
use crate::util::json::json_len;
use crate::util::sync::lock;

/// The maximum number of spans and events of a run.
const MAX_PARTS: usize = 1_000;

/// The maximum size of the spans and events of a run, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The estimated memory of a span or an event without its texts, in bytes.
const PART_BYTES: usize = 128;

/// The estimated memory of an attribute without its texts, in bytes.
const ATTRIBUTE_BYTES: usize = 64;

/// A recorder in memory for the spans of one run. Spans, attributes and events over its limits are
/// counted and not recorded. Clones share one recorder.
#[derive(Clone, Debug, Default)]
pub(super) struct BoundedRecorder {
    inner: MemoryRecorder,
    usage: Arc<Mutex<RecorderUsage>>,
}

#[derive(Debug, Default)]
struct RecorderUsage {
    spans: usize,
    events: usize,
    bytes: usize,
    /// The number of spans, attributes and events that were not recorded.
    dropped: usize,
}

impl BoundedRecorder {
    pub(super) fn spans(&self) -> Vec<SpanRecord> {
        self.inner.spans()
    }

    pub(super) fn events(&self) -> Vec<EventRecord> {
        self.inner.events()
    }

    pub(super) fn span_count(&self) -> usize {
        lock(&self.usage).spans
    }

    /// Returns the estimated memory of the spans and events, in bytes.
    pub(super) fn bytes(&self) -> usize {
        lock(&self.usage).bytes
    }

    /// Creates a recorder that counts as one of this size.
    #[cfg(test)]
    pub(super) fn of_size(bytes: usize) -> Self {
        let recorder = Self::default();
        lock(&recorder.usage).bytes = bytes;
        recorder
    }

    /// Returns the number of spans, attributes and events that were not recorded.
    pub(super) fn dropped(&self) -> usize {
        lock(&self.usage).dropped
    }

    fn span(&self, name: &str, start: impl FnOnce() -> Box<dyn SpanHandle>) -> Box<dyn SpanHandle> {
        let mut usage = lock(&self.usage);
        if !usage.has_room_for_part() || !usage.take(PART_BYTES + name.len()) {
            usage.dropped += 1;
            return Box::new(DroppedSpan(self.usage.clone()));
        }
        usage.spans += 1;
        drop(usage);
        Box::new(BoundedSpan {
            inner: start(),
            usage: self.usage.clone(),
        })
    }
}

impl RecorderUsage {
    fn has_room_for_part(&self) -> bool {
        self.spans + self.events < MAX_PARTS
    }

    /// Takes the bytes if there is room for them.
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = bytes <= MAX_BYTES - self.bytes;
        if has_room {
            self.bytes += bytes;
        }
        has_room
    }
}

impl TraceRecorder for BoundedRecorder {
    fn start_span(&self, name: &str) -> Box<dyn SpanHandle> {
        self.span(name, || self.inner.start_span(name))
    }

    fn start_child(&self, name: &str, parent: SpanId) -> Box<dyn SpanHandle> {
        self.span(name, || self.inner.start_child(name, parent))
    }

    fn record_event(&self, name: &str, metadata: Value) {
        let bytes = PART_BYTES + name.len() + json_len(&metadata);
        let mut usage = lock(&self.usage);
        if !usage.has_room_for_part() || !usage.take(bytes) {
            usage.dropped += 1;
            return;
        }
        usage.events += 1;
        drop(usage);
        self.inner.record_event(name, metadata);
    }
}

/// A span that is recorded. An attribute that is set again counts again.
struct BoundedSpan {
    inner: Box<dyn SpanHandle>,
    usage: Arc<Mutex<RecorderUsage>>,
}

impl SpanHandle for BoundedSpan {
    fn id(&self) -> Option<SpanId> {
        self.inner.id()
    }

    fn set(&mut self, key: &str, value: Value) -> &mut dyn SpanHandle {
        let bytes = ATTRIBUTE_BYTES + key.len() + json_len(&value);
        let has_room = {
            let mut usage = lock(&self.usage);
            let has_room = usage.take(bytes);
            usage.dropped += usize::from(!has_room);
            has_room
        };
        if has_room {
            self.inner.set(key, value);
        }
        self
    }

    fn end(self: Box<Self>) {
        self.inner.end();
    }
}

/// A span that is only counted.
struct DroppedSpan(Arc<Mutex<RecorderUsage>>);

impl SpanHandle for DroppedSpan {
    fn set(&mut self, _key: &str, _value: Value) -> &mut dyn SpanHandle {
        lock(&self.0).dropped += 1;
        self
    }

    fn end(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_over_the_number_are_counted() {
        let recorder = BoundedRecorder::default();
        let run = recorder.start_span("run");
        for _ in 0..20_000 {
            recorder.start_child("call", run.id().unwrap()).end();
        }
        recorder.record_event("late", Value::Null);
        assert_eq!(recorder.spans().len(), MAX_PARTS);
        assert_eq!(recorder.span_count(), MAX_PARTS);
        assert_eq!(recorder.dropped(), 20_001 - MAX_PARTS + 1);
        assert!(recorder.events().is_empty());
        // Those that are recorded still end.
        run.end();
        assert!(recorder.spans()[0].duration.is_some());
    }

    #[test]
    fn texts_over_the_size_are_counted_and_short_ones_are_kept() {
        let recorder = BoundedRecorder::default();
        let mut span = recorder.start_span("call");
        for key in ["one", "two", "three"] {
            span.set(key, "x".repeat(100 * 1024).into());
        }
        span.set("short", true.into());
        span.set("huge", "x".repeat(10 * MAX_BYTES).into());
        recorder.record_event("huge", "x".repeat(10 * MAX_BYTES).into());
        let keys: Vec<_> = recorder.spans()[0]
            .attributes
            .iter()
            .map(|(key, _)| key.clone())
            .collect();
        assert_eq!(keys, ["one", "two", "short"]);
        assert_eq!(recorder.dropped(), 3);
    }
}
