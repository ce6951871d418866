//! The runs of sessions, to assign changes to them.

use std::collections::HashMap;
use std::iter::successors;
use std::sync::{Arc, Mutex, OnceLock};

use crate::hook::current_run;
use crate::message::{Message, Messages, Role};
use crate::run::RunContext;
use crate::session::title_of;
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::index::SessionIndex;
use super::record::Origin;

tokio::task_local! {
    /// The runs whose calls this task is in, the innermost first.
    static SCOPE: Arc<Scope>;
    /// Set while this task changes files that are not recorded.
    static UNRECORDED: ();
}

/// Runs `work`, whose changes of files belong to no run: a rewind leaves them.
#[cfg(feature = "tools")]
pub(in crate::hooks) async fn unrecorded<T>(work: impl Future<Output = T>) -> T {
    UNRECORDED.scope((), work).await
}

struct Scope {
    run: Arc<ActiveRun>,
    outer: Option<Arc<Scope>>,
}

/// An active run that is not a child of another active run.
pub(super) struct ActiveRun {
    pub(super) session: Arc<str>,
    position: Mutex<Position>,
    /// The number of replacements of the history before the run began. If the records could not be
    /// read then, before its first change.
    replacement_count: OnceLock<usize>,
    cancellation: Cancellation,
}

/// The last message of a user: its position in the history, and its beginning.
#[derive(Clone, Default)]
pub(super) struct Position {
    pub(super) message: usize,
    pub(super) title: Option<Arc<str>>,
}

impl Position {
    /// Returns `true` if this message is at its position in `messages`.
    pub(super) fn matches(&self, messages: &Messages) -> bool {
        let entry = messages.as_slice().get(self.message);
        entry.is_some_and(|message| self.title.is_none() || self.title == title_of(message))
    }

    fn of(messages: &Messages, previous: &Self) -> Self {
        // A message that was added while calls wait precedes their results only until these are
        // stored.
        let history = messages.as_slice();
        let pending_index = history
            .iter()
            .rposition(|message| message.tool_calls().next().is_some())
            .filter(|at| history[*at].tool_calls().count() > leading_results(&history[at + 1..]));
        let history = &history[..pending_index.unwrap_or(history.len())];
        let last = history
            .iter()
            .rposition(|message| message.role() == Role::User);
        match last {
            None => Self::default(),
            Some(message) if message == previous.message && previous.title.is_some() => {
                previous.clone()
            }
            Some(message) => Self {
                message,
                title: title_of(&history[message]),
            },
        }
    }
}

/// Returns the number of call results at the beginning.
fn leading_results(messages: &[Arc<Message>]) -> usize {
    let is_result = |message: &&Arc<Message>| message.as_tool_result().is_some();
    messages.iter().take_while(is_result).count()
}

impl ActiveRun {
    fn position(&self) -> Position {
        lock(&self.position).clone()
    }

    /// Returns the position of a change that is recorded now.
    ///
    /// A write may still be in progress when its run has ended, and later runs may have recorded
    /// changes: an earlier position would then count as a replacement of the history. So would the
    /// next change of a later run if the history is shorter now.
    fn position_in(&self, index: &SessionIndex) -> Position {
        let position = self.position();
        let current_count = index.replacement_count();
        let is_replaced = *self.replacement_count.get_or_init(|| current_count) < current_count;
        if !self.cancellation.is_cancelled() {
            return position;
        }

        let later_message = if is_replaced {
            index.last_recorded_message()
        } else {
            index.last_change().filter(|last| *last > position.message)
        };
        match later_message {
            Some(message) => Position {
                message,
                title: None,
            },
            None => position,
        }
    }

    /// Sets the number of replacements of the history before this run.
    pub(super) fn begin_in(&self, index: &SessionIndex) {
        self.replacement_count
            .get_or_init(|| index.replacement_count());
    }

    fn update_position(&self, cx: &RunContext) {
        // Locked before the history is read, so that no earlier position replaces a later one.
        let mut position = lock(&self.position);
        let current = cx.with_state(|view| Position::of(view.messages, &position));
        *position = current;
    }
}

/// The maker of a change.
#[derive(Clone)]
pub(super) enum Maker {
    /// A run, which may continue with another message until the change is recorded.
    Run(Arc<ActiveRun>),
    /// A rewind, after this message.
    Rewind(Position),
}

impl Maker {
    pub(super) fn origin(&self) -> Origin {
        match self {
            Self::Run(_) => Origin::Run,
            Self::Rewind(_) => Origin::Rewind,
        }
    }

    /// Returns the message after which a change that is recorded now in `index` is made.
    pub(super) fn position(&self, index: &SessionIndex) -> Position {
        match self {
            Self::Run(run) => run.position_in(index),
            Self::Rewind(position) => position.clone(),
        }
    }
}

/// The runs in progress.
#[derive(Default)]
pub(super) struct ActiveRuns(Mutex<HashMap<Box<str>, Arc<ActiveRun>>>);

impl ActiveRuns {
    /// Registers a run that begins. Returns `None` if it is the child of an active run.
    pub(super) fn register(&self, cx: &RunContext) -> Option<Arc<ActiveRun>> {
        let run = self.outermost(cx);
        let runs = lock(&self.0);
        let entry = runs.get(cx.run_id());
        entry
            .is_some_and(|entry| Arc::ptr_eq(entry, &run))
            .then_some(run)
    }

    /// Runs `work` as a part of the run, or of the parent run if it is a child.
    pub(super) async fn scope<T>(&self, cx: &RunContext, work: impl Future<Output = T>) -> T {
        let run = self.outermost(cx);
        let outer = SCOPE.try_with(Arc::clone).ok();
        SCOPE.scope(Arc::new(Scope { run, outer }), work).await
    }

    fn outermost(&self, cx: &RunContext) -> Arc<ActiveRun> {
        let mut runs = lock(&self.0);
        runs.retain(|_, run| !run.cancellation.is_cancelled());
        let mut outermost = None;
        let mut next = Some(cx);
        while let Some(cx) = next {
            if let Some(run) = runs.get(cx.run_id()) {
                outermost = Some((run.clone(), cx));
            }

            next = cx.parent_run();
        }

        let (run, cx) = outermost.unwrap_or_else(|| {
            let run = Arc::new(ActiveRun {
                session: cx.session_id().clone(),
                position: Mutex::default(),
                replacement_count: OnceLock::new(),
                cancellation: cx.cancellation().clone(),
            });

            runs.insert(cx.run_id().into(), run.clone());
            (run, cx)
        });

        drop(runs);
        run.update_position(cx);
        run
    }

    /// Returns the runs that a change by the current task belongs to: the run of its call, or of
    /// the hook that it is in; in a separate task, all active runs.
    pub(super) fn current(&self) -> Vec<Arc<ActiveRun>> {
        if UNRECORDED.try_with(|()| ()).is_ok() {
            return Vec::new();
        }

        let mut runs = lock(&self.0);
        runs.retain(|_, run| !run.cancellation.is_cancelled());
        let is_active = |run: &Arc<ActiveRun>| runs.values().any(|active| Arc::ptr_eq(active, run));
        // A tool may await an independent run, whose hooks are within the scope of the tool's call.
        let hook_run = current_run();
        let nested_runs = successors(hook_run.as_ref(), |cx| cx.parent_run());
        if let Some(run) = nested_runs.filter_map(|cx| runs.get(cx.run_id())).last() {
            return vec![run.clone()];
        }

        let mut next = SCOPE.try_with(Arc::clone).ok();
        while let Some(scope) = next {
            if is_active(&scope.run) {
                return vec![scope.run.clone()];
            }
            next = scope.outer.clone();
        }
        runs.values().cloned().collect()
    }

    /// Returns `true` if a run of the session is in progress.
    pub(super) fn is_busy(&self, session: &str) -> bool {
        let runs = lock(&self.0);
        runs.values()
            .any(|run| *run.session == *session && !run.cancellation.is_cancelled())
    }
}
