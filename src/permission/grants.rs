//! The permissions granted for the rest of a session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::facts::{Facts, Touch};
use super::paths::lexical;
use super::url::Url;

/// Grants kept for one session; further ones are asked about again.
const PER_SESSION: usize = 256;
/// Sessions whose grants are kept; the oldest is forgotten first.
const SESSIONS: usize = 1024;

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
pub(super) struct Grants {
    sessions: HashMap<Arc<str>, HashSet<Grant>>,
    order: VecDeque<Arc<str>>,
}

impl Grants {
    pub(super) fn add(&mut self, session: &Arc<str>, facts: &Facts<'_>) {
        if !self.sessions.contains_key(session) {
            if self.order.len() >= SESSIONS
                && let Some(oldest) = self.order.pop_front()
            {
                self.sessions.remove(&oldest);
            }
            self.order.push_back(session.clone());
        }
        let granted = self.sessions.entry(session.clone()).or_default();
        for grant in grants(facts) {
            if granted.len() < PER_SESSION {
                granted.insert(grant);
            }
        }
    }

    pub(super) fn covers(&self, session: &str, facts: &Facts<'_>) -> bool {
        self.sessions
            .get(session)
            .is_some_and(|granted| grants(facts).all(|grant| granted.contains(&grant)))
    }
}

fn grants<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = Grant> + 'a {
    let whole = facts
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
    whole.into_iter().chain(parts)
}
