//! Pages of the list of sessions.

use std::time::{Duration, SystemTime};

use agentcore::session::{
    Lease, ListQuery, Record, SessionInfo, SessionPage, SessionStore, StoredSession,
};
use agentcore::{Error, ErrorKind, Result, async_trait};

/// A store that has only a list.
struct Listed(Vec<SessionInfo>);

#[async_trait]
impl SessionStore for Listed {
    async fn load(&self, _id: &str) -> Result<Option<StoredSession>> {
        Ok(None)
    }

    async fn append(&self, _lease: &Lease, _records: Vec<Record>) -> Result<()> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        Ok(self.0.clone())
    }

    async fn delete(&self, _id: &str) -> Result<bool> {
        Ok(false)
    }

    async fn lease(&self, _id: &str) -> Result<Lease> {
        Err(Error::new(ErrorKind::Other, "there is only a list"))
    }
}

/// A store with seven sessions for each of two users, at most two of each user with equal times,
/// and one of a subagent.
fn store() -> Listed {
    let mut list = Vec::new();
    for number in 0..7u64 {
        for user in ["ann", "bob"] {
            let mut info = SessionInfo::new(format!("{user}:{number}"), 1);
            let age = Duration::from_secs(1_000 - number / 2);
            info.updated_at = Some(SystemTime::UNIX_EPOCH + age);
            info.user_id = Some(user.into());
            list.push(info);
        }
    }
    let mut child = SessionInfo::new("child", 1);
    child.parent = Some("ann:0".into());
    list.push(child);
    Listed(list)
}

fn ids(page: &SessionPage) -> Vec<&str> {
    page.sessions.iter().map(|info| &*info.id).collect()
}

#[tokio::test]
async fn pages_together_have_each_session_of_the_user_once() {
    let store = store();
    for limit in 1..9 {
        let mut listed = Vec::new();
        let mut query = ListQuery::new().with_user_id("ann").with_limit(limit);
        loop {
            let page = store.list_page(query.clone()).await.unwrap();
            assert!(page.sessions.len() <= limit);
            listed.extend(ids(&page).into_iter().map(str::to_owned));
            match page.next {
                Some(next) => query = query.after(next),
                None => break,
            }
        }
        let expected: Vec<_> = (0..7).map(|number| format!("ann:{number}")).collect();
        assert_eq!(listed, expected, "{limit}");
    }
}

#[tokio::test]
async fn page_without_a_user_has_all_but_subagents() {
    let page = store().list_page(ListQuery::new()).await.unwrap();
    assert_eq!((page.sessions.len(), page.next), (14, None));
}

#[tokio::test]
async fn session_written_between_two_pages_moves_no_other() {
    let mut store = store();
    let query = ListQuery::new().with_user_id("ann").with_limit(3);
    let page = store.list_page(query.clone()).await.unwrap();
    let last = store
        .0
        .iter_mut()
        .find(|info| &*info.id == "ann:2")
        .unwrap();
    last.updated_at = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(2_000));
    let next = page.next.unwrap();
    let page = store.list_page(query.after(next)).await.unwrap();
    assert_eq!(ids(&page), ["ann:3", "ann:4", "ann:5"]);
}

#[tokio::test]
async fn position_that_no_page_has_returned_is_refused() {
    for position in ["", "x", "12", "-1:a", "a:b"] {
        let query = ListQuery::new().after(position);
        let error = store().list_page(query).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{position}");
    }
}
