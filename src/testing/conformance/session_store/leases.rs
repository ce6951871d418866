//! Who may write, and what becomes of writes that are given up.

use std::time::Duration;

use futures::future::join_all;

use crate::error::{ErrorKind, Result};
use crate::state::{AgentState, Lease, SessionStore};

use super::check::{fails, ids, load, message, same, say, texts, wrong};

pub(super) async fn exclusive(store: &impl SessionStore) -> Result<()> {
    let lease = store.lease("a").await?;
    same("whose it is", &&**lease.session_id(), &"a")?;
    fails(
        "a second lease",
        store.lease("a").await,
        ErrorKind::SessionBusy,
    )?;
    drop(store.lease("b").await?);
    store.append(&lease, vec![message("Hi")]).await?;
    fails(
        "a second lease",
        store.lease("a").await,
        ErrorKind::SessionBusy,
    )?;
    same("reading beside it", &texts(store, "a").await?.len(), &1)?;
    let token = lease.token();
    drop(lease);
    let lease = store.lease("a").await?;
    if lease.token() <= token {
        let found = lease.token();
        return Err(wrong(format!("the token went from {token} to {found}")));
    }
    drop(lease);
    same("what is only leased", &ids(store).await?, &vec!["a".into()])?;
    let all = join_all((0..8).map(|_| store.lease("c"))).await;
    let won = all.iter().filter(|lease| lease.is_ok()).count();
    same("leases at once", &won, &1)
}

pub(super) async fn fenced(store: &impl SessionStore) -> Result<()> {
    let first = store.lease("a").await?;
    store.append(&first, vec![message("first")]).await?;
    let stale = Lease::new("a", first.token(), || {});
    drop(first);
    let second = store.lease("a").await?;
    let append = store.append(&stale, vec![message("stale")]).await;
    fails("an append", append, ErrorKind::Conflict)?;
    let save = store.save(&stale, &AgentState::new("a")).await;
    fails("a save", save, ErrorKind::Conflict)?;
    store.append(&second, vec![message("second")]).await?;
    let none = Lease::new("b", 1, || {});
    let append = store.append(&none, vec![message("stale")]).await;
    fails("without a lease", append, ErrorKind::Conflict)?;
    same("sessions", &ids(store).await?, &vec!["a".into()])?;
    let expected = vec!["first".into(), "second".into()];
    same("messages", &texts(store, "a").await?, &expected)
}

pub(super) async fn side_by_side(store: &impl SessionStore) -> Result<()> {
    let lease = store.lease("a").await?;
    let names: Vec<_> = (0..8).map(|number| number.to_string()).collect();
    let writes = names.iter().map(|name| {
        let records = (0..4).map(|_| message(name)).collect();
        store.append(&lease, records)
    });
    for outcome in join_all(writes).await {
        outcome?;
    }
    let sessions = names
        .iter()
        .map(|name| async move { say(store, name, &[name]).await });
    for outcome in join_all(sessions).await {
        outcome?;
    }
    let found = texts(store, "a").await?;
    same("messages", &found.len(), &32)?;
    let is_together = |four: &[String]| four.iter().all(|text| *text == four[0]);
    same(
        "each write together",
        &found.chunks(4).all(is_together),
        &true,
    )?;
    let mut found: Vec<_> = found.into_iter().step_by(4).collect();
    found.sort_unstable();
    same("each write once", &found, &names)?;
    same("sessions", &ids(store).await?.len(), &9)
}

/// Takes a lease that a dropped future may still be about to give back.
async fn lease_soon(store: &impl SessionStore, id: &str) -> Result<Lease> {
    for _ in 0..1_000 {
        match store.lease(id).await {
            Err(error) if error.kind() == ErrorKind::SessionBusy => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            other => return other,
        }
    }
    store.lease(id).await
}

pub(super) async fn dropped(store: &impl SessionStore) -> Result<()> {
    let mut all = 0;
    for polls in 0..6 {
        let mut leasing = Box::pin(store.lease("a"));
        for _ in 0..polls {
            if futures::poll!(&mut leasing).is_ready() {
                // A future that is done must not be polled again.
                leasing = Box::pin(store.lease("b"));
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(leasing);
        let lease = lease_soon(store, "a").await?;
        let records = vec![message("one"), message("two"), message("three")];
        let mut writing = store.append(&lease, records);
        let mut acknowledged = false;
        for _ in 0..polls {
            if let std::task::Poll::Ready(outcome) = futures::poll!(&mut writing) {
                outcome?;
                acknowledged = true;
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(writing);
        drop(lease);
        let lease = lease_soon(store, "a").await?;
        let now = match store.load("a").await? {
            Some(found) => found.state.messages.len(),
            None => 0,
        };
        if now != all + 3 && (acknowledged || now != all) {
            return Err(wrong(format!(
                "{now} messages after {all} and a write of 3 that was dropped after {polls} polls"
            )));
        }
        store.append(&lease, vec![message("next")]).await?;
        all = load(store, "a").await?.state.messages.len();
        same("after the next write", &all, &(now + 1))?;
    }
    Ok(())
}
