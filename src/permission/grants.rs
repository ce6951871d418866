//! The permissions granted for the rest of a session.

use std::sync::{Arc, Mutex};

use crate::tool::{SessionGrant, SessionGrants};
use crate::util::sync::lock;

use super::call_accesses::{CallAccess, CallAccesses};
use super::paths::lexical;
use super::url::Url;

/// A permission that was given: never more than the question showed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Grant {
    tool: String,
    action: Action,
    /// The command, path, address or name, or the arguments.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Command,
    Read,
    Write,
    /// The scheme, the host and the port of an address.
    Origin,
    Agent,
    /// A call whose accesses are not declared: exactly these arguments.
    Call,
}

impl SessionGrant for Grant {
    fn size(&self) -> usize {
        self.tool.len() + self.text.len()
    }
}

/// The grants of all sessions.
#[derive(Debug, Default)]
pub(super) struct Grants(Mutex<SessionGrants<Grant>>);

impl Grants {
    pub(super) fn add(&self, session: &Arc<str>, call: &CallAccesses<'_>) {
        let grants: Vec<_> = grants(call).collect();
        lock(&self.0).add(session, grants);
    }

    pub(super) fn forget(&self, session: &str) {
        lock(&self.0).remove(session);
    }

    pub(super) fn covers(&self, session: &str, call: &CallAccesses<'_>) -> bool {
        if !lock(&self.0).has_session(session) {
            return false;
        }
        let grants: Vec<_> = grants(call).collect();
        let granted = lock(&self.0);
        grants.iter().all(|grant| granted.contains(session, grant))
    }
}

fn grants<'a>(call: &'a CallAccesses<'_>) -> impl Iterator<Item = Grant> + 'a {
    let is_whole = call.is_guessed || call.accesses.is_empty();
    let whole_call = is_whole.then(|| (Action::Call, call.args.to_string()));
    let parts = call.accesses.iter().map(|access| match access {
        CallAccess::Command(command) => (Action::Command, command.text.clone()),
        CallAccess::Read(path) => (Action::Read, lexical(path)),
        CallAccess::Write(path) => (Action::Write, lexical(path)),
        CallAccess::Url(url) => {
            let origin = Url::parse(url).map(|url| url.origin());
            (Action::Origin, origin.unwrap_or_else(|| url.clone()))
        }
        CallAccess::Agent(name) => (Action::Agent, name.clone()),
    });

    let actions = whole_call.into_iter().chain(parts);
    actions.map(|(action, text)| Grant {
        tool: call.tool.to_owned(),
        action,
        text,
    })
}
