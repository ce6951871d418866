//! An embeddable LLM agent core.

pub mod backend;
mod error;
pub mod message;
pub mod model;
pub mod sdk;
pub mod tool;
pub mod trace;
mod usage;
mod util;

pub use async_trait::async_trait;
pub use error::{BoxError, Error, ErrorKind, Result};
pub use message::{
    AssistantMessage, Content, Message, Messages, Part, Role, Todo, TodoStatus, ToolCall,
    ToolResult,
};
pub use model::{Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason};
#[cfg(feature = "schema")]
pub use schemars;
pub use sdk::{PermissionRequest, SdkMessage, StreamEvent};
pub use serde_json;
#[cfg(feature = "http")]
pub use tool::HttpTool;
pub use tool::{
    Answer, FuncTool, IntoToolResult, Json, PermissionMode, Tool, ToolContext, ToolError,
    ToolOutput, ToolRegistry,
};
pub use usage::Usage;
pub use util::{Secret, Values};
