//! The permissions granted for the rest of a session.

use std::sync::Arc;

use crate::tool::SessionGrants;

use super::facts::{Facts, Touch};
use super::paths::lexical;
use super::url::Url;

/// One thing that was allowed: never more than what was shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Grant {
    Command(String),
    Read(String),
    Write(String),
    Domain(String),
    /// A call that touches nothing known: the tool with exactly these arguments.
    Call(String, String),
}

/// The grants of all sessions.
#[derive(Debug, Default)]
pub(super) struct Grants(SessionGrants<Grant>);

impl Grants {
    pub(super) fn add(&mut self, session: &Arc<str>, facts: &Facts<'_>) {
        self.0.add(session, grants(facts));
    }

    pub(super) fn covers(&self, session: &str, facts: &Facts<'_>) -> bool {
        grants(facts).all(|grant| self.0.contains(session, &grant))
    }
}

fn grants<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = Grant> + 'a {
    let call_grant = facts
        .touches
        .is_empty()
        .then(|| Grant::Call(facts.tool.to_owned(), facts.args.to_string()));
    let parts = facts.touches.iter().map(|touch| match touch {
        Touch::Command(command) => Grant::Command(command.text.clone()),
        Touch::Read(path) => Grant::Read(lexical(path)),
        Touch::Write(path) => Grant::Write(lexical(path)),
        Touch::Url(url) => Grant::Domain(match Url::parse(url) {
            Some(parsed) => parsed.host,
            None => url.clone(),
        }),
    });
    call_grant.into_iter().chain(parts)
}
