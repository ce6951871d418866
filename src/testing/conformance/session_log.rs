//! The contract of [`Log`].

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{ErrorKind, Result};
use crate::message::Message;
use crate::session::{
    Damage, DamageKind, Log, LogStore, LogTail, Record, Repair, SessionStore, StoredSession,
};
use crate::util::blocking::blocking;

use super::checks::{Failures, same, wrong};

/// A check of a log, which may block.
type Check<L> = fn(&L) -> Result<()>;

/// Checks that a [`Log`] fulfills its contract: bytes come back in the order in which they were
/// appended, whole or from the end, even after the log is reopened; one writer at a time has a log;
/// a log is removed only if it has the expected size; ids are distinguished; and a [`LogStore`]
/// over it reports damage once and reads the undamaged part.
///
/// `make` returns an empty log for each check. `reopen` is given a log that is no longer used and
/// returns another over the same bytes; for a log that is lost with the process, it returns the log
/// unchanged. [`session_store`](super::session_store) checks the sessions of a [`LogStore`].
///
/// # Errors
///
/// Returns [`ErrorKind::Other`] with one line for each failed check.
///
/// [`Log`] has an example.
pub async fn session_log<L: Log>(make: impl Fn() -> L, reopen: impl Fn(L) -> L) -> Result<()> {
    let checks: [(&str, Check<L>); 8] = [
        ("appending", appending),
        ("appending to several logs", appending_to_several),
        ("reading the end", ends),
        ("writers", writers),
        ("logs without bytes", unwritten),
        ("lists", lists),
        ("removing", removing),
        ("repairing", repairing),
    ];

    let mut failures = Failures::default();
    for (name, check) in checks {
        let log = make();
        failures.check(name, blocking(move || check(&log)).await);
    }

    failures.check("reopening", reopened(make(), &reopen).await);
    failures.check("ids", ids(make(), &reopen).await);
    failures.check("damage", damage(&make, &reopen).await);
    failures.finish()
}

/// Checks that an outcome is an error of this kind.
fn fails<T>(what: &str, outcome: Result<T>, kind: ErrorKind) -> Result<()> {
    match outcome {
        Ok(_) => Err(wrong(format!("{what}: no error instead of {kind:?}"))),
        Err(error) => same(what, &error.kind(), &kind),
    }
}

/// Appends under a writer of its own.
fn add(log: &impl Log, id: &str, bytes: &[u8]) -> Result<u64> {
    let (mut writer, _) = log.open(id, 1)?;
    log.append(&mut writer, bytes)
}

/// Checks that the end of a log has at least its last `len` bytes, as expected.
fn check_end(what: &str, tail: Option<LogTail>, len: u64, expected: &[u8]) -> Result<()> {
    let tail = tail.unwrap_or_default();
    same(what, &tail.size, &(expected.len() as u64))?;
    let wanted_len = len.min(expected.len() as u64);
    if !expected.ends_with(&tail.bytes) || (tail.bytes.len() as u64) < wanted_len {
        let text = String::from_utf8_lossy(&tail.bytes);
        return Err(wrong(format!("{what}, {len} bytes: {text:?}")));
    }

    Ok(())
}

/// Checks that a whole log has these bytes, however it is read.
fn check_bytes(log: &impl Log, id: &str, expected: &[u8]) -> Result<()> {
    check_end("the whole log", log.tail(id, u64::MAX)?, u64::MAX, expected)?;
    let mut bytes = Vec::new();
    let exists = log.read(id, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;

    if !exists || bytes != expected {
        return Err(wrong("the pieces that are read are not the whole log"));
    }

    let stop = |_: &[u8]| Err(wrong("stop"));
    fails(
        "an error for a piece",
        log.read(id, &mut { stop }),
        ErrorKind::Other,
    )
}

fn has_none(log: &impl Log, id: &str) -> Result<()> {
    same("its end", &log.tail(id, 1)?, &None)?;
    let exists = log.read(id, &mut |_| Ok(()))?;
    same("read", &exists, &false)
}

fn appending(log: &impl Log) -> Result<()> {
    let (mut writer, tail) = log.open("a", 100)?;
    same("a new log", &tail, &LogTail::default())?;
    same("size", &log.append(&mut writer, b"one\n")?, &4)?;
    same("size", &log.append(&mut writer, b"two\n")?, &8)?;
    check_bytes(log, "a", b"one\ntwo\n")?;
    drop(writer);
    let (mut writer, tail) = log.open("a", 100)?;
    check_end("an opened log", Some(tail), 100, b"one\ntwo\n")?;
    let long = [b"x".repeat(300_000), b"\n".to_vec()].concat();
    same("size", &log.append(&mut writer, &long)?, &300_009)?;
    check_bytes(log, "a", &[b"one\ntwo\n", &long[..]].concat())
}

fn appending_to_several(log: &impl Log) -> Result<()> {
    same("no log", &log.append_all(&mut []).len(), &0)?;
    let (mut first, _) = log.open("a", 1)?;
    let (mut second, _) = log.open("b", 1)?;
    let mut appends: [(&mut _, &[u8]); 2] = [(&mut first, b"one\n"), (&mut second, b"three\n")];
    let outcomes = log.append_all(&mut appends).into_iter();
    let sizes = outcomes.collect::<Result<Vec<_>>>()?;
    same("sizes", &sizes, &vec![4, 6])?;
    let mut appends: [(&mut _, &[u8]); 2] = [(&mut second, b"four\n"), (&mut first, b"two\n")];
    let outcomes = log.append_all(&mut appends).into_iter();
    let sizes = outcomes.collect::<Result<Vec<_>>>()?;
    same("sizes", &sizes, &vec![11, 8])?;
    same("size of one", &log.append(&mut first, b"end\n")?, &12)?;
    check_bytes(log, "a", b"one\ntwo\nend\n")?;
    check_bytes(log, "b", b"three\nfour\n")
}

fn ends(log: &impl Log) -> Result<()> {
    let mut bytes = Vec::new();
    for number in 0..100 {
        let line = format!("{number} {}\n", "x".repeat(number * 31 % 1_000));
        add(log, "a", line.as_bytes())?;
        bytes.extend_from_slice(line.as_bytes());
    }

    let size = bytes.len() as u64;
    for len in [1, 2, 100, 10_000, size - 1, size, size + 1, u64::MAX] {
        check_end("the end", log.tail("a", len)?, len, &bytes)?;
        let (_, tail) = log.open("a", len)?;
        check_end("the end of an opened log", Some(tail), len, &bytes)?;
    }

    check_bytes(log, "a", &bytes)
}

fn writers(log: &impl Log) -> Result<()> {
    same("open before", &log.is_open("a")?, &false)?;
    let (mut writer, _) = log.open("a", 1)?;
    fails("a second one", log.open("a", 1), ErrorKind::SessionBusy)?;
    log.append(&mut writer, b"one\n")?;
    fails("a second one", log.open("a", 1), ErrorKind::SessionBusy)?;
    let (other, _) = log.open("b", 1)?;
    drop((writer, other));
    same("size", &add(log, "a", b"two\n")?, &8)
}

fn unwritten(log: &impl Log) -> Result<()> {
    has_none(log, "a")?;
    same("removed", &log.remove("a", None)?, &false)?;
    drop(log.open("a", 100)?);
    has_none(log, "a")?;
    same("ends", &read_ends(log, &["a", "b"])?, &vec![None, None])?;
    same("removed", &log.remove("a", None)?, &false)
}

/// The sizes of logs.
fn read_ends(log: &impl Log, ids: &[&str]) -> Result<Vec<Option<u64>>> {
    let ids: Vec<Arc<str>> = ids.iter().map(|id| Arc::from(*id)).collect();
    log.tails(&ids, 2)?
        .into_iter()
        .map(|tail| Ok(tail?.map(|tail| tail.size)))
        .collect()
}

fn lists(log: &impl Log) -> Result<()> {
    for (id, bytes) in [("b", "one\n"), ("c", "three\n"), ("a", "12\n")] {
        add(log, id, bytes.as_bytes())?;
    }

    let mut ids = log.ids()?;
    ids.sort();
    same("ids", &ids, &vec!["a".into(), "b".into(), "c".into()])?;
    let sizes = vec![Some(6), None, Some(3), Some(4)];
    same("ends", &read_ends(log, &["c", "none", "a", "b"])?, &sizes)?;

    for id in ["b:1", "b:2"] {
        add(log, id, b"one\n")?;
    }
    let mut ids = HashSet::new();
    log.for_each_page_with("b:", &mut |page| {
        ids.extend(page);
        Ok(())
    })?;
    ids.retain(|id| id.starts_with("b:"));
    let expected = HashSet::from(["b:1".into(), "b:2".into()]);
    same("ids with a prefix", &ids, &expected)
}

fn removing(log: &impl Log) -> Result<()> {
    let (mut writer, _) = log.open("a", 1)?;
    log.append(&mut writer, b"one\n")?;
    fails(
        "while it is open",
        log.remove("a", None),
        ErrorKind::SessionBusy,
    )?;
    drop(writer);
    add(log, "b", b"two\n")?;
    same("of another size", &log.remove("a", Some(3))?, &false)?;
    check_bytes(log, "a", b"one\n")?;
    same("of its size", &log.remove("a", Some(4))?, &true)?;
    has_none(log, "a")?;
    same("again", &log.remove("a", None)?, &false)?;
    same("a new log", &add(log, "a", b"new\n")?, &4)?;
    same("of any size", &log.remove("a", None)?, &true)?;
    same("ids", &log.ids()?.contains(&"a".into()), &false)?;
    check_bytes(log, "b", b"two\n")
}

fn repairing(log: &impl Log) -> Result<()> {
    let bytes = b"one\n???\ntwo\nth";
    let (mut writer, _) = log.open("a", 1)?;
    log.append(&mut writer, bytes)?;
    let corrupt = Damage::new(DamageKind::Corrupt, 4, 4);
    let torn = Damage::new(DamageKind::TornTail, 12, 2);
    let repair = Repair::of(bytes, vec![&corrupt], None);
    log.repair(&mut writer, &repair)?;
    check_bytes(log, "a", bytes)?;

    // As if a later step had failed.
    let truncation = Repair::of(bytes, vec![&corrupt, &torn], Some(12));
    for _ in 0..2 {
        log.repair(&mut writer, &truncation)?;
        check_bytes(log, "a", &bytes[..12])?;
    }

    same("size", &log.append(&mut writer, b"four\n")?, &17)?;
    drop(writer);
    check_bytes(log, "a", b"one\n???\ntwo\nfour\n")?;
    add(log, "b", b"to")?;
    let (mut writer, _) = log.open("b", 1)?;
    let torn = Damage::new(DamageKind::TornTail, 0, 2);
    log.repair(&mut writer, &Repair::of(b"to", vec![&torn], Some(0)))?;
    drop(writer);
    has_none(log, "b")
}

async fn reopened<L: Log>(log: L, reopen: &impl Fn(L) -> L) -> Result<()> {
    let log = written(log, |log| add(log, "a", b"one\n")).await?;
    let log = written(reopen(log), |log| {
        check_bytes(log, "a", b"one\n")?;
        add(log, "a", b"two\n")
    });
    let log = written(reopen(log.await?), |log| {
        check_bytes(log, "a", b"one\ntwo\n")?;
        log.remove("a", Some(8))
    });
    let log = reopen(log.await?);
    blocking(move || has_none(&log, "a")).await
}

/// Runs `work`, which may block, and returns the log.
async fn written<L: Log, T>(
    log: L,
    work: impl FnOnce(&L) -> Result<T> + Send + 'static,
) -> Result<L> {
    blocking(move || work(&log).map(|_| log)).await
}

async fn ids<L: Log>(log: L, reopen: &impl Fn(L) -> L) -> Result<()> {
    let long = "x".repeat(200);
    let ids: Vec<Arc<str>> = [
        "a", "A", "a/b", "../a", "a b", "é", "%61", ".", "a.log", &long,
    ]
    .map(Arc::from)
    .to_vec();
    let to_add = ids.clone();
    let (log, stored) = blocking(move || {
        let mut stored = Vec::new();
        for id in to_add {
            match add(&log, &id, format!("{id}\n").as_bytes()) {
                Ok(_) => stored.push(id),
                Err(error) if error.kind() == ErrorKind::InvalidRequest => {}
                Err(error) => return Err(error.context(format!("{id:?}"))),
            }
        }
        Ok((log, stored))
    })
    .await?;

    let log = reopen(log);
    blocking(move || {
        for id in &stored {
            let content = format!("{id}\n");
            let outcome = check_bytes(&log, id, content.as_bytes());
            outcome.map_err(|error| error.context(format!("{id:?}")))?;
        }

        let (mut listed, mut stored) = (log.ids()?, stored);
        listed.sort();
        stored.sort();
        same("ids", &listed, &stored)
    })
    .await
}

/// Stores three messages in a log, and returns its lines.
async fn three_messages<L: Log>(log: L) -> Result<Vec<Vec<u8>>> {
    let store = LogStore::new(log);
    let lease = store.lease("a").await?;
    for text in ["one", "two", "three"] {
        store.append(&lease, vec![message(text)]).await?;
    }

    let reader = store.clone();
    let tail = blocking(move || reader.log().tail("a", u64::MAX)).await?;
    let bytes = tail.unwrap_or_default().bytes;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    Ok(lines.map(<[u8]>::to_vec).collect())
}

/// A damaged log.
struct Damaged {
    name: &'static str,
    log: Vec<u8>,
    /// The kind of the damage that is reported.
    kind: Option<DamageKind>,
    /// The messages that are left.
    texts: &'static [&'static str],
}

async fn damage<L: Log>(make: &impl Fn() -> L, reopen: &impl Fn(L) -> L) -> Result<()> {
    let lines = three_messages(make()).await?;
    same("lines", &lines.len(), &3)?;
    let mut flipped_lines = lines.clone();
    flipped_lines[1][30] ^= 1;
    let mut short_lines = lines.clone();
    short_lines[2].truncate(40);
    let outer_lines = vec![lines[0].clone(), lines[2].clone()];
    let mut open_lines = lines.clone();
    open_lines[2].pop();
    let case = |name, lines: Vec<Vec<u8>>, kind, texts| Damaged {
        name,
        log: lines.concat(),
        kind,
        texts,
    };
    let cases = [
        case(
            "a flipped bit",
            flipped_lines,
            Some(DamageKind::Corrupt),
            &["one", "three"][..],
        ),
        case(
            "a cut line",
            short_lines,
            Some(DamageKind::TornTail),
            &["one", "two"],
        ),
        case(
            "a missing line",
            outer_lines,
            Some(DamageKind::Missing),
            &["one", "three"],
        ),
        case(
            "a line without its end",
            open_lines,
            None,
            &["one", "two", "three"],
        ),
    ];

    for Damaged {
        name,
        log: bytes,
        kind,
        texts,
    } in cases
    {
        let log = written(make(), move |log| add(log, "a", &bytes)).await?;
        let outcome = is_repaired(LogStore::new(reopen(log)), kind, texts).await;
        outcome.map_err(|error| error.context(name))?;
    }

    Ok(())
}

/// Checks that a damaged session is reported once, and is writable.
async fn is_repaired<L: Log>(
    store: LogStore<L>,
    kind: Option<DamageKind>,
    texts: &[&str],
) -> Result<()> {
    let lease = store.lease("a").await?;
    let session = store.load("a").await?.unwrap_or_default();
    let kinds: Vec<_> = session.damage.iter().map(|damage| damage.kind).collect();
    same("damage", &kinds, &kind.into_iter().collect())?;
    same_texts(&session, texts)?;
    store.append(&lease, vec![message("next")]).await?;
    drop(lease);
    let session = store.load("a").await?.unwrap_or_default();
    same_texts(&session, &[texts, &["next"]].concat())?;
    same("list", &store.list().await?.len(), &1)?;
    let lease = store.lease("a").await?;
    let session = store.load("a").await?.unwrap_or_default();
    same("damage afterwards", &session.damage.len(), &0)?;
    drop(lease);
    Ok(())
}

fn same_texts(session: &StoredSession, expected: &[&str]) -> Result<()> {
    let messages = session.state.messages.iter();
    let texts: Vec<_> = messages
        .map(|message| message.text().into_owned())
        .collect();
    let expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
    same("messages", &texts, &expected)
}

fn message(text: &str) -> Record {
    Record::Message {
        message: Message::human(text).into(),
        input_id: None,
    }
}
