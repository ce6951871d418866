//! The builder of an agent.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::backend::Backend;
use crate::engine::{
    self, Config, Hooks, Limits, LiveRuns, OnUnanswered, RequestOptions, UnfinishedTasks,
    store_or_default,
};
use crate::error::Result;
use crate::hook::Hook;
use crate::message::TokenCounter;
use crate::model::retry::RetryPolicy;
use crate::model::{self, Compactor, HostedTool, Model, ModelSettings, Prompter, SystemPrompt};
use crate::run::{GrantedQuestions, RunSettings, check_wrapping_hooks};
use crate::session::{SessionStore, ThreadStore};
use crate::tool::{
    Confirmer, Gates, PermissionGate, PermissionMode, Tool, ToolRegistry, ToolSource,
};
use crate::trace::{Redacting, TraceRecorder};

use super::agent::Agent;

/// Builds an [`Agent`].
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, FuncTool};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let clock = FuncTool::new("clock", "The time", json!({"type": "object"}), |_cx, _args| async {
///     "noon"
/// });
/// let model = ScriptedModel::new().call("clock", json!({})).say("It is noon.");
/// let agent = AgentBuilder::new(model).system_prompt("Be brief.").tool(clock).build()?;
/// assert_eq!(agent.run("What time is it?").await?.text, "It is noon.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// A clone builds another agent with the same parts: both agents share the gates, hooks and stores
/// that were added. An answer for the rest of a session
/// ([`Answer::AllowForSession`](crate::Answer::AllowForSession)) applies only to the agent that
/// asked, unless a gate stores it: then it applies to all agents that share the gate.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build()`"]
pub struct AgentBuilder {
    pub(super) settings: RunSettings,
    prompter: Arc<dyn Prompter>,
    pub(super) tools: Vec<Arc<dyn Tool>>,
    pub(super) disabled_tools: BTreeSet<Arc<str>>,
    /// The names of the tools of the run from which the builder was made. Rules of hooks may name
    /// these tools, too.
    pub(super) run_tools: Vec<Arc<str>>,
    pub(super) sources: Vec<Arc<dyn ToolSource>>,
    pub(super) hooks: Vec<Arc<dyn Hook>>,
    pub(super) store: Option<Arc<dyn SessionStore>>,
    /// The default store of the agent whose run the builder was made from.
    pub(super) default_store: Option<ThreadStore>,
    pub(super) compactor: Option<Arc<dyn Compactor>>,
    pub(super) limits: Limits,
    pub(super) request: RequestOptions,
}

impl AgentBuilder {
    /// Creates a builder for an agent that calls `model`, which may also be an `Arc` or a `Box` of
    /// a model.
    pub fn new(model: impl Model) -> Self {
        Self {
            settings: RunSettings::new(model::erase(model)),
            prompter: Arc::new(model::StaticPrompt::default()),
            tools: Vec::new(),
            disabled_tools: BTreeSet::new(),
            run_tools: Vec::new(),
            sources: Vec::new(),
            hooks: Vec::new(),
            store: None,
            default_store: None,
            compactor: None,
            limits: Limits::default(),
            request: RequestOptions::default(),
        }
    }

    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind
    ///
    /// * [`ErrorKind::Config`](crate::ErrorKind::Config)
    ///   * if two tools have the same name;
    ///   * if the budget in USD or the temperature is negative, infinite or not a number;
    ///   * if there is a budget in USD, and the price of the model is unknown;
    ///   * if a gate or a hook refuses the names of the tools or its own configuration
    ///     ([`PermissionGate::check_tools`], [`Hook::check_tools`]): for example, a permission rule
    ///     to deny or to ask names a tool that the agent does not have;
    ///   * if more than 96 hooks wrap a call.
    /// * [`ErrorKind::Tool`](crate::ErrorKind::Tool) if a tool's name is not `[A-Za-z0-9_-]{1,64}`
    ///   or its parameters are not an object schema.
    pub fn build(mut self) -> Result<Agent> {
        self.check()?;
        let memory_paths = self.hooks.iter().flat_map(|hook| hook.memory_paths());
        self.settings.memory_paths = memory_paths.collect();
        // Not shared with an agent that a clone of this builder makes.
        self.settings.granted_questions = GrantedQuestions::default();
        let find_in_hooks = || self.hooks.iter().rev().find_map(|hook| hook.compactor());
        let compactor = self.compactor.or_else(find_in_hooks);
        let hooks = Hooks::new(self.hooks);
        check_wrapping_hooks(hooks.most_wrapping())?;
        let (store, default_store) = store_or_default(self.store, self.default_store);
        Ok(Agent::new(Config {
            live: LiveRuns::default(),
            settings: Arc::new(self.settings),
            prompter: self.prompter,
            tools: self.tools,
            disabled_tools: self.disabled_tools,
            own_tools: OnceLock::new(),
            sources: self.sources,
            hooks,
            model_core: engine::model_core(),
            store,
            default_store,
            compactor,
            limits: self.limits,
            request: self.request,
        }))
    }
}

/// # Model and prompt
impl AgentBuilder {
    /// Sets the agent's name, for messages and traces. Defaults to `agent`.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.settings.agent = name.into();
        self
    }

    /// Sets a fixed system prompt. Replaces a [`prompter`](Self::prompter).
    pub fn system_prompt(self, prompt: impl Into<SystemPrompt>) -> Self {
        self.prompter(model::StaticPrompt::new(prompt))
    }

    /// Sets the prompter, which assembles the system prompt at the start of every run. Replaces a
    /// [`system_prompt`](Self::system_prompt).
    pub fn prompter(mut self, prompter: impl Prompter) -> Self {
        self.prompter = Arc::new(prompter);
        self
    }

    /// Sets the working directory that messages and prompts name, and that new sessions store for
    /// [`Agent::latest_session`]. Defaults to none.
    pub fn cwd(mut self, cwd: impl Into<Arc<str>>) -> Self {
        self.settings.cwd = Some(cwd.into());
        self
    }

    /// Sets the settings that not every model supports. Defaults to the provider's.
    pub fn model_settings(mut self, settings: ModelSettings) -> Self {
        self.request.settings = settings;
        self
    }

    /// Sets the maximum number of tokens of one response. The default depends on the server. It is
    /// the model's limit at Anthropic's API, and at OpenAI's own server for models of the built-in
    /// table. Other servers use their own limit, unless the model's builder sets one.
    pub fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.request.max_output_tokens = Some(tokens);
        self
    }

    /// Sets the sampling temperature, at least 0. Defaults to the provider's.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.request.temperature = Some(temperature);
        self
    }

    /// Sets the sequences that end a response, replacing those set before. Defaults to none.
    pub fn stop_sequences<S: Into<String>>(mut self, stop: impl IntoIterator<Item = S>) -> Self {
        self.request.stop = stop.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the retry policy of failed model calls. Defaults to [`RetryPolicy::default`]: three
    /// retries, after random waits of at most 0.5, 1 and 2 seconds, or after the server's
    /// `retry-after` of up to a minute.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = policy;
        self
    }

    /// Sets the token counter, which estimates counts that the provider has not reported. A
    /// compactor, hooks that shorten requests, and limits on tokens or money use it. Histories of
    /// more than 256 KiB are counted on the runtime's threads for blocking work. Defaults to
    /// [`EstimateCounter`](crate::message::EstimateCounter).
    pub fn token_counter(mut self, counter: impl TokenCounter + 'static) -> Self {
        self.settings.counter = Arc::new(counter);
        self
    }
}

/// # Tools and hooks
impl AgentBuilder {
    /// Adds a tool. If a hook registers a tool of the same name, the hook's tool is used, and the
    /// run emits a warning.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools.
    pub fn tools<T: Tool>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        let tools = tools
            .into_iter()
            .map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        self.tools.extend(tools);
        self
    }

    /// Adds the tools of a registry. Calls of its disabled tools are refused. Calls of its allowed
    /// tools need no question of the permission mode; rules and hooks can still ask or deny.
    pub fn registry(mut self, registry: &ToolRegistry) -> Self {
        self.tools.extend(registry.tools());
        self.disabled_tools
            .extend(registry.disabled().map(Arc::from));
        self.settings
            .allowed_tools
            .extend(registry.allowed().map(Arc::from));
        self
    }

    /// Adds a source of tools that may change during a run. It is asked when a run begins and
    /// before each turn. Its tools that have the name of a tool of the agent or of a hook are
    /// omitted, with a warning, and so are tools that providers would refuse.
    pub fn tool_source(mut self, source: impl ToolSource) -> Self {
        self.sources.push(Arc::new(source));
        self
    }

    /// Adds a tool that the provider runs itself, such as a web search. Calls of it are part of the
    /// response: no permission is asked and no hook of a tool call runs.
    pub fn hosted_tool(mut self, tool: HostedTool) -> Self {
        let tools = self.request.hosted_tools.iter().cloned();
        self.request.hosted_tools = tools.chain([tool]).collect();
        self
    }

    /// Adds a hook, inside the hooks added before. At most 96 hooks may wrap a model call, and at
    /// most 96 a tool call. The calls of a subagent run inside a call of its parent run. So for a
    /// subagent, the larger of its two numbers is added to the larger one of each parent run, and
    /// the sum may be at most 96.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Adds hooks, in order.
    pub fn hooks<H: Hook>(mut self, hooks: impl IntoIterator<Item = H>) -> Self {
        let hooks = hooks
            .into_iter()
            .map(|hook| Arc::new(hook) as Arc<dyn Hook>);
        self.hooks.extend(hooks);
        self
    }

    /// Sets the backend that stores files and runs commands, for hooks and for tools that use
    /// [`ToolContext::backend`](crate::ToolContext::backend). The tools of a preset use the backend
    /// that the preset was created with. Defaults to none.
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.settings.backend = Some(Arc::new(backend));
        self
    }

    /// Sets the handling of background tasks that have not ended when the model's response has no
    /// more calls. Defaults to ending them with the run.
    pub fn unfinished_tasks(mut self, unfinished: UnfinishedTasks) -> Self {
        self.limits.unfinished_tasks = unfinished;
        self
    }
}

/// # Permissions and questions
impl AgentBuilder {
    /// Sets the permission gate, which decides whether a call may run, such as
    /// [`PermissionRules`](crate::permission::PermissionRules). Defaults to
    /// [`AllowAll`](crate::tool::AllowAll): every call runs, unless a hook asks or denies, or the
    /// [mode](Self::permission_mode) is [`Plan`](PermissionMode::Plan).
    pub fn permissions(mut self, gate: impl PermissionGate) -> Self {
        self.settings.gates = Gates::one(gate);
        self
    }

    /// Sets the permission mode: the decision of gates such as
    /// [`PermissionRules`](crate::permission::PermissionRules) about calls that no rule covers.
    /// With the default gate, only [`Plan`](PermissionMode::Plan) and, for the questions of hooks,
    /// [`DontAsk`](PermissionMode::DontAsk) have an effect. Defaults to
    /// [`PermissionMode::Default`].
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// Sets the confirmer, which answers questions before any responder is asked. Defaults to none.
    pub fn confirmer(mut self, confirmer: impl Confirmer) -> Self {
        self.settings.confirmer = Some(Arc::new(confirmer));
        self
    }

    /// Sets the time that a run waits for the answer to a question. After it, the question counts
    /// as [unanswered](Self::unanswered). Defaults to no limit.
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.settings.ask_timeout = Some(timeout);
        self
    }

    /// Sets the handling of a question that cannot be answered: the
    /// [confirmer](Self::confirmer) does not answer it, and neither the run nor a parent run has a
    /// [`Responder`](crate::Responder), or the [time for it](Self::ask_timeout) is over. Defaults
    /// to denying the call.
    pub fn unanswered(mut self, unanswered: OnUnanswered) -> Self {
        self.limits.unanswered = unanswered;
        self
    }

    /// Sets the time within which a pending call ([`OnUnanswered::Park`]) can be decided. After
    /// it, the call can only be denied. Defaults to no limit; a server limits it to 24 hours. A
    /// [`ThreadStore`](crate::ThreadStore) drops the session of a call without an expiry like any
    /// other, after its time to live.
    pub fn approval_expiry(mut self, expiry: Duration) -> Self {
        self.limits.approval_expiry = Some(expiry);
        self
    }

    /// Sets the [`approval_expiry`](Self::approval_expiry) to `max` if there is none or a longer
    /// one.
    #[cfg(feature = "server")]
    pub(crate) fn approval_expiry_at_most(self, max: Duration) -> Self {
        let expiry = self.limits.approval_expiry;
        self.approval_expiry(expiry.map_or(max, |expiry| expiry.min(max)))
    }
}

/// # Sessions and histories
impl AgentBuilder {
    /// Sets the store of all sessions. Defaults to a [`ThreadStore`](crate::ThreadStore) that
    /// stores sessions in memory for an hour after their last use, at most 1,000 sessions and 64
    /// MiB. Beyond that it drops the least recently used sessions. The session of [`Agent::run`] is
    /// not stored in it, unless calls wait for approval.
    pub fn store(mut self, store: impl SessionStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the compactor, which summarizes the beginning of a long history. Defaults to the
    /// compactor of the last hook that provides one. Without a compactor, histories are not
    /// shortened.
    ///
    /// Near its limit, a model that can count tokens is asked for the exact number; see
    /// [`Compactor`](crate::model::Compactor#exact-counts).
    pub fn compactor(mut self, compactor: impl Compactor) -> Self {
        self.compactor = Some(Arc::new(compactor));
        self
    }

    /// Sets whether an input that the model refused stays in the history, with the response.
    /// Defaults to `false`, because the provider would refuse the input again in the next request.
    pub fn keep_refused(mut self, keep: bool) -> Self {
        self.request.keep_refused = keep;
        self
    }

    /// Sets whether the text of a partial response stays in the history: of a response that is
    /// incomplete because the run was stopped, or because a limit of
    /// [`response_limits`](Self::response_limits) or
    /// [`max_history_bytes`](Self::max_history_bytes) was exceeded. Defaults to `true`.
    pub fn keep_interrupted(mut self, keep: bool) -> Self {
        self.request.keep_interrupted = keep;
        self
    }
}

/// # Stream and spans
impl AgentBuilder {
    /// Sets whether the stream has `stream_event` messages: the pieces of a response as they
    /// arrive. Defaults to `false`.
    ///
    /// A block ends when the next one begins, so the arguments of calls that a model streams at the
    /// same time may be incomplete there. The `assistant` message has each call whole.
    pub fn include_partial_messages(mut self, include: bool) -> Self {
        self.settings.partial_messages = include;
        self
    }

    /// Sets the recorder of the spans of hooks such as [`TracingHook`](crate::hooks::TracingHook).
    /// The loop itself records no spans. Defaults to none.
    pub fn trace_recorder(mut self, recorder: impl TraceRecorder) -> Self {
        self.settings.trace = Some(Arc::new(Redacting(recorder)));
        self
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("name", &self.settings.agent)
            .field("model", &self.settings.model.id())
            .field("tools", &self.tools.len())
            .field("hooks", &self.hooks.len())
            .finish_non_exhaustive()
    }
}
