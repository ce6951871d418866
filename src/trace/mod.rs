//! Where a run's spans go.
//!
//! A recorder is given to the agent with
//! [`AgentBuilder::trace_recorder`](crate::AgentBuilder::trace_recorder) and reached by hooks
//! through [`RunContext::trace`](crate::RunContext::trace); without one, tracing costs nothing.

mod recorder;

pub use recorder::{SpanHandle, TraceRecorder};
