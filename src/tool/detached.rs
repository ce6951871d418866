//! A tool call outside any run.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::Value;

use crate::backend::{Backend, DeniedPath, PathFilter};
use crate::message::{Messages, Todo};
use crate::model::Model;
use crate::sdk::SdkMessage;
use crate::util::{Guarded, Values};

use super::asking::Asking;
use super::context::{AnswerForm, ToolHost};
use super::gate::Answer;
use super::load::LoadPermit;
use super::permission_mode::PermissionMode;
use super::tasks::BackgroundTasks;
use super::turn_tools::TurnTools;
use super::view::StateView;

static NO_SESSION: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

#[derive(Clone, Default)]
struct DetachedState {
    messages: Messages,
    todos: Arc<Vec<Todo>>,
    files: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    values: Values,
}

/// The host of [`ToolContext::detached`](super::ToolContext::detached).
#[derive(Default)]
pub(super) struct Detached(Guarded<DetachedState>);

impl ToolHost for Detached {
    fn session_id(&self) -> &Arc<str> {
        &NO_SESSION
    }

    fn run_id(&self) -> &str {
        ""
    }

    fn progress(&self, _data: Value) {}

    fn forward(&self, _message: SdkMessage) {}

    fn warn_once(&self, _text: &str) {}

    fn drained(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn ask(&self, _question: String, _form: AnswerForm) -> BoxFuture<'_, Answer> {
        ready(Answer::Unanswered).boxed()
    }

    fn with_state(&self, _live: bool, f: &mut dyn FnMut(StateView<'_>)) {
        self.0.lend(|state| {
            let DetachedState {
                messages,
                todos,
                files,
                values,
            } = state;
            f(StateView::new(messages, todos, files, values));
        });
    }

    fn values(&self) -> Values {
        self.0.with(|state| state.values.clone())
    }

    fn user_id(&self) -> Option<Arc<str>> {
        None
    }

    fn asking(&self) -> Asking {
        Asking::default()
    }

    fn depth(&self) -> u32 {
        0
    }

    fn can_start_agents_below(&self) -> bool {
        false
    }

    fn model(&self) -> Option<Arc<dyn Model>> {
        None
    }

    fn tools(&self) -> TurnTools {
        TurnTools::default()
    }

    fn permission_mode(&self) -> PermissionMode {
        PermissionMode::default()
    }

    fn backend(&self) -> Option<Arc<dyn Backend>> {
        None
    }

    fn readable(&self) -> PathFilter {
        PathFilter::all()
    }

    fn denied_paths(&self) -> Vec<DeniedPath> {
        Vec::new()
    }

    fn tasks(&self) -> BackgroundTasks {
        BackgroundTasks::default()
    }

    fn max_result_bytes(&self) -> usize {
        usize::MAX
    }

    fn load_permit(&self) -> BoxFuture<'_, LoadPermit> {
        ready(LoadPermit::default()).boxed()
    }

    fn restart_timeout(&self) {}
}
