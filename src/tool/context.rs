//! The context of a tool call in its run.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use serde_json::Value;

use crate::backend::{Backend, DeniedPath, PathFilter};
use crate::message::ToolCall;
use crate::model::Model;
use crate::sdk::{Choices, SdkMessage};
use crate::util::{Cancellation, Values};

use super::asking::Asking;
use super::detached::Detached;
use super::gate::Answer;
use super::load::LoadPermit;
use super::permission_mode::PermissionMode;
use super::tasks::BackgroundTasks;
use super::turn_tools::TurnTools;
use super::view::{StateView, view_once};

/// The form of the answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnswerForm {
    /// Yes or no.
    Permission,
    /// A text.
    Text,
    /// One or several of these options, or a text.
    Choice(Choices),
}

/// The connection of a [`ToolContext`] to its run. One type implements it for a call in a run, and
/// another for a context outside any run.
///
/// It is `Any`, so that a child run can be created from a context: the engine downcasts the host to
/// the call of the parent run, a type that this folder cannot name.
pub(crate) trait ToolHost: Any + Send + Sync {
    fn session_id(&self) -> &Arc<str>;
    fn run_id(&self) -> &str;
    fn progress(&self, data: Value);
    fn forward(&self, message: SdkMessage);
    /// Sends a warning to the reader, unless the run has sent it before.
    fn warn_once(&self, text: &str);
    /// Completes when the reader has taken all messages emitted so far.
    fn drained(&self) -> BoxFuture<'_, ()>;
    fn ask(&self, question: String, form: AnswerForm) -> BoxFuture<'_, Answer>;
    /// Calls `f` on the state, or, if `live` is false, on a copy that is discarded.
    fn with_state(&self, live: bool, f: &mut dyn FnMut(StateView<'_>));
    fn values(&self) -> Values;
    fn user_id(&self) -> Option<Arc<str>>;
    /// Returns the origin of the call's questions.
    fn asking(&self) -> Asking;
    /// Returns the number of parent runs.
    fn depth(&self) -> u32;
    /// Returns `true` if a child run may have children.
    fn can_start_agents_below(&self) -> bool;
    fn model(&self) -> Option<Arc<dyn Model>>;
    fn tools(&self) -> TurnTools;
    fn permission_mode(&self) -> PermissionMode;
    fn backend(&self) -> Option<Arc<dyn Backend>>;
    fn readable(&self) -> PathFilter;
    fn denied_paths(&self) -> Vec<DeniedPath>;
    fn tasks(&self) -> BackgroundTasks;
    /// Returns the limit of the call's result in bytes.
    fn max_result_bytes(&self) -> usize;
    /// Completes when the call may list or search a whole folder. The wait does not count against
    /// the call's timeout.
    fn load_permit(&self) -> BoxFuture<'_, LoadPermit>;
    /// Restarts the timeout of the call.
    fn restart_timeout(&self);
}

/// The context of a tool call: the data of its run, and the connection to the reader and the user.
///
/// It is cheap to clone and `'static`, so that a tool can move a clone into a task. After the call
/// has ended, a clone reports no progress, its questions stay unanswered, and its changes of the
/// state are discarded.
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{Agent, Answer, FuncTool, ToolContext};
/// use serde_json::json;
///
/// struct Tenant(&'static str);
///
/// # async fn example() -> agentcore::Result<()> {
/// let wipe = FuncTool::new(
///     "wipe",
///     "Deletes all data",
///     json!({"type": "object"}),
///     |cx: ToolContext, _args| async move {
///         let tenant = cx.value::<Tenant>().ok_or("there is no tenant")?;
///         match cx.ask(format!("Delete all data of {}?", tenant.0)).await {
///             Answer::Allow => Ok("deleted"),
///             _ => Err("this was not allowed".into()),
///         }
///     },
/// );
/// let model = ScriptedModel::new().call("wipe", json!({})).say("I may not.");
/// let agent = Agent::builder(model).tool(wipe).build()?;
/// // There is neither a confirmer nor a responder, so the question has no answer.
/// let output = agent.new_session().with(Tenant("acme")).run("Delete it").await?;
/// assert_eq!(output.text, "I may not.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct ToolContext {
    host: Arc<dyn ToolHost>,
    call: Arc<ToolCall>,
    /// False once the call has ended.
    is_live: Arc<AtomicBool>,
    cancellation: Cancellation,
}

impl ToolContext {
    /// Creates the context of a call, and the guard to drop when the call has ended.
    pub(crate) fn new(
        host: Arc<dyn ToolHost>,
        call: Arc<ToolCall>,
        cancellation: Cancellation,
    ) -> (Self, LiveGuard) {
        let is_live = Arc::new(AtomicBool::new(true));
        let guard = LiveGuard(is_live.clone());
        let context = Self {
            host,
            call,
            is_live,
            cancellation,
        };
        (context, guard)
    }

    /// Creates a context outside any run, to execute a tool by hand.
    ///
    /// Progress is discarded, questions stay unanswered, and the context has a state of its own.
    ///
    /// ```
    /// use agentcore::{FuncTool, Tool, ToolContext};
    /// use serde_json::json;
    ///
    /// # async fn example() -> Result<(), agentcore::BoxError> {
    /// let parameters = json!({
    ///     "type": "object",
    ///     "properties": {"text": {"type": "string"}},
    ///     "required": ["text"],
    /// });
    /// let echo = FuncTool::new("echo", "Says it again", parameters, |_cx, args| async move {
    ///     Ok(args["text"].clone())
    /// });
    /// let output = echo.execute(ToolContext::detached(), json!({"text": "hi"})).await?;
    /// assert_eq!(output.content.text(), "hi");
    /// # Ok(())
    /// # }
    /// ```
    pub fn detached() -> Self {
        let call = Arc::new(ToolCall::new("detached", "detached", Value::Null));
        Self {
            host: Arc::new(Detached::default()),
            call,
            is_live: Arc::new(AtomicBool::new(true)),
            cancellation: Cancellation::default(),
        }
    }

    /// Returns the call's id.
    pub fn call_id(&self) -> &str {
        &self.call.id
    }

    /// Returns the name by which the tool was called.
    pub fn tool_name(&self) -> &str {
        &self.call.name
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &str {
        self.host.session_id()
    }

    /// Returns the run's id.
    pub fn run_id(&self) -> &str {
        self.host.run_id()
    }

    /// Emits a `tool_progress` message with `data` and restarts the call's timeout. Waits until the
    /// reader has taken all messages emitted so far, so that a tool cannot run ahead of its reader.
    ///
    /// # Cancel safety
    ///
    /// The message is emitted by the first poll. Dropping the future later ends only the wait.
    pub async fn progress(&self, data: impl Into<Value> + Send) {
        if self.is_live() {
            self.host.restart_timeout();
            self.host.progress(data.into());
            self.host.drained().await;
            // The time that a slow reader took does not count against the tool.
            self.host.restart_timeout();
        }
    }

    /// Forwards a message of a run inside this call, such as a subagent's, with
    /// `parent_tool_use_id` set, and waits until the reader has taken it. An `init` becomes a
    /// `task_started` and a `result` a `task_notification`, because a stream has only one `init`
    /// and one `result`.
    ///
    /// # Cancel safety
    ///
    /// The message is emitted by the first poll. Dropping the future later ends only the wait.
    pub async fn forward(&self, message: SdkMessage) {
        if self.is_live() {
            self.host.restart_timeout();
            self.host.forward(message);
            self.host.drained().await;
            self.host.restart_timeout();
        }
    }

    /// Asks the confirmer or a responder a question. The call's timeout does not run meanwhile;
    /// [`AgentBuilder::ask_timeout`](crate::AgentBuilder::ask_timeout) limits the wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the question: a later answer has no effect.
    pub async fn ask(&self, question: impl Into<String>) -> Answer {
        self.ask_for(question.into(), AnswerForm::Permission).await
    }

    /// Asks a question whose answer is a text, [`Answer::Reply`]; otherwise like
    /// [`ask`](Self::ask).
    pub async fn ask_for_text(&self, question: impl Into<String>) -> Answer {
        self.ask_for(question.into(), AnswerForm::Text).await
    }

    /// Asks a question with options to pick from. The answer is an [`Answer::Reply`] with the
    /// positions of the picked options, or with another text. Otherwise like [`ask`](Self::ask).
    pub async fn ask_for_choice(&self, question: impl Into<String>, choices: Choices) -> Answer {
        self.ask_for(question.into(), AnswerForm::Choice(choices))
            .await
    }

    async fn ask_for(&self, question: String, form: AnswerForm) -> Answer {
        if !self.is_live() {
            return Answer::Unanswered;
        }
        self.host.ask(question, form).await
    }

    /// Returns the origin of the call's questions, for a `tools::ask::Interactor`.
    pub fn asking(&self) -> Asking {
        self.host.asking()
    }

    /// Runs `f` on the run's state. Not async, so the lock is never held across an await.
    ///
    /// After the call has ended, `f` receives a copy that is discarded.
    ///
    /// # Panics
    ///
    /// Panics if called inside another `with_state` on the same thread, which would wait for
    /// itself. The same applies to [`value`](Self::value), [`user_id`](Self::user_id) and
    /// [`asking`](Self::asking) inside `f`: call them before, or use [`StateView::values`].
    pub fn with_state<R>(&self, f: impl FnOnce(StateView<'_>) -> R) -> R {
        view_once(f, |f| self.host.with_state(self.is_live(), f))
    }

    /// Returns the value of type `T` that the caller gave to the run, or that a hook or tool
    /// stored.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.host.values().get()
    }

    /// Returns the id of the session's user, if it has one.
    pub fn user_id(&self) -> Option<Arc<str>> {
        self.host.user_id()
    }

    /// Returns the nesting depth of the run: 0 if it has no parent, 1 for a child of such a run.
    pub fn depth(&self) -> u32 {
        self.host.depth()
    }

    /// Sends a warning to the reader of the run, unless the run has sent it before.
    pub(crate) fn warn_once(&self, text: &str) {
        self.host.warn_once(text);
    }

    /// Returns `true` if the depth allows a child of the run to have children.
    pub(crate) fn can_start_agents_below(&self) -> bool {
        self.host.can_start_agents_below()
    }

    /// Returns the model in use; `None` outside any run.
    pub fn model(&self) -> Option<Arc<dyn Model>> {
        self.host.model()
    }

    /// Returns the tools of the current turn; none outside any run.
    pub fn tools(&self) -> TurnTools {
        self.host.tools()
    }

    /// Returns the current permission mode; [`PermissionMode::Default`] outside any run.
    pub fn permission_mode(&self) -> PermissionMode {
        self.host.permission_mode()
    }

    /// Returns the backend that stores files and runs commands, if the agent has one.
    pub fn backend(&self) -> Option<Arc<dyn Backend>> {
        self.host.backend()
    }

    /// Returns the filter for files that the call may show in searches and listings, by the
    /// permissions of the run. A tool that searches or lists omits all other files, and reports the
    /// omission without naming them.
    pub fn readable(&self) -> PathFilter {
        self.host.readable()
    }

    /// Returns the paths that no command of the call may access, by the permissions of the run. A
    /// tool that runs commands passes them to its backend
    /// ([`Command::with_denied`](crate::backend::Command::with_denied)).
    pub fn denied_paths(&self) -> Vec<DeniedPath> {
        self.host.denied_paths()
    }

    /// Returns the background tasks of the run, which outlive the call and its turn, and end with
    /// the run.
    pub fn tasks(&self) -> BackgroundTasks {
        self.host.tasks()
    }

    /// Returns the limit of the call's result in bytes; a longer result is cut. It is the share of
    /// this call in the limit for all calls of a response
    /// ([`max_result_bytes`](crate::AgentBuilder::max_result_bytes)), and [`usize::MAX`] outside
    /// any run. A tool need not load more bytes than this.
    pub fn max_result_bytes(&self) -> usize {
        self.host.max_result_bytes()
    }

    /// Waits until the call may list or search a whole folder.
    #[cfg_attr(not(feature = "tools"), expect(dead_code))]
    pub(crate) async fn load_permit(&self) -> LoadPermit {
        self.host.load_permit().await
    }

    /// Restarts the call's timeout. Use it while a call works and has no progress to report.
    pub fn keep_alive(&self) {
        if self.is_live() {
            self.host.restart_timeout();
        }
    }

    /// Returns a token that is cancelled when the call ends. Pass it to work that the tool spawns.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    pub(crate) fn host(&self) -> &Arc<dyn ToolHost> {
        &self.host
    }

    fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call.id)
            .field("tool_name", &self.call.name)
            .finish_non_exhaustive()
    }
}

/// Ends a call's influence on the run when it is dropped.
pub(crate) struct LiveGuard(Arc<AtomicBool>);

impl Drop for LiveGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
