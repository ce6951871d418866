//! Pages of lists of sessions.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::util::text::quoted;

use super::info::SessionInfo;

/// The default number of sessions of a page.
const LIMIT: usize = 50;

/// The query for a page of a list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListQuery {
    /// The user whose sessions are listed; `None` for all.
    pub user_id: Option<Arc<str>>,
    /// The position after which the page begins: [`SessionPage::next`] of the page before.
    pub after: Option<Arc<str>>,
    /// The maximum number of sessions, at least 1. Defaults to 50.
    pub limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            user_id: None,
            after: None,
            limit: LIMIT,
        }
    }
}

impl ListQuery {
    /// Creates the query for the first page of all sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the user.
    #[must_use]
    pub fn with_user_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.user_id = Some(id.into());
        self
    }

    /// Sets the maximum number of sessions.
    #[must_use]
    pub fn with_limit(mut self, sessions: usize) -> Self {
        self.limit = sessions;
        self
    }

    /// Sets the position after which the page begins.
    #[must_use]
    pub fn after(mut self, position: impl Into<Arc<str>>) -> Self {
        self.after = Some(position.into());
        self
    }

    /// Returns the page of a whole list.
    pub(super) fn page(&self, mut list: Vec<SessionInfo>) -> Result<SessionPage> {
        let after = self
            .after
            .as_deref()
            .map(SessionPosition::read)
            .transpose()?;
        list.retain(|info| {
            let is_of_user = self.user_id.is_none() || info.user_id == self.user_id;
            let is_later = after
                .as_ref()
                .is_none_or(|after| SessionPosition::of(info) > *after);
            info.parent.is_none() && is_of_user && is_later
        });
        list.sort_by_cached_key(SessionPosition::of);
        let has_more = list.len() > self.limit.max(1);
        list.truncate(self.limit.max(1));
        let last = list.last().filter(|_| has_more);
        Ok(SessionPage {
            next: last.map(|info| SessionPosition::of(info).write()),
            sessions: list,
        })
    }
}

/// A page of a list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionPage {
    /// The sessions, the most recently written first.
    pub sessions: Vec<SessionInfo>,
    /// The position for the next page; `None` if this is the last one. A session that is written
    /// meanwhile moves to the beginning of the list and is on no later page.
    pub next: Option<Arc<str>>,
}

/// The position of a session in a list: the latest first, and by id where times are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SessionPosition(Reverse<u128>, Arc<str>);

impl SessionPosition {
    fn of(info: &SessionInfo) -> Self {
        let time = info.updated_at;
        let since_epoch = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        Self(
            Reverse(since_epoch.map_or(0, |time: Duration| time.as_nanos())),
            info.id.clone(),
        )
    }

    fn write(&self) -> Arc<str> {
        format!("{}:{}", self.0.0, self.1).into()
    }

    fn read(text: &str) -> Result<Self> {
        let parts = text.split_once(':');
        let position = parts.and_then(|(time, id)| Some((time.parse().ok()?, id)));
        let (time, id) = position.ok_or_else(|| {
            let text = format!("{} is not a position in the list of sessions", quoted(text));
            Error::new(ErrorKind::InvalidRequest, text)
        })?;
        Ok(Self(Reverse(time), id.into()))
    }
}
