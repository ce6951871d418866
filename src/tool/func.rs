//! Tools made from closures.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::backend::Shell;
use crate::error::BoxError;

use super::access::{Access, Concurrency, SideEffect};
use super::context::ToolContext;
use super::output::{IntoToolResult, ToolOutput};
use super::tool::Tool;

type Body = Box<
    dyn Fn(ToolContext, Value) -> BoxFuture<'static, Result<ToolOutput, BoxError>> + Send + Sync,
>;
type Accesses = Box<dyn Fn(&Value) -> Vec<Access> + Send + Sync>;

/// A tool made from a closure.
///
/// The closure may return any type with [`IntoToolResult`]: a `String`, a `&str`, a [`Value`],
/// [`Json`](super::Json), a [`Content`](crate::Content), a [`ToolOutput`], `()`, which the model
/// reads as `done`, or a `Result` of one of these whose error is [`BoxError`], so that `?` works on
/// any error.
///
/// ```
/// use agentcore::FuncTool;
/// use agentcore::tool::SideEffect;
/// use serde_json::json;
///
/// let read = FuncTool::new(
///     "read_note",
///     "Reads a note by its number",
///     json!({
///         "type": "object",
///         "properties": {"number": {"type": "integer", "minimum": 1}},
///         "required": ["number"],
///     }),
///     |_cx, args| async move {
///         let number = args["number"].as_u64().unwrap_or_default();
///         Ok(std::fs::read_to_string(format!("notes/{number}.txt"))?)
///     },
/// )
/// .side_effect(SideEffect::ReadOnly)
/// .idempotent();
/// ```
///
/// A tool fails by returning an `Err`: any error with `?`, or a text. The model reads `Error: ` and
/// the text, and the run continues.
///
/// ```
/// use agentcore::{FuncTool, Tool, ToolContext};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::BoxError> {
/// let parameters = json!({
///     "type": "object",
///     "properties": {"number": {"type": "string"}},
///     "required": ["number"],
/// });
/// let half = FuncTool::new("half", "Halves a number", parameters, |_cx, args| async move {
///     let number: i64 = args["number"].as_str().unwrap_or_default().parse()?;
///     if number % 2 != 0 {
///         return Err("the number is odd".into());
///     }
///     Ok((number / 2).to_string())
/// });
/// let odd = half.execute(ToolContext::detached(), json!({"number": "7"})).await;
/// assert_eq!(odd.unwrap_err().to_string(), "the number is odd");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct FuncTool {
    name: String,
    description: String,
    parameters: Value,
    body: Body,
    side_effect: SideEffect,
    concurrency: Concurrency,
    timeout: Option<Duration>,
    idempotent: bool,
    starts_agents: bool,
    agents: Vec<Arc<str>>,
    accesses: Option<Accesses>,
    shell: Shell,
}

impl FuncTool {
    /// Creates a tool from a closure that receives its arguments as JSON.
    ///
    /// `parameters` is the JSON Schema of the arguments, an object schema. The loop checks
    /// arguments against it before it calls `f`. A name or a schema that is invalid is an error of
    /// [`AgentBuilder::build`](crate::AgentBuilder::build).
    pub fn new<F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        f: F,
    ) -> Self
    where
        F: Fn(ToolContext, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolResult> + Send + 'static,
    {
        let body = move |cx, args| f(cx, args).map(IntoToolResult::into_tool_result).boxed();
        Self::from_body(name.into(), description.into(), parameters, Box::new(body))
    }

    fn from_body(name: String, description: String, parameters: Value, body: Body) -> Self {
        Self {
            name,
            description,
            parameters,
            body,
            side_effect: SideEffect::Mutating,
            concurrency: Concurrency::Parallel,
            timeout: None,
            idempotent: false,
            starts_agents: false,
            agents: Vec::new(),
            accesses: None,
            shell: Shell::default(),
        }
    }

    /// Sets the side effect. Defaults to [`SideEffect::Mutating`].
    #[must_use]
    pub fn side_effect(mut self, side_effect: SideEffect) -> Self {
        self.side_effect = side_effect;
        self
    }

    /// Sets whether calls may run in parallel with other calls of the turn. Defaults to
    /// [`Concurrency::Parallel`].
    #[must_use]
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Makes each call run alone, not in parallel with other calls of the turn.
    #[must_use]
    pub fn exclusive(self) -> Self {
        self.concurrency(Concurrency::Exclusive)
    }

    /// Sets the time a call may run without progress. Defaults to
    /// [`AgentBuilder::tool_timeout`](crate::AgentBuilder::tool_timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Marks the tool's calls as safe to execute twice; see [`Tool::is_idempotent`].
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Marks the tool as one whose calls start or control agents; see [`Tool::starts_agents`].
    #[must_use]
    pub fn starting_agents(mut self) -> Self {
        self.starts_agents = true;
        self
    }

    /// Sets the names of the agents that its calls can start.
    pub(crate) fn agents_named(mut self, names: impl IntoIterator<Item = Arc<str>>) -> Self {
        self.agents = names.into_iter().collect();
        self
    }

    /// Marks the tool as one whose calls start an agent. The argument `argument` names the agent,
    /// also for permission rules.
    pub(crate) fn starting_agent_of(self, argument: &'static str) -> Self {
        self.starting_agents().accesses(move |args| {
            let name = args[argument].as_str();
            let access = name.map(|name| Access::Agent(name.into()));
            access.into_iter().collect()
        })
    }

    /// Sets the function that returns the accesses of a call from its arguments, for permission
    /// rules. Defaults to none.
    ///
    /// ```
    /// use agentcore::FuncTool;
    /// use agentcore::tool::Access;
    /// use serde_json::json;
    ///
    /// let parameters = json!({
    ///     "type": "object",
    ///     "properties": {"path": {"type": "string"}},
    ///     "required": ["path"],
    /// });
    /// let tool = FuncTool::new("show", "Shows a file", parameters, |_, _| async { "" })
    ///     .accesses(|args| match args["path"].as_str() {
    ///         Some(path) => vec![Access::Read(path.into())],
    ///         None => vec![],
    ///     });
    /// ```
    #[must_use]
    pub fn accesses(mut self, f: impl Fn(&Value) -> Vec<Access> + Send + Sync + 'static) -> Self {
        self.accesses = Some(Box::new(f));
        self
    }

    /// Sets the shell that runs the commands of calls, for permission rules. [`Shell::Posix`] by
    /// default: a command with syntax that only bash has then needs an answer.
    #[must_use]
    pub fn shell(mut self, shell: Shell) -> Self {
        self.shell = shell;
        self
    }
}

#[cfg(feature = "schema")]
mod typed {
    use futures::FutureExt;
    use futures::future::ready;
    use schemars::JsonSchema;
    use serde::de::DeserializeOwned;

    use super::super::typed::{decode, schema_of};
    use super::{BoxError, FuncTool, Future, IntoToolResult, ToolContext};

    impl FuncTool {
        /// Creates a tool from a closure with typed arguments, whose schema is derived from their
        /// type.
        ///
        /// A field's doc comment becomes its description. A type without fields, such as `()`,
        /// makes a tool without arguments. For arguments that do not match the type, the model
        /// reads an error that names the position of the mismatch. For progress, state or
        /// cancellation use [`typed_with_context`](Self::typed_with_context).
        ///
        /// The derive needs the name `schemars` in scope, as below, or
        /// `#[schemars(crate = "agentcore::schemars")]` on the type.
        ///
        /// ```
        /// use agentcore::{FuncTool, Tool, ToolContext, schemars, schemars::JsonSchema};
        /// use serde::Deserialize;
        ///
        /// #[derive(Deserialize, JsonSchema)]
        /// struct Greet {
        ///     /// Whom to greet.
        ///     name: String,
        /// }
        ///
        /// # async fn example() -> Result<(), agentcore::BoxError> {
        /// let greet = FuncTool::typed("greet", "Greets somebody", |args: Greet| async move {
        ///     format!("Hello {}", args.name)
        /// });
        /// let output = greet
        ///     .execute(ToolContext::detached(), serde_json::json!({"name": "World"}))
        ///     .await?;
        /// assert_eq!(output.content.text(), "Hello World");
        /// # Ok(())
        /// # }
        /// ```
        pub fn typed<A, F, Fut>(
            name: impl Into<String>,
            description: impl Into<String>,
            f: F,
        ) -> Self
        where
            A: DeserializeOwned + JsonSchema,
            F: Fn(A) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: IntoToolResult> + Send + 'static,
        {
            Self::typed_with_context(name, description, move |_cx, args| f(args))
        }

        /// Like [`typed`](Self::typed), for closures that need the [`ToolContext`]: progress,
        /// state, questions, cancellation.
        ///
        /// ```
        /// use agentcore::schemars::JsonSchema;
        /// use agentcore::{FuncTool, Tool, ToolContext};
        /// use serde::Deserialize;
        /// use serde_json::json;
        ///
        /// #[derive(Deserialize, JsonSchema)]
        /// #[schemars(crate = "agentcore::schemars")]
        /// struct Copy {
        ///     files: Vec<String>,
        /// }
        ///
        /// # async fn example() -> Result<(), agentcore::BoxError> {
        /// let copy = FuncTool::typed_with_context("copy", "Copies", |cx, args: Copy| async move {
        ///     for (done, file) in args.files.iter().enumerate() {
        ///         cx.progress(json!({"file": file, "done": done})).await;
        ///     }
        ///     format!("{} files copied", args.files.len())
        /// });
        /// let args = json!({"files": ["a", "b"]});
        /// let output = copy.execute(ToolContext::detached(), args).await?;
        /// assert_eq!(output.content.text(), "2 files copied");
        /// # Ok(())
        /// # }
        /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
        /// ```
        pub fn typed_with_context<A, F, Fut>(
            name: impl Into<String>,
            description: impl Into<String>,
            f: F,
        ) -> Self
        where
            A: DeserializeOwned + JsonSchema,
            F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: IntoToolResult> + Send + 'static,
        {
            let body = move |cx, args| match decode::<A>(&args) {
                Ok(args) => f(cx, args).map(IntoToolResult::into_tool_result).boxed(),
                Err(error) => ready(Err(BoxError::from(error))).boxed(),
            };
            let schema = schema_of::<A>();
            Self::from_body(name.into(), description.into(), schema, Box::new(body))
        }
    }
}

impl Tool for FuncTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters(&self) -> &Value {
        &self.parameters
    }

    fn side_effect(&self) -> SideEffect {
        self.side_effect
    }

    fn concurrency(&self) -> Concurrency {
        self.concurrency
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn starts_agents(&self) -> bool {
        self.starts_agents
    }

    fn agents(&self) -> Vec<Arc<str>> {
        self.agents.clone()
    }

    fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    fn accesses(&self, args: &Value) -> Vec<Access> {
        self.accesses.as_ref().map_or_else(Vec::new, |f| f(args))
    }

    fn shell(&self) -> Shell {
        self.shell
    }

    // Written by hand: `async_trait` would box the closure's boxed future again.
    fn execute<'a: 'b, 'b>(
        &'a self,
        cx: ToolContext,
        args: Value,
    ) -> BoxFuture<'b, Result<ToolOutput, BoxError>>
    where
        Self: 'b,
    {
        (self.body)(cx, args)
    }
}

impl fmt::Debug for FuncTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuncTool")
            .field("name", &self.name)
            .field("side_effect", &self.side_effect)
            .field("concurrency", &self.concurrency)
            .field("timeout", &self.timeout)
            .field("idempotent", &self.idempotent)
            .finish_non_exhaustive()
    }
}
