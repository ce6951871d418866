//! The trait a tool implements.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::backend::Shell;
use crate::error::BoxError;

use super::access::{Access, Concurrency, SideEffect};
use super::context::ToolContext;
use super::output::ToolOutput;

/// A tool that the model can call. Most tools need no type of their own: see
/// [`FuncTool`](super::FuncTool).
///
/// One instance serves many calls and many runs at once. A tool holds its own dependencies, such
/// as a client; the data of one run is in the [`ToolContext`].
///
/// ```
/// use agentcore::{BoxError, Tool, ToolContext, ToolOutput, async_trait};
/// use serde_json::{Value, json};
///
/// struct Shout {
///     parameters: Value,
/// }
///
/// #[async_trait]
/// impl Tool for Shout {
///     fn name(&self) -> &str {
///         "shout"
///     }
///
///     fn description(&self) -> &str {
///         "Says a text in capitals"
///     }
///
///     fn parameters(&self) -> &Value {
///         &self.parameters
///     }
///
///     async fn execute(&self, _cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
///         let text = args["text"].as_str().unwrap_or_default();
///         Ok(text.to_uppercase().into())
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let shout = Shout {
///     parameters: json!({
///         "type": "object",
///         "properties": {"text": {"type": "string"}},
///         "required": ["text"],
///     }),
/// };
/// let output = shout.execute(ToolContext::detached(), json!({"text": "hi"})).await?;
/// assert_eq!(output.content.text(), "HI");
/// # Ok::<(), BoxError>(())
/// # }).unwrap();
/// ```
///
/// # Cancel safety
///
/// The future of [`execute`](Tool::execute) is dropped when the run is dropped or interrupted and
/// when the timeout passes. Code after an `.await` may therefore never run: put cleanup into the
/// `Drop` of a value.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Tool`",
    note = "make one from a closure: `FuncTool::typed(\"name\", \"what it does\", |args: Args| async move {{ .. }})`",
    note = "a hand-written `impl Tool for ..` needs `#[agentcore::async_trait]` above it"
)]
pub trait Tool: Send + Sync + 'static {
    /// Returns the name by which the model calls the tool: `[A-Za-z0-9_-]{1,64}`.
    fn name(&self) -> &str;

    /// Returns the description for the model: what the tool does and when to use it.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of the arguments, an object schema.
    fn parameters(&self) -> &Value;

    /// Returns the kind of effect that a call has. Defaults to [`SideEffect::Mutating`]. Plan mode
    /// permits only tools that are read-only.
    fn side_effect(&self) -> SideEffect {
        SideEffect::Mutating
    }

    /// Returns [`Concurrency::Exclusive`] if a call must not run at the same time as other calls of
    /// its turn. Defaults to [`Concurrency::Parallel`].
    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel
    }

    /// Returns the time that a call may run without progress. Defaults to `None`, which is
    /// [`AgentBuilder::tool_timeout`](crate::AgentBuilder::tool_timeout).
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns `true` if a call may be executed twice without harm. Defaults to `false`.
    ///
    /// Calls of an idempotent tool may be executed again in two cases:
    ///
    /// * A hook calls [`Next::run`](crate::Next::run) a second time.
    /// * The run ended before the call's result was stored, and the session continues. A call that
    ///   had not begun is not executed then. The start of a read-only call is not stored, so such a
    ///   call is executed in any case.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// Returns `true` if calls of the tool start or control agents. Subagents do not have such
    /// tools, unless their definition lists them. Defaults to `false`.
    fn starts_agents(&self) -> bool {
        false
    }

    /// Returns the names of the agents that calls of the tool can start, for the `system/init`
    /// message of a run. Defaults to none.
    fn agents(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Returns the accesses of a call with these arguments: the files, commands, URLs and agents
    /// that permission rules check. Defaults to none.
    ///
    /// Without accesses, [`PermissionRules`](crate::permission::PermissionRules) take arguments
    /// with well-known names, such as `path`, `command` and `url`, as accesses. If the name of the
    /// tool is not one that they know, rules to deny and to ask are also compared with every other
    /// text in the arguments, and a rule allows the call only if it names the tool.
    fn accesses(&self, _args: &Value) -> Vec<Access> {
        Vec::new()
    }

    /// Returns the shell that runs the commands among the accesses. Permission rules parse the
    /// commands by the grammar of this shell. Defaults to [`Shell::Posix`].
    fn shell(&self) -> Shell {
        Shell::default()
    }

    /// Executes a call. The loop has checked `args` against [`parameters`](Tool::parameters).
    ///
    /// # Errors
    ///
    /// An error becomes an error result that the model reads; it never ends the run.
    ///
    /// # Panics
    ///
    /// A panic is caught and becomes an error result as well.
    async fn execute(&self, cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError>;
}

macro_rules! forward {
    ($pointer:ident) => {
        #[async_trait]
        impl<T: Tool + ?Sized> Tool for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn description(&self) -> &str {
                (**self).description()
            }

            fn parameters(&self) -> &Value {
                (**self).parameters()
            }

            fn side_effect(&self) -> SideEffect {
                (**self).side_effect()
            }

            fn concurrency(&self) -> Concurrency {
                (**self).concurrency()
            }

            fn timeout(&self) -> Option<Duration> {
                (**self).timeout()
            }

            fn is_idempotent(&self) -> bool {
                (**self).is_idempotent()
            }

            fn starts_agents(&self) -> bool {
                (**self).starts_agents()
            }

            fn agents(&self) -> Vec<Arc<str>> {
                (**self).agents()
            }

            fn accesses(&self, args: &Value) -> Vec<Access> {
                (**self).accesses(args)
            }

            fn shell(&self) -> Shell {
                (**self).shell()
            }

            async fn execute(&self, cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
                (**self).execute(cx, args).await
            }
        }
    };
}

forward!(Arc);
forward!(Box);
