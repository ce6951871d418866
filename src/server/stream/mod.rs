//! The formats of a run's stream.
//!
//! | format | file | client |
//! |---|---|---|
//! | `events` | `events.rs` | `StreamEvent`s, for a page or `curl` |
//! | `sdk`, `ndjson` | `sdk.rs` | the messages as they are |
//! | `ag-ui` | `ag_ui/` | AG-UI 1.0: `HttpAgent` of `@ag-ui/client` |
//! | `ai-sdk` | `ai_sdk/` | the AI SDK: `useChat` of `ai` 7 |
//!
//! `blocks.rs` follows the blocks of the responses, which three of the formats share.

pub(crate) mod ag_ui;
pub(crate) mod ai_sdk;
mod blocks;
mod encoder;
mod events;
mod format;
#[cfg(test)]
mod fuzz;
mod history;
mod ids;
mod json_end;
mod lane;
mod lanes;
mod media;
mod out;
mod run_input;
mod sdk;
mod sse;
mod state;
mod step;
mod timestamp;

pub use encoder::{Encoder, EncoderOptions};
pub(crate) use encoder::{LAGGED, pending_len};
pub use format::StreamFormat;
pub(crate) use run_input::RunInput;
pub use sse::SseEvent;
pub(crate) use sse::write_events;
