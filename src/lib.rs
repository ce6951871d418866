//! An embeddable LLM agent core.

mod error;
pub mod message;
pub mod model;
mod usage;
mod util;

pub use error::{BoxError, Error, ErrorKind, Result};
pub use message::{
    AssistantMessage, Content, Message, Messages, Part, Role, Todo, TodoStatus, ToolCall,
    ToolResult,
};
pub use usage::Usage;
pub use util::{Secret, Values};
