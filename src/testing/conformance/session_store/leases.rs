//! Checks of leases, and of writes that are dropped.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::join_all;

use crate::error::{ErrorKind, Result};
use crate::message::Message;
use crate::session::{AgentState, Lease, SessionStore};

use super::check::{fails, ids, load, message, same, same_state, say, texts, wrong};
use super::contents::full;

pub(super) async fn exclusive(store: &impl SessionStore) -> Result<()> {
    same("leased before", &store.is_leased("a").await?, &false)?;
    let lease = store.lease("a").await?;
    same("the session of the lease", &&**lease.session_id(), &"a")?;
    same("leased", &store.is_leased("a").await?, &true)?;
    same("another leased", &store.is_leased("b").await?, &false)?;
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
    same(
        "reading during the lease",
        &texts(store, "a").await?.len(),
        &1,
    )?;
    let token = lease.token();
    drop(lease);
    same("leased after", &store.is_leased("a").await?, &false)?;
    let lease = store.lease("a").await?;
    grows("of the next lease", &lease, token)?;
    let token = lease.token();
    drop(lease);
    same(
        "a session that was only leased",
        &ids(store).await?,
        &vec!["a".into()],
    )?;
    store.delete("a").await?;
    let lease = store.lease("a").await?;
    grows("of one that was removed", &lease, token)?;
    drop(lease);
    let leases = join_all((0..8).map(|_| store.lease("c"))).await;
    let lease_count = leases.iter().filter(|lease| lease.is_ok()).count();
    same("leases at once", &lease_count, &1)
}

/// Checks that the token of a lease is greater than the token `before` of an earlier lease.
pub(super) fn grows(what: &str, lease: &Lease, before: u64) -> Result<()> {
    let token = lease.token();
    if token > before {
        Ok(())
    } else {
        Err(wrong(format!(
            "the token {what} went from {before} to {token}"
        )))
    }
}

pub(super) async fn fenced(store: &impl SessionStore) -> Result<()> {
    let first = store.lease("a").await?;
    store.append(&first, vec![message("first")]).await?;
    let stale = Lease::new("a", first.token(), || {});
    drop(first);
    let new_lease = store.lease("a").await?;
    let append = store.append(&stale, vec![message("stale")]).await;
    fails("an append", append, ErrorKind::Conflict)?;
    let save = store.save(&stale, &AgentState::new("a")).await;
    fails("a save", save, ErrorKind::Conflict)?;
    store.append(&new_lease, vec![message("second")]).await?;
    let foreign_lease = Lease::new("b", 1, || {});
    let append = store.append(&foreign_lease, vec![message("stale")]).await;
    fails("without a lease", append, ErrorKind::Conflict)?;
    same("sessions", &ids(store).await?, &vec!["a".into()])?;
    let expected = vec!["first".into(), "second".into()];
    same("messages", &texts(store, "a").await?, &expected)
}

pub(super) async fn side_by_side(store: &impl SessionStore) -> Result<()> {
    let lease = store.lease("a").await?;
    let names: Vec<_> = (0..8).map(|number| number.to_string()).collect();
    let appends = names.iter().map(|name| {
        let records = (0..4).map(|_| message(name)).collect();
        store.append(&lease, records)
    });

    for outcome in join_all(appends).await {
        outcome?;
    }

    let sessions = names
        .iter()
        .map(|name| async move { say(store, name, &[name]).await });
    for outcome in join_all(sessions).await {
        outcome?;
    }

    let stored_texts = texts(store, "a").await?;
    same("messages", &stored_texts.len(), &32)?;
    let is_together = |four: &[String]| four.iter().all(|text| *text == four[0]);
    same(
        "each write together",
        &stored_texts.chunks(4).all(is_together),
        &true,
    )?;
    let mut stored_texts: Vec<_> = stored_texts.into_iter().step_by(4).collect();
    stored_texts.sort_unstable();
    same("each write once", &stored_texts, &names)?;
    same("sessions", &ids(store).await?.len(), &9)
}

/// Takes a lease that a dropped future may still be about to give back.
pub(super) async fn lease_soon(store: &impl SessionStore, id: &str) -> Result<Lease> {
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

/// Checks that a session is not leased. A dropped future may still be about to give its lease back.
pub(super) async fn free_soon(store: &impl SessionStore, id: &str) -> Result<()> {
    for _ in 0..1_000 {
        if !store.is_leased(id).await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    same("leased", &store.is_leased(id).await?, &false)
}

/// Polls a future `polls` times and drops it. Returns its output if it was complete by then.
async fn given_up<T>(
    mut work: impl Future<Output = Result<T>> + Unpin,
    polls: usize,
) -> Result<Option<T>> {
    for _ in 0..polls {
        if let Poll::Ready(outcome) = futures::poll!(&mut work) {
            return outcome.map(Some);
        }
        tokio::task::yield_now().await;
    }
    Ok(None)
}

pub(super) async fn dropped(store: &impl SessionStore) -> Result<()> {
    let mut message_count = 0;
    for polls in 0..6 {
        let mut leasing = Box::pin(store.lease("a"));
        for _ in 0..polls {
            if futures::poll!(&mut leasing).is_ready() {
                // A completed future must not be polled again.
                leasing = Box::pin(store.lease("b"));
                break;
            }

            tokio::task::yield_now().await;
        }

        drop(leasing);
        let lease = lease_soon(store, "a").await?;
        let records = vec![message("one"), message("two"), message("three")];
        let outcome = given_up(store.append(&lease, records), polls).await?;
        let is_acknowledged = outcome.is_some();
        drop(lease);
        let lease = lease_soon(store, "a").await?;
        let session = store.load("a").await?.unwrap_or_default();
        let new_count = session.state.messages.len();
        let is_written = new_count == message_count + 3;
        let is_unchanged = new_count == message_count;
        if !is_written && (is_acknowledged || !is_unchanged) {
            return Err(wrong(format!(
                "{new_count} messages after {message_count} and a write of 3 that was dropped after {polls} polls"
            )));
        }

        store.append(&lease, vec![message("next")]).await?;
        message_count = load(store, "a").await?.state.messages.len();
        same("after the next write", &message_count, &(new_count + 1))?;
    }

    Ok(())
}

pub(super) async fn dropped_saves_forks_and_deletes(store: &impl SessionStore) -> Result<()> {
    let mut now = full("a");
    let lease = store.lease("a").await?;
    store.save(&lease, &now).await?;
    drop(lease);
    for polls in 0..6 {
        let mut next = full("a");
        next.title = Some(format!("save {polls}").into());
        next.messages = next.messages.as_slice()[..1].iter().cloned().collect();
        next.infos.keep(1);
        next.messages.push(Message::ai(format!("answer {polls}")));
        next.files = Arc::default();
        let lease = lease_soon(store, "a").await?;
        let outcome = given_up(store.save(&lease, &next), polls).await?;
        drop(lease);
        let lease = lease_soon(store, "a").await?;
        let state = load(store, "a").await?.state;
        if outcome.is_some() || state.title == next.title {
            now = next;
        }

        same_state("a save that was dropped", &state, &now)?;
        drop(lease);

        let id = format!("copy {polls}");
        let mut copy = now.clone();
        copy.thread_id = id.as_str().into();
        let forked = given_up(store.fork("a", &id), polls).await?;
        drop(lease_soon(store, &id).await?);
        match store.load(&id).await? {
            Some(session) => same_state("a fork that was dropped", &session.state, &copy)?,
            None if forked.is_none() => continue,
            None => return Err(wrong("a fork that was acknowledged is gone")),
        }

        let deleted = given_up(store.delete(&id), polls).await?;
        drop(lease_soon(store, &id).await?);
        match store.load(&id).await? {
            Some(session) if deleted.is_none() => {
                same_state("a removal that was dropped", &session.state, &copy)?;
            }
            Some(_) => return Err(wrong("a session that was removed is there")),
            None => {}
        }
    }

    Ok(())
}
