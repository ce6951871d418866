//! The runs of sessions, to assign changes to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::message::{Message, Messages, Role};
use crate::run::RunContext;
use crate::session::title_of;
use crate::util::Cancellation;
use crate::util::sync::lock;

tokio::task_local! {
    /// The runs whose calls this task is in, the innermost first.
    static HERE: Arc<Here>;
}

struct Here {
    run: Arc<Live>,
    around: Option<Arc<Here>>,
}

/// A run that is going on, and no child of another one here.
pub(super) struct Live {
    pub(super) session: Arc<str>,
    at: Mutex<At>,
    cancellation: Cancellation,
}

/// The last message of a user: its position in the history, and its beginning.
#[derive(Clone, Default)]
pub(super) struct At {
    pub(super) message: usize,
    pub(super) title: Option<Arc<str>>,
}

impl At {
    /// Returns `true` if this message is at its position in `messages`.
    pub(super) fn is_in(&self, messages: &Messages) -> bool {
        let entry = messages.as_slice().get(self.message);
        entry.is_some_and(|message| self.title.is_none() || self.title == title_of(message))
    }

    fn of(messages: &Messages, known: &Self) -> Self {
        // What was said while calls wait stands in front of their results only until they have them.
        let history = messages.as_slice();
        let pending_index = history
            .iter()
            .rposition(|message| message.tool_calls().next().is_some());
        let pending_index = pending_index
            .filter(|at| history[*at].tool_calls().count() > results(&history[at + 1..]));
        let history = &history[..pending_index.unwrap_or(history.len())];
        let last = history
            .iter()
            .rposition(|message| message.role() == Role::User);
        match last {
            None => Self::default(),
            Some(message) if message == known.message && known.title.is_some() => known.clone(),
            Some(message) => Self {
                message,
                title: title_of(&history[message]),
            },
        }
    }
}

/// The number of call results at the beginning.
fn results(messages: &[Arc<Message>]) -> usize {
    let is_result = |message: &&Arc<Message>| message.as_tool_result().is_some();
    messages.iter().take_while(is_result).count()
}

impl Live {
    pub(super) fn at(&self) -> At {
        lock(&self.at).clone()
    }

    fn look(&self, cx: &RunContext) {
        let turn = self.at();
        let now = cx.with_state(|view| At::of(view.messages, &turn));
        *lock(&self.at) = now;
    }
}

/// The runs that are going on.
#[derive(Default)]
pub(super) struct Runs(Mutex<HashMap<Box<str>, Arc<Live>>>);

impl Runs {
    /// Registers a run that begins. `None` when it is the child of one that is known.
    pub(super) fn begin(&self, cx: &RunContext) -> Option<Arc<Live>> {
        let run = self.outermost(cx);
        let runs = lock(&self.0);
        let entry = runs.get(cx.run_id());
        entry
            .is_some_and(|entry| Arc::ptr_eq(entry, &run))
            .then_some(run)
    }

    /// Runs `work` as a part of the run, or of the one it is a child of.
    pub(super) async fn within<T>(&self, cx: &RunContext, work: impl Future<Output = T>) -> T {
        let run = self.outermost(cx);
        let outer = HERE.try_with(Arc::clone).ok();
        HERE.scope(Arc::new(Here { run, around: outer }), work)
            .await
    }

    fn outermost(&self, cx: &RunContext) -> Arc<Live> {
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
            let run = Arc::new(Live {
                session: cx.session_id().clone(),
                at: Mutex::default(),
                cancellation: cx.cancellation().clone(),
            });
            runs.insert(cx.run_id().into(), run.clone());
            (run, cx)
        });
        drop(runs);
        run.look(cx);
        run
    }

    /// The runs that a change made here belongs to: the run of the current call, or, in a separate
    /// task, all runs in progress.
    pub(super) fn here(&self) -> Vec<Arc<Live>> {
        let mut runs = lock(&self.0);
        runs.retain(|_, run| !run.cancellation.is_cancelled());
        let is_known = |run: &Arc<Live>| runs.values().any(|known| Arc::ptr_eq(known, run));
        let mut next = HERE.try_with(Arc::clone).ok();
        while let Some(scope) = next {
            if is_known(&scope.run) {
                return vec![scope.run.clone()];
            }
            next = scope.around.clone();
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
