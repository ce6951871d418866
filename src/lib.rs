//! An embeddable LLM agent core.

mod error;
pub mod message;
pub mod model;
pub mod sdk;
mod usage;
mod util;

pub use error::{BoxError, Error, ErrorKind, Result};
pub use message::{
    AssistantMessage, Content, Message, Messages, Part, Role, Todo, TodoStatus, ToolCall,
    ToolResult,
};
pub use sdk::{PermissionRequest, SdkMessage, StreamEvent};
pub use usage::Usage;
pub use util::{Secret, Values};
