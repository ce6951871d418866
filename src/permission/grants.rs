//! The permissions granted for the rest of a session.

use std::sync::Arc;

use crate::tool::SessionGrants;

use super::call_accesses::{CallAccess, CallAccesses};
use super::paths::lexical;
use super::url::Url;

/// A permission that was given: never more than the question showed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Grant {
    Command(String),
    Read(String),
    Write(String),
    Domain(String),
    Agent(String),
    /// A call without known accesses: the tool with exactly these arguments.
    Call(String, String),
}

/// The grants of all sessions.
#[derive(Debug, Default)]
pub(super) struct Grants(SessionGrants<Grant>);

impl Grants {
    pub(super) fn add(&mut self, session: &Arc<str>, call: &CallAccesses<'_>) {
        self.0.add(session, grants(call));
    }

    pub(super) fn covers(&self, session: &str, call: &CallAccesses<'_>) -> bool {
        grants(call).all(|grant| self.0.contains(session, &grant))
    }
}

fn grants<'a>(call: &'a CallAccesses<'_>) -> impl Iterator<Item = Grant> + 'a {
    let call_grant = call
        .accesses
        .is_empty()
        .then(|| Grant::Call(call.tool.to_owned(), call.args.to_string()));
    let parts = call.accesses.iter().map(|access| match access {
        CallAccess::Command(command) => Grant::Command(command.text.clone()),
        CallAccess::Read(path) => Grant::Read(lexical(path)),
        CallAccess::Write(path) => Grant::Write(lexical(path)),
        CallAccess::Url(url) => Grant::Domain(match Url::parse(url) {
            Some(parsed) => parsed.host,
            None => url.clone(),
        }),
        CallAccess::Agent(name) => Grant::Agent(name.clone()),
    });

    call_grant.into_iter().chain(parts)
}
