//! The recorders of a run's spans.
//!
//! An agent receives its recorder through
//! [`AgentBuilder::trace_recorder`](crate::AgentBuilder::trace_recorder) and hooks access it
//! through [`RunContext::trace`](crate::RunContext::trace); without one, tracing costs nothing.
//! Registered secrets are redacted before the recorder receives them; see
//! [`Secret`](crate::Secret).
//! [`TracingHook`](crate::hooks::TracingHook) records the spans; the loop itself records none.
//!
//! * [`MemoryRecorder`] stores them, and prints them as a tree.
//! * `OtelRecorder` (feature `otel`) sends them to OpenTelemetry.

mod memory;
#[cfg(feature = "otel")]
mod otel;
mod recorder;
mod redacting;
mod tree;

pub use memory::{EventRecord, MemoryRecorder, SpanRecord};
#[cfg(feature = "otel")]
pub use otel::OtelRecorder;
pub use recorder::{SpanHandle, SpanId, TraceRecorder};
pub(crate) use redacting::Redacting;
