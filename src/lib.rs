//! An embeddable LLM agent core.

pub mod agent;
pub mod backend;
mod error;
pub mod hook;
pub mod message;
pub mod model;
pub mod permission;
#[cfg(feature = "http")]
pub mod providers;
pub mod run;
pub mod sdk;
pub mod state;
pub mod testing;
pub mod tool;
pub mod trace;
mod usage;
mod util;

pub use agent::{Agent, AgentBuilder, Decision, Session, Unanswered};
pub use async_trait::async_trait;
pub use error::{BoxError, Error, ErrorKind, Result};
pub use hook::{FnHook, Hook, Next, StopDecision, ToolDecision};
pub use message::{
    AssistantMessage, Content, Message, Messages, Part, Role, Todo, TodoStatus, ToolCall,
    ToolResult,
};
pub use model::{Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason};
pub use run::{ExitReason, Responder, Run, RunContext, RunHandle, RunOutput};
#[cfg(feature = "schema")]
pub use schemars;
pub use sdk::{PermissionRequest, SdkMessage, StreamEvent};
pub use serde_json;
pub use state::{AgentState, SessionStore, ThreadStore};
#[cfg(feature = "http")]
pub use tool::HttpTool;
pub use tool::{
    Answer, FuncTool, IntoToolResult, Json, PermissionMode, Tool, ToolContext, ToolError,
    ToolOutput, ToolRegistry,
};
pub use usage::Usage;
pub use util::{Cancellation, Secret, Values, text};
