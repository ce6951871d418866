//! The questions of hooks that were answered for a session.

use std::sync::{Arc, Mutex};

use crate::message::ToolCall;
use crate::tool::{SessionGrant, SessionGrants};
use crate::util::sync::lock;

/// The maximum size of a call's arguments that are stored with the answer for a session, in bytes
/// of JSON.
const MAX_GRANTED_ARGS: usize = 64 * 1024;

/// The questions of hooks that were answered for a session. The runs of an agent share them by
/// clones.
#[derive(Clone, Default)]
pub(crate) struct GrantedQuestions(Arc<Mutex<SessionGrants<GrantedQuestion>>>);

/// One question about one call with exactly these arguments.
#[derive(PartialEq, Eq, Hash)]
struct GrantedQuestion {
    question: String,
    tool: Arc<str>,
    args: String,
}

impl SessionGrant for GrantedQuestion {
    fn size(&self) -> usize {
        self.question.len() + self.tool.len() + self.args.len()
    }
}

impl GrantedQuestions {
    /// Returns `true` if this question about this call was answered for the session.
    pub(crate) fn contains(&self, session: &str, call: &ToolCall, question: &str) -> bool {
        let granted_question = GrantedQuestion::new(call, question);
        granted_question
            .is_some_and(|granted_question| lock(&self.0).contains(session, &granted_question))
    }

    /// Makes this question about this call count as answered for the session.
    pub(crate) fn add(&self, session: &Arc<str>, call: &ToolCall, question: &str) {
        if let Some(granted_question) = GrantedQuestion::new(call, question) {
            lock(&self.0).add(session, [granted_question]);
        }
    }

    /// Removes the answers for a session.
    pub(crate) fn forget(&self, session: &str) {
        lock(&self.0).remove(session);
    }
}

impl GrantedQuestion {
    /// Returns `None` for a call with very long arguments, which is asked about each time.
    fn new(call: &ToolCall, question: &str) -> Option<Self> {
        let args = call.args.to_string();
        (args.len() <= MAX_GRANTED_ARGS).then(|| Self {
            question: question.to_owned(),
            tool: call.name.clone(),
            args,
        })
    }
}
