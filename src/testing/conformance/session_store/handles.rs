//! Two stores over the same sessions.

use futures::future::join_all;

use crate::error::{ErrorKind, Result};
use crate::session::{SessionStore, StoredSession};

use super::check::{fails, ids, message, same, say, texts};
use super::contents::full;
use super::leases::{free_soon, grows, lease_soon};

pub(super) async fn exclusive(one: &impl SessionStore, other: &impl SessionStore) -> Result<()> {
    let busy = ErrorKind::SessionBusy;
    for is_written in [false, true] {
        let lease = lease_soon(one, "a").await?;
        if is_written {
            one.append(&lease, vec![message("Hi")]).await?;
        }

        same("leased elsewhere", &other.is_leased("a").await?, &true)?;
        fails("a lease of the other", other.lease("a").await, busy)?;
        let session = StoredSession::new(full("a"));
        let outcome = other.create("a", session).await;
        if is_written {
            same("made by the other", &outcome.is_err(), &true)?;
        } else {
            fails("made by the other", outcome, busy)?;
        }

        if is_written {
            fails("removed by the other", other.delete("a").await, busy)?;
        }

        drop(lease);
        drop(lease_soon(other, "a").await?);
        free_soon(other, "a").await?;
    }

    same(
        "the stored messages",
        &texts(other, "a").await?,
        &vec!["Hi".into()],
    )
}

pub(super) async fn turns(one: &impl SessionStore, other: &impl SessionStore) -> Result<()> {
    let mut last_token = 0;
    let mut expected = Vec::new();
    for number in 0..3 {
        let lease = lease_soon(one, "a").await?;
        grows("of the next lease", &lease, last_token)?;
        let text = format!("one {number}");
        one.append(&lease, vec![message(&text)]).await?;
        expected.push(text);
        last_token = lease.token();
        drop(lease);
        let lease = lease_soon(other, "a").await?;
        grows("of the other's lease", &lease, last_token)?;
        let text = format!("other {number}");
        other.append(&lease, vec![message(&text)]).await?;
        expected.push(text);
        last_token = lease.token();
        drop(lease);
        same("seen by the one", &texts(one, "a").await?, &expected)?;
    }

    say(one, "b", &["Hi"]).await?;
    same("seen by the other", &ids(other).await?.len(), &2)?;
    drop(lease_soon(other, "b").await?);
    same("removed by the other", &other.delete("b").await?, &true)?;
    same("gone", &one.load("b").await?.is_none(), &true)
}

pub(super) async fn creating(one: &impl SessionStore, other: &impl SessionStore) -> Result<()> {
    let session = || StoredSession::new(full("a"));
    let first = (0..4).map(|_| one.create("a", session()));
    let other_outcomes = (0..4).map(|_| other.create("a", session()));
    let (first, other_outcomes) =
        futures::future::join(join_all(first), join_all(other_outcomes)).await;
    let created = first
        .iter()
        .chain(&other_outcomes)
        .filter(|outcome| outcome.is_ok());
    same("made at once", &created.count(), &1)
}
