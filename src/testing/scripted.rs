//! A model that follows a script.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Model, ModelEvent, ModelProfile, ModelRequest, ModelStream};
use crate::usage::Usage;
use crate::util::panic;
use crate::util::sync::lock;

use super::script::Step;

/// A model that follows a script, strictly: each call takes the next step, a call without a step
/// fails, and so does a step without a call.
///
/// Text streams word by word, ids count up (`call_1`, `call_2`, ...), and every request is
/// recorded. Clones are handles to the same script: give one to the agent and keep one. To call the
/// model directly, write `Model::call(&model, request)`, since [`call`](Self::call) adds a step.
///
/// # Panics
///
/// Dropping the last handle panics if the script was not followed: steps are left, there was an
/// unexpected call, or an expectation failed. It does not panic
///
/// * if [`verify`](Self::verify), [`assert_finished`](Self::assert_finished) or
///   [`allow_unused`](Self::allow_unused) was called, even before the failure;
/// * if the thread is panicking already;
/// * if the model was never called, so that the error which prevented the call is visible.
///   `assert_finished` reports this case.
///
/// An early return with `?` drops the handle too, and the panic hides the error. Call `unwrap` on
/// results that may be errors before the script is finished.
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{Model, ModelRequest};
///
/// # let run = async {
/// let model = ScriptedModel::new()
///     .expect(|request| assert_eq!(request.messages.len(), 1))
///     .say("Hello!");
/// assert_eq!(Model::call(&model, ModelRequest::new("Hi")).await?.text(), "Hello!");
/// assert!(Model::call(&model, ModelRequest::new("Hi")).await.is_err());
/// assert_eq!(model.requests().len(), 2);
/// assert!(model.verify().is_err());
/// # Ok::<(), agentcore::Error>(()) };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    shared: Arc<SharedScript>,
    id: Arc<str>,
    profile: Arc<ModelProfile>,
}

type Expectation = Box<dyn Fn(&ModelRequest) + Send + Sync>;

struct SharedScript(Mutex<Script>);

#[derive(Default)]
struct Script {
    steps: VecDeque<(Vec<Expectation>, Step)>,
    /// The expectations for the step that is added next.
    pending: Vec<Expectation>,
    /// The number of steps that were added.
    added: usize,
    usage: Option<Usage>,
    requests: Vec<ModelRequest>,
    calls: usize,
    failures: Vec<String>,
    is_checked: bool,
}

impl ScriptedModel {
    /// Creates a model with an empty script, under the id `scripted:model`.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(SharedScript(Mutex::default())),
            id: "scripted:model".into(),
            profile: Arc::default(),
        }
    }

    /// Adds a step that answers with a text.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.step(Step::text(text))
    }

    /// Adds a step that calls one tool.
    #[must_use]
    pub fn call(self, name: impl Into<Arc<str>>, args: Value) -> Self {
        self.step(Step::call(name, args))
    }

    /// Adds a step that calls several tools in one turn.
    #[must_use]
    pub fn calls<N: Into<Arc<str>>>(self, calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        let step = calls
            .into_iter()
            .fold(Step::new(), |step, (name, args)| step.and_call(name, args));
        self.step(step)
    }

    /// Adds this step. A `Vec<ModelEvent>` is a step of these events; a missing `Start` or `Stop`
    /// is added.
    #[must_use]
    pub fn step(self, step: impl Into<Step>) -> Self {
        let mut script = self.script();
        let expectations = std::mem::take(&mut script.pending);
        script.steps.push_back((expectations, step.into()));
        script.added += 1;
        drop(script);
        self
    }

    /// Adds a step that fails before its stream begins.
    #[must_use]
    pub fn fail(self, error: Error) -> Self {
        self.step(Step::fail(error))
    }

    /// Adds a step that streams exactly these events and errors. Without a `Stop`, the stream is
    /// truncated.
    #[must_use]
    pub fn events(self, events: Vec<Result<ModelEvent>>) -> Self {
        self.step(Step::exactly(events))
    }

    /// Adds a step that starts a stream that yields nothing and never ends.
    #[must_use]
    pub fn hang(self) -> Self {
        self.step(Step::new().then_hang())
    }

    /// Checks the request of the step that is added next. An assertion that fails makes that
    /// call fail and is reported by [`verify`](Self::verify).
    #[must_use]
    pub fn expect(self, check: impl Fn(&ModelRequest) + Send + Sync + 'static) -> Self {
        self.script().pending.push(Box::new(check));
        self
    }

    /// Sets the usage of the step added last; before the first step, of every step without a usage.
    /// Steps of [`events`](Self::events) and [`fail`](Self::fail) ignore it.
    #[must_use]
    pub fn with_usage(self, usage: Usage) -> Self {
        let mut script = self.script();
        match script.steps.back_mut() {
            Some((_, step)) => step.usage = Some(usage),
            None => script.usage = Some(usage),
        }
        drop(script);
        self
    }

    /// Makes the step added last wait, on tokio's clock, before it answers. Without a step there is
    /// nothing to delay.
    #[must_use]
    pub fn delayed(self, wait: Duration) -> Self {
        if let Some((_, step)) = self.script().steps.back_mut() {
            step.delay = wait;
        }
        self
    }

    /// Sets the id. Handles that were cloned before keep theirs.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the profile. Handles that were cloned before keep theirs.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = Arc::new(profile);
        self
    }

    /// Returns every request so far, including failed requests.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.script().requests.clone()
    }

    /// Returns the number of steps that are left.
    pub fn remaining(&self) -> usize {
        self.script().steps.len()
    }

    /// Prevents the drop of the last handle from panicking, even if steps are unused.
    pub fn allow_unused(&self) {
        self.script().is_checked = true;
    }

    /// Checks that the script was followed to its end.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Other`] with all failures: steps that are left, unexpected calls,
    /// failed expectations, expectations without a step.
    pub fn verify(&self) -> Result<()> {
        let mut script = self.script();
        script.is_checked = true;
        match script.problem() {
            Some(problem) => Err(Error::new(ErrorKind::Other, problem)),
            None => Ok(()),
        }
    }

    /// Like [`verify`](Self::verify), for tests.
    ///
    /// # Panics
    ///
    /// Panics if the script was not followed to its end.
    #[track_caller]
    pub fn assert_finished(&self) {
        if let Err(error) = self.verify() {
            panic!("{error}");
        }
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        lock(&self.shared.0)
    }

    fn fail_with(&self, text: String) -> Error {
        self.script().failures.push(text.clone());
        Error::new(ErrorKind::Other, text)
    }
}

impl Script {
    fn problem(&self) -> Option<String> {
        let mut problems = self.failures.clone();
        if !self.steps.is_empty() {
            problems.push(format!(
                "{} of {} scripted steps were not used",
                self.steps.len(),
                self.added,
            ));
        }

        if !self.pending.is_empty() {
            problems.push("an expectation has no step after it".into());
        }

        (!problems.is_empty()).then(|| format!("scripted model: {}", problems.join("; ")))
    }
}

impl Drop for SharedScript {
    fn drop(&mut self) {
        let script = self.0.get_mut().unwrap_or_else(|e| e.into_inner());
        if script.is_checked || std::thread::panicking() {
            return;
        }
        if script.requests.is_empty() {
            // Usually an error that was returned with `?` ended the test before the first request.
            return;
        }
        if let Some(problem) = script.problem() {
            panic!("{problem}");
        }
    }
}

impl Default for ScriptedModel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("id", &self.id)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for ScriptedModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        let (number, next, usage) = {
            let mut script = self.script();
            script.requests.push(request.clone());
            let number = script.requests.len();
            (number, script.steps.pop_front(), script.usage)
        };

        let Some((expectations, mut step)) = next else {
            return Err(self.fail_with(format!(
                "call {number} was not expected: the script has no step left for it \
                 (the request's last message is {:?})",
                request.messages.last_content(),
            )));
        };

        for expectation in expectations {
            if let Err(text) = panic::catch(|| expectation(&request)) {
                return Err(self.fail_with(format!("call {number}: {text}")));
            }
        }

        step.usage = step.usage.or(usage);
        if !step.delay.is_zero() {
            tokio::time::sleep(step.delay).await;
        }

        let hangs = step.hangs;
        let events = step.play(number, || {
            let mut script = self.script();
            script.calls += 1;
            format!("call_{}", script.calls).into()
        })?;

        let events = stream::iter(events);
        Ok(if hangs {
            events.chain(stream::pending()).boxed()
        } else {
            events.boxed()
        })
    }
}
