//! The chain of hooks around a call, and [`Next`], which runs the remaining ones.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Messages, ToolCall, ToolResult, ValidationError};
use crate::model::{ModelRequest, ModelResponse};
use crate::run::RunContext;

use super::guard::{RunsInProgress, guard_wrapping};
use super::hook::Hook;
use super::phases::Phases;

/// The step that a wrapping phase wraps: a [`ModelRequest`] or a [`ToolCall`]. This trait is
/// sealed.
pub trait Step: sealed::Sealed + Sized + Send + 'static {
    /// The result of the step.
    type Output: Send + 'static;
    /// The phase that wraps the step.
    #[doc(hidden)]
    const PHASE: Phases;

    #[doc(hidden)]
    fn enter(self, hook: &dyn Hook, next: Next<Self>) -> BoxFuture<'_, Result<Self::Output>>;

    /// Returns the messages that a model receives with this step.
    #[doc(hidden)]
    fn sent_messages(&self) -> Option<&Messages> {
        None
    }
}

impl Step for ModelRequest {
    type Output = ModelResponse;
    const PHASE: Phases = Phases::WRAP_MODEL_CALL;

    fn enter(self, hook: &dyn Hook, next: Next<Self>) -> BoxFuture<'_, Result<ModelResponse>> {
        hook.wrap_model_call(self, next)
    }

    fn sent_messages(&self) -> Option<&Messages> {
        Some(&self.messages)
    }
}

impl Step for ToolCall {
    type Output = ToolResult;
    const PHASE: Phases = Phases::WRAP_TOOL_CALL;

    fn enter(self, hook: &dyn Hook, next: Next<Self>) -> BoxFuture<'_, Result<ToolResult>> {
        hook.wrap_tool_call(self, next)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ModelRequest {}
    impl Sealed for super::ToolCall {}
}

/// The innermost step: the call itself.
pub(crate) type Core<T> =
    Arc<dyn Fn(RunContext, T) -> BoxFuture<'static, Result<<T as Step>::Output>> + Send + Sync>;

/// Hooks around an innermost step, for one run.
pub(crate) struct HookChain<T: Step> {
    /// The hooks that take part in the phase, outermost first.
    pub(crate) hooks: Arc<[Arc<dyn Hook>]>,
    pub(crate) context: RunContext,
    pub(crate) core: Core<T>,
    /// True if a hook may run the inner steps twice.
    pub(crate) is_repeatable: bool,
}

impl<T: Step> HookChain<T> {
    /// Runs the hooks around the core, or the core alone if there are no hooks.
    pub(crate) fn run(self, step: T) -> BoxFuture<'static, Result<T::Output>> {
        if self.hooks.is_empty() {
            return (self.core)(self.context, step);
        }
        let next = Next {
            chain: Arc::new(self),
            hook_use: Arc::default(),
            depth: 0,
            received: None,
        };
        Box::pin(async move { next.run(step).await })
    }
}

/// The inner hooks and the call itself. Owned and cloneable: it can be moved into tasks, raced,
/// limited by a timeout, and run again.
///
/// ```
/// use std::time::Duration;
///
/// use agentcore::{Error, hook};
///
/// let impatient = hook::wrap_model_call("impatient", |request, next| async move {
///     match tokio::time::timeout(Duration::from_secs(60), next.run(request.clone())).await {
///         Ok(response) => response,
///         Err(_) => next.run(request.with_max_output_tokens(200)).await,
///     }
/// });
/// # let _ = impatient;
/// ```
pub struct Next<T: Step> {
    chain: Arc<HookChain<T>>,
    hook_use: Arc<HookUse>,
    /// The index of the hook that [`run`](Self::run) enters. The hook before it received this
    /// `Next`.
    depth: usize,
    /// The messages that the hook received, which are valid for a model. `None` in the outermost
    /// `Next`, which no hook received, and around a tool call.
    received: Option<Messages>,
}

/// The state of one hook's use of its `Next`.
#[derive(Default)]
struct HookUse {
    /// The number of calls of [`Next::run`] so far.
    runs: AtomicU32,
    runs_in_progress: RunsInProgress,
}

impl<T: Step> Next<T> {
    /// Runs `step` through the inner hooks, then the call itself.
    ///
    /// # Errors
    ///
    /// Returns the error of an inner hook or of the call, and [`ErrorKind::Hook`]
    ///
    /// * if a tool call is run a second time and its tool is not idempotent;
    /// * if the messages of a request were changed and do not pass
    ///   [`Messages::validate_for_model`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the inner hooks and the call.
    pub async fn run(&self, step: T) -> Result<T::Output> {
        let is_repeated = self.hook_use.runs.fetch_add(1, Ordering::Relaxed) > 0;
        if is_repeated && !self.chain.is_repeatable {
            return Err(self.refuse_repeat());
        }
        self.check_messages(&step)?;

        let _run = self.hook_use.runs_in_progress.enter();
        let Some(hook) = self.chain.hooks.get(self.depth) else {
            let output = (self.chain.core)(self.chain.context.clone(), step).await;
            // The error of the call is not attributed to the hooks that pass it on.
            return output.map_err(Error::attributed);
        };

        let hook_use = Arc::<HookUse>::default();
        let next = Self {
            chain: self.chain.clone(),
            hook_use: hook_use.clone(),
            depth: self.depth + 1,
            received: step.sent_messages().cloned(),
        };

        let future = step.enter(&**hook, next);
        let runs_in_progress = Some(&hook_use.runs_in_progress);
        guard_wrapping(
            &self.chain.context,
            &**hook,
            T::PHASE,
            runs_in_progress,
            future,
        )
        .await
    }

    /// Returns the context of the run. It stays usable after [`run`](Self::run).
    pub fn context(&self) -> &RunContext {
        &self.chain.context
    }

    /// Checks the messages of `step`, unless they are those that the hook received.
    fn check_messages(&self, step: &T) -> Result<()> {
        let (Some(received), Some(messages)) = (&self.received, step.sent_messages()) else {
            return Ok(());
        };
        let shared_count = received.shared_prefix(messages);
        if shared_count == received.len() && shared_count == messages.len() {
            return Ok(());
        }
        messages
            .validate_for_model()
            .map_err(|problem| self.refuse_messages(problem))
    }

    /// Returns the name of the hook that received this `Next`; empty for the outermost one.
    fn hook_name(&self) -> &str {
        match self.depth.checked_sub(1) {
            Some(index) => self.chain.hooks[index].name(),
            None => "",
        }
    }

    fn refuse_messages(&self, problem: ValidationError) -> Error {
        let text = format!(
            "hook `{}` passed messages to Next::run that are not valid for a model: {problem}",
            self.hook_name()
        );
        Error::new(ErrorKind::Hook, text)
            .with_source(problem)
            .attributed()
    }

    fn refuse_repeat(&self) -> Error {
        let name = self.hook_name();
        Error::new(
            ErrorKind::Hook,
            format!(
                "hook `{name}` ran a tool call twice, but the tool is not idempotent; \
                 let `Tool::is_idempotent` return true if repeating it does no harm"
            ),
        )
        .attributed()
    }
}

impl<T: Step> Clone for Next<T> {
    fn clone(&self) -> Self {
        Self {
            chain: self.chain.clone(),
            hook_use: self.hook_use.clone(),
            depth: self.depth,
            received: self.received.clone(),
        }
    }
}

impl<T: Step> fmt::Debug for Next<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field(
                "hooks_left",
                &(self.chain.hooks.len().saturating_sub(self.depth)),
            )
            .finish_non_exhaustive()
    }
}
