//! An embeddable LLM agent core.

pub mod agent;
pub mod backend;
mod error;
pub mod hook;
pub mod message;
pub mod model;
pub mod run;
pub mod sdk;
pub mod state;
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
pub use sdk::{PermissionRequest, SdkMessage, StreamEvent};
pub use state::{AgentState, SessionStore, ThreadStore};
pub use usage::Usage;
pub use util::{Cancellation, Secret, Values, text};
