//! An embeddable LLM agent core.

mod error;
pub mod message;
pub mod model;
#[cfg(feature = "http")]
pub mod providers;
pub mod testing;
mod usage;
mod util;

pub use async_trait::async_trait;
pub use error::{BoxError, Error, ErrorKind, Result};
pub use message::{
    AssistantMessage, Content, Message, Messages, Part, Role, Todo, TodoStatus, ToolCall,
    ToolResult,
};
pub use model::{Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason};
pub use usage::Usage;
pub use util::{Secret, Values};
