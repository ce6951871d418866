//! Messages, their parts, and the history they form.
//!
//! A [`Message`] has a role and a [`Content`], an ordered list of [`Part`]s. [`Messages`] is a
//! history: a chain builder, filters, validation, repair and token estimation over shared
//! messages, so that a clone costs one pointer.
//!
//! ```
//! use agentcore::{Messages, ToolCall};
//! use serde_json::json;
//!
//! let history = Messages::new()
//!     .system("You are helpful.")
//!     .human("What is 2+2?")
//!     .ai_calling("", [ToolCall::new("call_1", "calculate", json!({"expr": "2+2"}))])
//!     .tool("call_1", "calculate", "4")
//!     .ai("2+2 = 4");
//! history.validate()?;
//! assert_eq!(history.last_content(), "2+2 = 4");
//! # Ok::<(), agentcore::Error>(())
//! ```
//!
//! # JSON
//!
//! One message is `{"role","content","tool_calls"?,"tool_call_id"?,"name"?}`. `content` is a
//! string while the message is plain text, with its calls in `tool_calls`; otherwise it is an
//! ordered array of parts, calls among them, and `tool_calls` is absent. Both forms are read.
//! Tool messages add `is_error`, `details`, `display`, `silent` and `is_async` where they are set.
//!
//! A part is one of
//!
//! ```json
//! {"type": "text", "text": ".."}
//! {"type": "tool_call", "id": "..", "name": "..", "args": {}}
//! {"type": "tool_call", "id": "..", "name": "..", "args": {}, "extra": {"provider": "gemini", "block": {}}}
//! {"type": "image", "media_type": "image/png", "data": "<base64>", "name": ".."}
//! {"type": "document", "url": "https://.."}
//! {"type": "audio", "file": {"provider": "gemini", "id": ".."}}
//! {"type": "thinking", "provider": "anthropic", "block": {}}
//! {"type": "opaque", "provider": "openai", "block": {}}
//! {"type": "annotations", "citations": [{"url": "..", "title": "..", "cited_text": ".."}]}
//! {"type": "annotations", "citations": [], "provider": "gemini", "block": {}}
//! ```
//!
//! A `block` is preserved byte for byte. An object with an unknown `type` is a part without a known
//! provider: the whole object is its block, and is written back unchanged.
//!
//! Blocks are read as raw text. This works with the readers of `serde_json` and from a
//! [`Value`](serde_json::Value), which preserves the meaning but not the spelling. It does not work
//! inside `#[serde(flatten)]` or an untagged enum.

mod annotations;
#[cfg(feature = "http")]
mod call_order;
mod check;
mod content;
mod count;
mod depth;
#[expect(
    clippy::module_inception,
    reason = "the folder is about more than the one type"
)]
mod message;
mod messages;
mod order;
mod part;
mod pretty;
mod repair;
mod repairer;
mod result;
mod result_matching;
mod role;
mod size;
mod todo;
mod tokens;
mod validate;
#[cfg(feature = "tokens")]
mod vocabulary;
mod wire;
mod wire_part;

pub use annotations::{Annotations, Citation};
#[cfg(feature = "http")]
pub(crate) use call_order::in_call_order;
pub use check::ModelCheck;
pub use content::Content;
pub(crate) use count::{count, count_each, is_large};
#[cfg(feature = "session-log")]
pub(crate) use depth::is_text_deeper;
pub(crate) use depth::{
    MAX_JSON_DEPTH, dismantle, dismantle_shared, is_text_too_deep, is_too_deep,
};
pub use message::{AssistantMessage, Message, SystemMessage, UserMessage};
pub use messages::Messages;
#[cfg(feature = "http")]
pub(crate) use messages::shared_prefix;
pub use part::{Media, MediaSource, Part, ProviderBlock, ToolCall};
pub use repair::{Repair, Repairs};
pub(crate) use result::NO_OUTPUT;
pub use result::{ToolResult, ToolResultView};
pub use role::Role;
pub(crate) use size::{
    CITATION_SIZE, MESSAGE_SIZE, PART_SIZE, message_size, part_size, parts_size, result_size,
    text_part_len,
};
pub use todo::{Todo, TodoStatus};
pub use tokens::{EstimateCounter, TokenCounter};
pub use validate::{Problem, ValidationError};
#[cfg(feature = "tokens")]
pub use vocabulary::BpeCounter;
