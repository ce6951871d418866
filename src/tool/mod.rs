//! What can be called: the [`Tool`] trait and everything around a call.
//!
//! The quickest tool is a closure over typed arguments, whose JSON Schema is derived:
//!
//! ```
//! # #[cfg(feature = "schema")] {
//! use agentcore::{FuncTool, schemars, schemars::JsonSchema};
//! use serde::Deserialize;
//!
//! /// Adds two numbers.
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! let add = FuncTool::typed("add", "Adds two numbers", |args: Add| async move {
//!     Ok((args.a + args.b).to_string())
//! });
//! # let _ = add;
//! # }
//! ```
//!
//! # A call's way
//!
//! Arguments are parsed, checked against the schema, passed to the permission gate and only then
//! to [`Tool::execute`]. A call that fails, panics or outlives its timeout becomes an error
//! result the model reads; the run goes on.

mod access;
mod context;
mod detached;
mod func;
mod gate;
#[cfg(feature = "http")]
mod http_tool;
mod output;
mod registry;
mod schema;
mod source;
mod suggest;
mod tool;
mod view;

pub use access::{Access, Concurrency, SideEffect};
pub use context::ToolContext;
pub(crate) use context::ToolHost;
#[cfg(feature = "schema")]
pub use func::schema_of;
pub use func::FuncTool;
pub use gate::{AllowAll, Answer, Confirmer, GateDecision, GateRequest, PermissionGate, PermissionMode};
#[cfg(feature = "http")]
pub use http_tool::HttpTool;
pub use output::{IntoToolResult, Json, ToolError, ToolOutput};
pub use registry::{ToolMap, ToolRegistry};
pub use schema::{ArgumentError, check_arguments};
pub use source::ToolSource;
pub use tool::Tool;
pub use view::StateView;
