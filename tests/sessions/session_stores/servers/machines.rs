//! Several machines that share a server.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentcore::session::Lease;
use agentcore::testing::conformance;
use agentcore::{ErrorKind, SessionStore};

use super::for_each_server;
use super::real::{Kind, Real, Space};
use crate::session_stores::crash::{FOLDER, child, is_killed, name, runtime, say};
use crate::session_stores::places::{Place, said};

type Lines = std::io::Lines<BufReader<ChildStdout>>;

for_each_server!(
    store_passes_the_suite,
    lease_excludes_other_machines,
    expired_lease_is_taken_over_and_its_writes_are_conflicts,
    holder_of_an_expired_lease_continues_when_not_replaced,
    leases_are_renewed_while_held,
    lease_of_a_killed_process_expires,
    stores_with_different_prefixes_are_separate,
    a_log_over_the_limit_is_refused_and_left_as_it_is,
    layout_of_a_newer_version_is_left_unchanged,
    concurrent_stores_create_their_tables,
    released_leases_and_deleted_sessions_leave_no_rows,
    few_connections_serve_many_sessions,
    write_of_a_resumed_process_with_an_expired_lease_is_a_conflict,
);

async fn say_in(store: &impl SessionStore, id: &str, text: &str) {
    let lease = store.lease(id).await.unwrap();
    store.append(&lease, vec![said(text)]).await.unwrap();
}

async fn texts(store: &impl SessionStore, id: &str) -> Vec<String> {
    let session = store.load(id).await.unwrap().unwrap_or_default();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    let messages = session.state.messages.iter();
    messages
        .map(|message| message.text().into_owned())
        .collect()
}

/// Waits for the lease.
async fn lease_soon(store: &impl SessionStore, id: &str) -> Lease {
    loop {
        match store.lease(id).await {
            Ok(lease) => return lease,
            Err(error) => assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}"),
        }
    }
}

async fn store_passes_the_suite<K: Kind>() {
    let space = Space::<K>::new();
    let count = AtomicUsize::new(0);
    let spaces = std::sync::Mutex::new(Vec::new());
    let make = || async {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let part = Space::<K>::at(
            space.url.clone(),
            format!("{}_{number}", &space.prefix[..20]),
        );
        let store = part.store();
        spaces.lock().unwrap().push(part);
        store
    };

    let reopen = |store: K| {
        drop(store);
        let part = spaces.lock().unwrap().last().unwrap().clone();
        async move { part.store() }
    };

    conformance::session_store(make, reopen).await.unwrap();
}

async fn lease_excludes_other_machines<K: Kind>() {
    let space = Space::<K>::new();
    let (one, two) = (space.store(), space.store());
    let lease = one.lease("a").await.unwrap();
    for kind in [
        two.lease("a").await.unwrap_err().kind(),
        two.create("a", Default::default())
            .await
            .unwrap_err()
            .kind(),
        two.delete("a").await.unwrap_err().kind(),
    ] {
        assert_eq!(kind, ErrorKind::SessionBusy);
    }

    one.append(&lease, vec![said("one")]).await.unwrap();
    assert_eq!(two.prune(Duration::ZERO).await.unwrap(), 0);
    assert_eq!(texts(&two, "a").await, ["one"]);
    let token = lease.token();
    for round in 0..10 {
        // A released lease is available to the other store long before it would expire.
        drop(one.lease("turns").await.unwrap());
        let lease = lease_soon(&two, "turns").await;
        let text = round.to_string();
        two.append(&lease, vec![said(&text)]).await.unwrap();
    }

    drop(lease);
    let lease = lease_soon(&two, "a").await;
    assert!(
        lease.token() > token,
        "the token continues that of the other store"
    );
    two.append(&lease, vec![said("two")]).await.unwrap();
    drop(lease);
    assert_eq!(texts(&one, "a").await, ["one", "two"]);
    assert!(one.delete("a").await.unwrap());
    assert!(two.load("a").await.unwrap().is_none());
}

async fn expired_lease_is_taken_over_and_its_writes_are_conflicts<K: Kind>() {
    let space = Space::<K>::new();
    let (one, two) = (space.store(), space.store());
    say_in(&one, "old", "zero").await;
    for id in ["old", "new"] {
        let before = texts(&one, id).await;
        let paused = one.lease(id).await.unwrap();
        space.expire(id);

        // A new lease excludes the former holder, even without a write.
        drop(two.lease(id).await.unwrap());
        let writes = !before.is_empty();
        if !writes {
            say_in(&two, id, "two").await;
        }

        let late = one.append(&paused, vec![said("late")]).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict, "{id}: {late}");
        let save = one.save(&paused, &Default::default()).await.unwrap_err();
        assert_eq!(save.kind(), ErrorKind::Conflict, "{id}: {save}");
        let now = texts(&two, id).await;
        assert_eq!(
            now.len(),
            before.len() + usize::from(!writes),
            "{id}: {now:?}"
        );
        drop(paused);
        say_in(&one, id, "next").await;
        assert_eq!(texts(&two, id).await.last().unwrap(), "next");
    }

    // The session is deleted and created again with the same length.
    say_in(&one, "again", "same").await;
    let paused = one.lease("again").await.unwrap();
    space.expire("again");
    assert!(two.delete("again").await.unwrap());
    say_in(&two, "again", "same").await;
    let late = one.append(&paused, vec![said("late")]).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Conflict);
    assert_eq!(texts(&two, "again").await, ["same"]);
}

async fn holder_of_an_expired_lease_continues_when_not_replaced<K: Kind>() {
    let space = Space::<K>::new();
    let (one, two) = (space.store(), space.store());
    let paused = one.lease("a").await.unwrap();
    for text in ["one", "two", "three"] {
        space.expire("a");
        one.append(&paused, vec![said(text)]).await.unwrap();
        let busy = two.lease("a").await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::SessionBusy, "the lease is renewed");
    }
    drop(paused);
    assert_eq!(texts(&two, "a").await, ["one", "two", "three"]);
}

async fn leases_are_renewed_while_held<K: Kind>() {
    let space = Space::<K>::new();
    let lease_time = Duration::from_secs(3);
    let short = space.options().lease_time(lease_time);
    let (one, two) = (space.store_with(short), space.store());
    let _a = one.lease("a").await.unwrap();
    let _b = one.lease("b").await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < 2 * lease_time {
        for id in ["a", "b"] {
            let busy = two.lease(id).await.unwrap_err();
            assert_eq!(busy.kind(), ErrorKind::SessionBusy);
        }
    }
}

async fn stores_with_different_prefixes_are_separate<K: Kind>() {
    let space = Space::<K>::new();
    let short = &space.prefix[..20];
    let parts: Vec<_> = ["_a", "_a_log", "_ab"]
        .map(|name| Space::<K>::at(space.url.clone(), format!("{short}{name}")))
        .into();
    for part in &parts {
        for id in ["x", "log:x", "a:log:x"] {
            say_in(&part.store(), id, &part.prefix).await;
        }
    }

    for part in &parts {
        let store = part.store();
        let list = store.list().await.unwrap();
        assert_eq!(list.len(), 3);
        for info in &list {
            assert_eq!(texts(&store, &info.id).await, [&*part.prefix]);
        }
    }

    let held = parts[0].store().lease("x").await.unwrap();
    drop(parts[1].store().lease("x").await.unwrap());
    assert_eq!(parts[1].store().prune(Duration::ZERO).await.unwrap(), 3);
    assert_eq!(parts[2].store().list().await.unwrap().len(), 3);
    drop(held);
    for wrong in [
        "",
        "A",
        "a-b",
        "a:b",
        "1a",
        "a b",
        "\u{e4}",
        &"a".repeat(41),
        "a;--",
    ] {
        let error = K::open(&space.url, space.options().prefix(wrong)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{wrong:?}");
    }
}

async fn layout_of_a_newer_version_is_left_unchanged<K: Kind>() {
    let space = Space::<K>::new();
    say_in(&space.store(), "a", "one").await;
    let before = K::log(&space.url, &space.prefix, "a");
    K::make_newer(&space.url, &space.prefix);
    let store = space.store();
    for error in [
        store.load("a").await.unwrap_err(),
        store.lease("a").await.unwrap_err(),
        store.list().await.unwrap_err(),
        store.delete("a").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::VersionTooNew, "{error}");
        assert!(error.text().contains("version 2"), "{error}");
    }

    assert_eq!(K::log(&space.url, &space.prefix, "a"), before);
}

async fn concurrent_stores_create_their_tables<K: Kind>() {
    let space = Space::<K>::new();
    let stores: Vec<_> = (0..8).map(|_| space.store()).collect();
    let writes = stores.iter().enumerate().map(|(number, store)| async move {
        say_in(store, &number.to_string(), "Hi").await;
    });
    futures::future::join_all(writes).await;
    assert_eq!(stores[0].list().await.unwrap().len(), 8);
}

async fn released_leases_and_deleted_sessions_leave_no_rows<K: Kind>() {
    let space = Space::<K>::new();
    let store = space.store();
    assert!(store.list().await.unwrap().is_empty());
    let before = K::count(&space.url, &space.prefix);
    drop(store.lease("a").await.unwrap());
    say_in(&store, "b", "one").await;
    K::put(&space.url, &space.prefix, "b", b"torn");
    drop(store.lease("b").await.unwrap());
    assert!(store.load("b").await.unwrap().is_none());
    say_in(&store, "b", "one").await;
    assert!(store.delete("b").await.unwrap());

    // Dropping the store releases its leases while the runtime is running.
    drop(store);
    for _ in 0..10_000 {
        if K::count(&space.url, &space.prefix) == before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(K::count(&space.url, &space.prefix), before);
    assert!(K::aside(&space.url, &space.prefix, "b").is_empty());
    let other = space.store();
    drop(other.lease("a").await.unwrap());
}

async fn few_connections_serve_many_sessions<K: Kind>() {
    let space = Space::<K>::new();
    let store = space.store_with(space.options().max_connections(2));
    let writes = (0..40).map(|number| {
        let store = store.clone();
        async move {
            let id = number.to_string();
            let lease = store.lease(&id).await.unwrap();
            for text in ["one", "two"] {
                store.append(&lease, vec![said(text)]).await.unwrap();
            }
        }
    });

    futures::future::join_all(writes).await;
    for info in store.list().await.unwrap() {
        assert_eq!(texts(&store, &info.id).await, ["one", "two"]);
    }
}

/// The work of the children of the next tests.
fn write_twice<K: Kind>(folder: &Path) {
    runtime().block_on(async {
        // The lease lasts long enough for the other process to see it.
        let store = Real::<K>::open_with_lease_time(folder, Duration::from_secs(3));
        let lease = store.lease("s").await.unwrap();
        store.append(&lease, vec![said("first")]).await.unwrap();
        say("wrote");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let late = store.append(&lease, vec![said("late")]).await;
        say(&format!("{:?}", late.map_err(|error| error.kind())));
    });
}

/// Starts a child that has a lease and has written. Returns `None` in the child itself, after its
/// work.
fn other_process<K: Kind>(test: &str, folder: &Path) -> Option<(Child, Lines)> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let working = std::thread::spawn(move || write_twice::<K>(Path::new(&folder)));
        working.join().unwrap();
        return None;
    }

    let is_redis = K::VARIABLE.ends_with("REDIS");
    let module = if is_redis {
        "real_redis"
    } else {
        "real_postgres"
    };

    let mut child = child(&test.replace("KIND", module), folder);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("@wrote")));
    Some((child, lines))
}

async fn write_of_a_resumed_process_with_an_expired_lease_is_a_conflict<K: Kind>() {
    let folder = tempfile::tempdir().unwrap();
    let test = name!("KIND::write_of_a_resumed_process_with_an_expired_lease_is_a_conflict");
    let Some((mut child, lines)) = other_process::<K>(test, folder.path()) else {
        return;
    };

    let store = <Real<K> as Place>::open(folder.path());
    let signal = |name: &str| {
        let mut kill = std::process::Command::new("kill");
        kill.args([name, &child.id().to_string()]).status().unwrap();
    };

    signal("-STOP");
    let lease = lease_soon(&store, "s").await;
    store.append(&lease, vec![said("second")]).await.unwrap();
    drop(lease);
    signal("-CONT");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut output = lines.map(|line| line.unwrap());
    let output = output.find(|line| line.contains('@'));
    assert!(output.unwrap().contains("Err(Conflict)"));
    child.wait().unwrap();
    assert_eq!(texts(&store, "s").await, ["first", "second"]);
}

async fn lease_of_a_killed_process_expires<K: Kind>() {
    let folder = tempfile::tempdir().unwrap();
    let test = name!("KIND::lease_of_a_killed_process_expires");
    let Some((mut child, _lines)) = other_process::<K>(test, folder.path()) else {
        return;
    };

    let store = <Real<K> as Place>::open(folder.path());
    let busy = store.lease("s").await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::SessionBusy);
    child.kill().unwrap();
    child.wait().unwrap();
    let lease = lease_soon(&store, "s").await;
    store.append(&lease, vec![said("second")]).await.unwrap();
    assert_eq!(texts(&store, "s").await, ["first", "second"]);
}

/// Waits for the leases of killed processes to expire in between.
#[cfg(feature = "postgres")]
#[test]
fn real_postgres_keeps_acknowledged_writes_of_killed_processes() {
    use agentcore::session::PostgresStore;
    if super::is_there::<PostgresStore>() {
        let test = name!("real_postgres_keeps_acknowledged_writes_of_killed_processes");
        is_killed::<Real<PostgresStore>>(test);
    }
}

#[cfg(feature = "redis")]
#[test]
fn real_redis_keeps_acknowledged_writes_of_killed_processes() {
    use agentcore::session::RedisStore;
    if super::is_there::<RedisStore>() {
        let test = name!("real_redis_keeps_acknowledged_writes_of_killed_processes");
        is_killed::<Real<RedisStore>>(test);
    }
}

async fn a_log_over_the_limit_is_refused_and_left_as_it_is<K: Kind>() {
    let space = Space::<K>::new();
    let text = "x".repeat(10_000);
    say_in(&space.store(), "a", &text).await;
    let log = K::log(&space.url, &space.prefix, "a");
    let small = space.store_with(space.options().max_session_bytes(10_000));
    let errors = [
        small.load("a").await.unwrap_err(),
        lease_soon_or_refused(&small, "a").await,
        small.fork_at("a", "b", 1).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let size = format!("has {} bytes, more than the 10000", log.len());
        for part in [&size, "ServerOptions::max_session_bytes", "left untouched"] {
            assert!(error.text().contains(part), "{part}: {error}");
        }
    }

    assert_eq!(K::log(&space.url, &space.prefix, "a"), log);
    let lease = small.lease("b").await.unwrap();
    let error = small.append(&lease, vec![said(&text)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    small.append(&lease, vec![said("short")]).await.unwrap();
    assert_eq!(texts(&small, "b").await, ["short"]);
    assert_eq!(texts(&space.store(), "a").await, [text]);
}

/// Waits until no other store has the lease, and returns the error of taking it.
async fn lease_soon_or_refused(store: &impl SessionStore, id: &str) -> agentcore::Error {
    loop {
        match store.lease(id).await {
            Ok(_) => panic!("the session was leased"),
            Err(error) if error.kind() == ErrorKind::SessionBusy => {}
            Err(error) => return error,
        }
    }
}
