//! The [`Tool`] trait and the types around a tool call.
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
//! # Execution
//!
//! Arguments are parsed, passed to the `pre_tool_use` hooks, checked against the schema and passed
//! to the permission gate. If no question is left to ask, [`Tool::execute`] then runs inside the
//! `wrap_tool_call` hooks. A call that fails, panics or exceeds its timeout has an error result,
//! which the model reads; the run continues.
//!
//! # Argument schemas
//!
//! Arguments are checked against the tool's schema by a subset of JSON Schema draft 2020-12:
//!
//! | value | keywords |
//! |---|---|
//! | any | `type` (one or a list; `integer` accepts `1.0`), `nullable`, `enum`, `const` |
//! | objects | `properties`, `required`, `additionalProperties`, `minProperties`, `maxProperties`, `dependentRequired` |
//! | arrays | `items`, `prefixItems`, `minItems`, `maxItems`, `uniqueItems` |
//! | strings | `minLength`, `maxLength`, in characters |
//! | numbers | `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf` |
//! | schemas | `anyOf`, `oneOf`, `allOf`, `not`, `$ref` within the document, `true`, `false` |
//!
//! All other keywords are ignored, including `pattern` and `format`: a tool whose arguments must
//! match a pattern checks them itself. `additionalProperties` is ignored in a schema that has
//! `patternProperties`, because patterns are not matched.

mod access;
mod asking;
mod context;
mod decision;
mod detached;
mod func;
mod gate;
mod gates;
#[cfg(feature = "http")]
mod http_tool;
mod load;
mod output;
mod permission_mode;
mod registry;
mod schema;
mod session_grants;
mod source;
mod suggest;
mod tasks;
#[expect(clippy::module_inception, reason = "the trait has the module's name")]
mod tool;
mod turn_tools;
#[cfg(feature = "schema")]
mod typed;
mod view;

pub use access::{Access, Concurrency, SideEffect};
pub use asking::Asking;
pub use context::ToolContext;
pub(crate) use context::{AnswerForm, ToolHost};
pub use decision::{AskOrigin, ToolDecision, Verdict};
pub use func::FuncTool;
pub use gate::{AllowAll, Answer, Confirmer, GateRequest, PermissionGate};
pub(crate) use gates::Gates;
#[cfg(feature = "http")]
pub use http_tool::HttpTool;
pub(crate) use load::{LoadPermit, LoadPermits};
pub(crate) use output::UnansweredQuestion;
pub use output::{IntoToolResult, Json, ToolError, ToolOutput};
pub use permission_mode::PermissionMode;
pub(crate) use permission_mode::plan_mode_refusal;
pub use registry::ToolRegistry;
pub(crate) use registry::{check_name_of, check_tool};
pub(crate) use schema::check_call_arguments;
pub use schema::{ArgumentError, check_arguments};
pub(crate) use session_grants::{SessionGrant, SessionGrants};
pub use source::ToolSource;
pub(crate) use suggest::{Comparisons, near_names};
pub use tasks::{BackgroundTasks, TaskContext, TaskHandle, TaskOutcome, TaskSpec};
pub(crate) use tasks::{EndedTask, OpenTasks, TaskSink};
pub use tool::Tool;
pub use turn_tools::TurnTools;
#[cfg(feature = "schema")]
pub use typed::schema_of;
pub use view::StateView;
pub(crate) use view::view_once;
