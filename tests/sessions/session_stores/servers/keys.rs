//! Redis: its keys, read and changed without the store.

use std::time::{Duration, Instant};

use agentcore::session::{RedisStore, ServerOptions};
use agentcore::{ErrorKind, Result, SessionStore};
use redis::{Cmd, Connection, FromRedisValue, cmd};

use super::own::{Own, Startable};
use super::real::{Kind, Space, is_there};
use crate::session_stores::places::said;

fn open(url: &str) -> Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

pub fn ask<T: FromRedisValue>(url: &str, command: &mut Cmd) -> T {
    command.query(&mut open(url)).unwrap()
}

fn keys(url: &str, prefix: &str) -> Vec<String> {
    ask(url, cmd("KEYS").arg(format!("{prefix}:*")))
}

impl Kind for RedisStore {
    const VARIABLE: &str = "AGENTCORE_TEST_REDIS";
    const EXAMPLE: &str = "redis://127.0.0.1:6379";
    const ASIDE: &str = ":damaged:a of Redis at";
    const SNAPSHOT_AFTER: usize = 8 * 1024 * 1024;

    fn open(url: &str, options: ServerOptions) -> Result<Self> {
        Self::with_options(url, options)
    }

    fn clear(url: &str, prefix: &str) {
        for key in keys(url, prefix) {
            ask::<()>(url, cmd("DEL").arg(key));
        }
    }

    fn count(url: &str, prefix: &str) -> usize {
        keys(url, prefix).len()
    }

    fn log(url: &str, prefix: &str, id: &str) -> Vec<u8> {
        ask(url, cmd("GET").arg(format!("{prefix}:log:{id}")))
    }

    fn put(url: &str, prefix: &str, id: &str, bytes: &[u8]) {
        let (log, sessions) = (format!("{prefix}:log:{id}"), format!("{prefix}:sessions"));
        if bytes.is_empty() {
            ask::<()>(url, cmd("DEL").arg(log));
            return ask(url, cmd("HDEL").arg(sessions).arg(id));
        }
        ask::<()>(url, cmd("SET").arg(log).arg(bytes));
        ask::<()>(url, cmd("HSETNX").arg(sessions).arg(id).arg("nobody/1"));
    }

    fn aside(url: &str, prefix: &str, id: &str) -> Vec<(u64, Vec<u8>)> {
        let mut range = cmd("LRANGE");
        range.arg(format!("{prefix}:damaged:{id}")).arg(0).arg(-1);
        let kept: Vec<Vec<u8>> = ask(url, &mut range);
        let kept = kept.iter().map(|kept| {
            let at = kept.iter().position(|byte| *byte == b'\n').unwrap();
            let head = std::str::from_utf8(&kept[..at]).unwrap();
            let (offset, _) = head.split_once(' ').unwrap();
            (offset.parse().unwrap(), kept[at + 1..].to_vec())
        });
        kept.collect()
    }

    fn forget_aside(url: &str, prefix: &str, id: &str) {
        ask::<()>(url, cmd("DEL").arg(format!("{prefix}:damaged:{id}")));
    }

    fn expire(url: &str, prefix: &str, id: &str) {
        ask::<()>(url, cmd("DEL").arg(format!("{prefix}:lease:{id}")));
    }

    fn make_newer(url: &str, prefix: &str) {
        ask::<()>(url, cmd("SET").arg(format!("{prefix}:version")).arg(2));
    }
}

#[tokio::test]
async fn real_redis_reports_an_evicted_log_as_corrupt() {
    if !is_there::<RedisStore>() {
        return;
    }

    let space = Space::<RedisStore>::new();
    let store = space.store();
    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![said("one")]).await.unwrap();
    ask::<()>(
        &space.url,
        cmd("DEL").arg(format!("{}:log:a", space.prefix)),
    );
    let refusal = store.append(&lease, vec![said("two")]).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Conflict);
    drop(lease);
    for error in [
        store.load("a").await.unwrap_err(),
        store.lease("a").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.text().contains("evicts"), "{error}");
    }

    let list = store.list().await.unwrap();
    assert!(list[0].problem.is_some(), "{list:?}");
    assert!(store.delete("a").await.unwrap());
    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![said("anew")]).await.unwrap();
}

#[tokio::test]
async fn real_redis_without_memory_allows_reads_and_deletes() {
    let Some(server) = Own::start::<RedisStore>() else {
        return;
    };

    let url = RedisStore::url_at(server.port());
    let allow = |bytes: u32| {
        let mut set = cmd("CONFIG");
        ask::<()>(&url, set.arg("SET").arg("maxmemory").arg(bytes));
    };

    let lease_time = Duration::from_secs(4);
    let short = ServerOptions::default().lease_time(lease_time);
    let holder = RedisStore::with_options(&url, short).unwrap();
    let leases = ["a", "b", "c"].map(async |id| {
        let lease = holder.lease(id).await.unwrap();
        holder.append(&lease, vec![said("one")]).await.unwrap();
        lease
    });

    let [a, b, c] = futures::future::join_all(leases).await.try_into().unwrap();
    drop((a, b));
    allow(1);
    let error = holder.append(&c, vec![said("two")]).await.unwrap_err();
    assert!(error.text().contains("OOM"), "{error}");
    let store = RedisStore::open(&url).unwrap();
    assert_eq!(store.list().await.unwrap().len(), 3);
    let session = store.load("a").await.unwrap().unwrap();
    assert_eq!(session.state.messages.len(), 1);

    // The lease would expire in this time without renewals.
    let begun = Instant::now();
    while begun.elapsed() < lease_time + Duration::from_secs(1) {
        let busy = store.delete("c").await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::SessionBusy, "{busy}");
    }

    assert!(store.delete("a").await.unwrap());
    assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 1);
    allow(0);
    holder.append(&c, vec![said("three")]).await.unwrap();
    drop(c);
    assert!(holder.delete("c").await.unwrap());
    assert!(store.list().await.unwrap().is_empty());
}

/// Returns a number from the server's report.
fn info(url: &str, name: &str) -> usize {
    let report: String = ask(url, cmd("INFO").arg("memory"));
    let value = report.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap().trim().parse().unwrap()
}

/// The list has the format of an older version.
#[tokio::test]
async fn real_redis_repair_looks_only_at_its_own_parts() {
    let Some(server) = Own::start::<RedisStore>() else {
        return;
    };

    let url = RedisStore::url_at(server.port());
    let (list, prefix) = ("agentcore:damaged:a", "agentcore");
    for number in 0..64 {
        let head = format!("{number} damaged\n");
        let old_part = [head.as_bytes(), &vec![b'x'; 1024 * 1024]].concat();
        ask::<()>(&url, cmd("RPUSH").arg(list).arg(&old_part));
    }
    let junk = [&b"x\n\n".repeat(5_999)[..], b"x\n"].concat();
    RedisStore::put(&url, prefix, "a", &junk);
    let before = info(&url, "used_memory:");
    let store = RedisStore::open(&url).unwrap();
    drop(store.lease("a").await.unwrap());
    let memory = info(&url, "used_memory_peak:") - before;
    assert!(memory < 16 * 1024 * 1024, "{memory} bytes");
    assert_eq!(RedisStore::aside(&url, prefix, "a").len(), 6_064);

    // A second repair of the same parts adds none, unless the list was removed.
    for (is_gone, count) in [(false, 6_064), (true, 6_000)] {
        if is_gone {
            RedisStore::forget_aside(&url, prefix, "a");
        }
        RedisStore::put(&url, prefix, "a", &junk);
        drop(store.lease("a").await.unwrap());
        let aside = RedisStore::aside(&url, prefix, "a");
        assert_eq!(aside.len(), count);
    }
    assert!(store.delete("a").await.unwrap());
    for key in keys(&url, prefix) {
        assert!(!key.ends_with(":a"), "{key} is left");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unix_socket_with_a_full_backlog_is_a_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(&path).unwrap();
    let _listener = socket.listen(1).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::net::UnixStream::connect(&path).await {
        waiting.push(stream);
    }

    let hasty = ServerOptions::default()
        .timeout(Duration::from_millis(200))
        .max_retry_time(Duration::from_millis(100));
    let url = format!("redis+unix://{}", path.display());
    let store = RedisStore::with_options(url, hasty).unwrap();
    let error = store.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}
