//! The origin of a question.

use std::fmt;
use std::sync::Arc;

use crate::util::Values;

/// The call and the run that ask a person a question. With them, a confirmer or a
/// `tools::ask::Interactor` that serves several sessions finds the person to ask.
///
/// ```
/// use agentcore::Values;
/// use agentcore::tool::Asking;
///
/// struct Chat(u64);
///
/// let mut values = Values::default();
/// values.insert(Chat(7));
/// let asking = Asking::new("th_1", "call_1").with_values(values);
/// assert_eq!(asking.value::<Chat>().map(|chat| chat.0), Some(7));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Asking {
    /// The session of the run; empty outside any run.
    pub session_id: Arc<str>,
    /// The call's id.
    pub call_id: Arc<str>,
    /// The id of the session's user, or else the user id of the nearest parent run that has one.
    pub user_id: Option<Arc<str>>,
    /// The values of the run, followed by the values of its parent runs.
    values: Vec<Values>,
}

impl Asking {
    /// Creates the origin of a call's questions, without a user or values.
    pub fn new(session_id: impl Into<Arc<str>>, call_id: impl Into<Arc<str>>) -> Self {
        Self {
            session_id: session_id.into(),
            call_id: call_id.into(),
            ..Self::default()
        }
    }

    /// Sets the id of the user.
    #[must_use]
    pub fn with_user_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.user_id = Some(id.into());
        self
    }

    /// Adds the values of a run. They are looked up after the values that were added before.
    #[must_use]
    pub fn with_values(mut self, values: Values) -> Self {
        self.values.push(values);
        self
    }

    /// Returns the value of type `T` that the run was given, or else the value of the nearest
    /// parent run that has one.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.values.iter().find_map(Values::get)
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking")
            .field("session_id", &self.session_id)
            .field("call_id", &self.call_id)
            .field("user_id", &self.user_id)
            .finish_non_exhaustive()
    }
}
