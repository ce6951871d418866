//! Lost requests and responses: no write is executed twice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::SessionStore;
use agentcore::message::Todo;
use agentcore::session::Record;

use super::for_each_server;
#[cfg(feature = "redis")]
use super::keys::ask;
#[cfg(feature = "redis")]
use super::own::{Own, Startable};
use super::real::{Kind, Space};
use crate::session_stores::places::{let_go, said};

for_each_server!(
    repeated_requests_write_nothing_twice,
    repeated_requests_set_damage_aside_once,
    writes_survive_lost_requests_and_responses,
    list_reads_many_sessions_per_request,
    list_reads_only_the_ends_of_long_logs,
    large_write_may_take_longer_than_the_idle_timeout,
    long_log_is_opened_at_its_snapshot,
    lost_answer_to_a_snapshot_loses_nothing,
);

/// The part of an exchange that is lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// The request does not arrive.
    Request,
    /// The request is executed, but its response does not arrive.
    Answer,
    /// The request does not arrive, and the connection stays open.
    #[cfg(feature = "postgres")]
    Machine,
}

/// The lost part, and the text in the request that triggers the loss.
type Loss = (Lost, Vec<u8>);

/// A proxy between a store and its server, which cuts the connection at a certain request.
#[derive(Clone)]
struct Proxy {
    port: u16,
    next: Arc<Mutex<Option<Loss>>>,
    /// The number of pieces of requests.
    request_pieces: Arc<AtomicUsize>,
    /// The number of bytes of responses.
    response_bytes: Arc<AtomicUsize>,
    /// True if each piece takes 50 ms.
    is_slow: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy for the server of `url`. Returns the proxy and its URL.
    fn start(url: &str) -> (Self, String) {
        let (head, rest) = url.split_once("://").unwrap();
        let (rest, tail) = rest.split_once('/').map_or((rest, ""), |(a, b)| (a, b));
        let (user, server) = rest.rsplit_once('@').map_or(("", rest), |(a, b)| (a, b));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            next: Arc::default(),
            request_pieces: Arc::default(),
            response_bytes: Arc::default(),
            is_slow: Arc::default(),
        };

        let at = if user.is_empty() { "" } else { "@" };
        let url = format!("{head}://{user}{at}127.0.0.1:{}/{tail}", proxy.port);
        let (all, server) = (proxy.clone(), server.to_owned());

        // The thread ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                all.connect(client.unwrap(), TcpStream::connect(&server).unwrap());
            }
        });

        (proxy, url)
    }

    fn lose(&self, what: Lost, mark: &str) {
        *self.next.lock().unwrap() = Some((what, mark.as_bytes().to_vec()));
    }

    fn was_lost(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }

    /// Waits for the delay of a slow link.
    fn carry(&self) {
        if self.is_slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn connect(&self, client: TcpStream, server: TcpStream) {
        let swallow = Arc::new(AtomicBool::new(false));
        let clone = |stream: &TcpStream| stream.try_clone().unwrap();
        let (mut from, mut to) = (clone(&client), clone(&server));
        let (proxy, is_lost) = (self.clone(), swallow.clone());
        std::thread::spawn(move || {
            let mut received = Vec::new();
            let mut bytes = [0; 65_536];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                received.extend_from_slice(&bytes[..len]);
                proxy.request_pieces.fetch_add(1, Ordering::SeqCst);
                match proxy.take_loss(&mut received) {
                    Some(Lost::Request) => break,
                    Some(Lost::Answer) => is_lost.store(true, Ordering::SeqCst),
                    #[cfg(feature = "postgres")]
                    Some(Lost::Machine) => loop {
                        std::thread::park();
                    },
                    None => {}
                }

                proxy.carry();
                if to.write_all(&bytes[..len]).is_err() {
                    break;
                }
            }

            let _ = from.shutdown(Shutdown::Both);
            if !is_lost.load(Ordering::SeqCst) {
                let _ = to.shutdown(Shutdown::Both);
            }
        });

        let proxy = self.clone();
        std::thread::spawn(move || {
            let (mut from, mut to) = (server, client);
            let mut bytes = [0; 65_536];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                proxy.response_bytes.fetch_add(len, Ordering::SeqCst);
                proxy.carry();
                if swallow.load(Ordering::SeqCst) || to.write_all(&bytes[..len]).is_err() {
                    break;
                }
            }

            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }

    fn take_loss(&self, seen: &mut Vec<u8>) -> Option<Lost> {
        let mut next = self.next.lock().unwrap();
        let Some((_, mark)) = next.as_ref() else {
            seen.clear();
            return None;
        };
        let is_said = seen.windows(mark.len()).any(|part| part == mark);
        is_said.then(|| next.take().map(|(what, _)| what)).flatten()
    }
}

async fn texts(store: &impl SessionStore, id: &str) -> Vec<String> {
    let session = store.load(id).await.unwrap().unwrap();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    let messages = session.state.messages.iter();
    messages
        .map(|message| message.text().into_owned())
        .collect()
}

async fn repeated_requests_write_nothing_twice<K: Kind>() {
    let space = Space::<K>::new();
    let (proxy, url) = Proxy::start(&space.url);
    let store = K::open(&url, space.options()).unwrap();
    for (id, lost) in [("session_a", Lost::Answer), ("session_b", Lost::Request)] {
        proxy.lose(lost, id);
        let lease = store.lease(id).await.unwrap();
        assert!(proxy.was_lost());
        for text in ["first words", "second words", "third words"] {
            proxy.lose(lost, text);
            store.append(&lease, vec![said(text)]).await.unwrap();
            assert!(proxy.was_lost(), "{lost:?} {text}");
            store.append(&lease, vec![said("and on")]).await.unwrap();
        }

        drop(lease);
        let expected = [
            "first words",
            "and on",
            "second words",
            "and on",
            "third words",
            "and on",
        ];
        assert_eq!(texts(&space.store(), id).await, expected, "{lost:?}");
        let mut torn = K::log(&space.url, &space.prefix, id);
        torn.extend_from_slice(b"torn words");
        K::put(&space.url, &space.prefix, id, &torn);

        // The damaged part is set aside by a request that has its bytes.
        proxy.lose(lost, "torn words");
        drop(store.lease(id).await.unwrap());
        assert!(proxy.was_lost());
        assert_eq!(texts(&space.store(), id).await, expected, "{lost:?}");
        assert_eq!(K::aside(&space.url, &space.prefix, id).len(), 1, "{lost:?}");
        proxy.lose(lost, id);
        assert!(store.delete(id).await.unwrap(), "{lost:?}");
        assert!(proxy.was_lost());
        assert!(store.load(id).await.unwrap().is_none());
    }
}

/// Damage in the middle does not change the length of the log, so only the offsets show what a
/// request has already done.
async fn repeated_requests_set_damage_aside_once<K: Kind>() {
    let space = Space::<K>::new();
    let (proxy, url) = Proxy::start(&space.url);
    let store = K::open(&url, space.options()).unwrap();
    for (id, lost) in [("session_a", Lost::Answer), ("session_b", Lost::Request)] {
        let lease = store.lease(id).await.unwrap();
        for text in ["one", "two words", "three", "four words", "five"] {
            store.append(&lease, vec![said(text)]).await.unwrap();
        }

        drop(lease);
        let text = String::from_utf8(K::log(&space.url, &space.prefix, id)).unwrap();

        // The length stays the same, and there are two damaged parts of the same kind.
        let damaged = text.replace("two", "t*o").replace("four", "f*ur");
        K::put(&space.url, &space.prefix, id, damaged.as_bytes());
        let last = if K::VARIABLE.ends_with("REDIS") {
            "f*ur"
        } else {
            "commit"
        };

        proxy.lose(lost, last);
        let lease = store.lease(id).await.unwrap();
        assert!(proxy.was_lost());
        let session = store.load(id).await.unwrap().unwrap();
        assert_eq!((session.state.messages.len(), session.damage.len()), (3, 2));
        store.append(&lease, vec![said("six")]).await.unwrap();
        drop(lease);
        let expected = ["one", "three", "five", "six"];
        assert_eq!(texts(&space.store(), id).await, expected);
        let aside = K::aside(&space.url, &space.prefix, id);
        let lines = damaged.split_inclusive('\n');
        let lines: Vec<_> = lines.filter(|line| line.contains('*')).collect();
        let parts: Vec<_> = aside.iter().map(|(_, part)| &part[..]).collect();
        let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
        assert!(parts == lines, "{lost:?}: {} parts", parts.len());
    }
}

async fn writes_survive_lost_requests_and_responses<K: Kind>() {
    let space = Space::<K>::new();
    let (proxy, url) = Proxy::start(&space.url);
    let store = K::open(&url, space.options()).unwrap();
    let lease = store.lease("s").await.unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let all: Vec<_> = (0..60).map(|number| format!("words {number}.")).collect();
    for text in &all {
        match random.u8(..3) {
            0 => proxy.lose(Lost::Request, text),
            1 => proxy.lose(Lost::Answer, text),
            _ => {}
        }

        store.append(&lease, vec![said(text)]).await.unwrap();
    }

    drop(lease);
    assert_eq!(texts(&space.store(), "s").await, all);
}

async fn list_reads_many_sessions_per_request<K: Kind>() {
    let space = Space::<K>::new();
    let (proxy, url) = Proxy::start(&space.url);
    let store = K::open(&url, space.options()).unwrap();
    let long = "words ".repeat(10_000);
    for number in 0..120 {
        let text = if number % 40 == 7 { &*long } else { "words" };
        let id = number.to_string();
        let lease = store.lease(&id).await.unwrap();
        store.append(&lease, vec![said(text)]).await.unwrap();
    }

    // Leases are released in the background, by requests that must not be counted.
    let other = space.store();
    for number in 0..120 {
        while other.is_leased(&number.to_string()).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    let before = proxy.request_pieces.load(Ordering::SeqCst);
    let list = store.list().await.unwrap();
    let request_count = proxy.request_pieces.load(Ordering::SeqCst) - before;
    assert_eq!(list.len(), 120);
    for (at, info) in list.iter().enumerate() {
        assert_eq!(*info.id, *(119 - at).to_string());
        assert_eq!((info.messages, &info.problem), (1, &None), "{info:?}");
        assert!(info.title.as_ref().unwrap().starts_with("words"));
    }

    assert!(
        request_count < 60,
        "{request_count} requests for 120 sessions"
    );
}

async fn list_reads_only_the_ends_of_long_logs<K: Kind>() {
    let space = Space::<K>::new();
    let (proxy, url) = Proxy::start(&space.url);
    let store = K::open(&url, space.options()).unwrap();

    // One write with many records, as that of a fork.
    let long = "long ".repeat(2_000);
    let mut records: Vec<_> = (0..300).map(|_| said(&long)).collect();
    records.push(said("the end"));
    for id in ["a", "b", "c"] {
        let lease = store.lease(id).await.unwrap();
        store.append(&lease, records.clone()).await.unwrap();
    }

    let before = proxy.response_bytes.load(Ordering::SeqCst);
    let list = store.list().await.unwrap();
    let byte_count = proxy.response_bytes.load(Ordering::SeqCst) - before;
    for info in &list {
        assert_eq!((info.messages, &info.problem), (301, &None), "{info:?}");
        assert!(info.size.unwrap() > 3_000_000, "{info:?}");
    }

    assert_eq!(list.len(), 3);
    assert!(byte_count < 200_000, "{byte_count} bytes for three ends");
}

/// Writes a message and task lists until the log is due for a snapshot, which is short.
async fn write_until_due<K: Kind>(store: &K) {
    let lease = store.lease("a").await.unwrap();
    for number in 0..=K::SNAPSHOT_AFTER / 100_000 {
        let todos = Arc::new(vec![Todo::new("1", "x".repeat(100_000))]);
        let mut records = vec![Record::Todos { todos }];
        if number == 0 {
            records.push(said("words"));
        }
        store.append(&lease, records).await.unwrap();
    }
    let_go(lease);
}

fn snapshots(log: &[u8]) -> usize {
    memchr::memmem::find_iter(log, b"\"kind\":\"snapshot\"").count()
}

async fn long_log_is_opened_at_its_snapshot<K: Kind>() {
    let space = Space::<K>::new();
    write_until_due(&space.store()).await;
    let log = || K::log(&space.url, &space.prefix, "a");
    assert_eq!(snapshots(&log()), 0, "no append writes a snapshot");
    let_go(space.store().lease("a").await.unwrap());
    assert_eq!(snapshots(&log()), 1);
    let (proxy, url) = Proxy::start(&space.url);
    let store = K::open(&url, space.options()).unwrap();
    let lease = store.lease("a").await.unwrap();
    assert_eq!(texts(&store, "a").await, ["words"]);
    store.append(&lease, vec![said("and on")]).await.unwrap();
    let_go(lease);
    let reader = K::open(&url, space.options()).unwrap();
    assert_eq!(texts(&reader, "a").await, ["words", "and on"]);
    let byte_count = proxy.response_bytes.load(Ordering::SeqCst);
    assert!(
        byte_count < 600_000,
        "{byte_count} bytes of {}",
        log().len()
    );
    assert_eq!(snapshots(&log()), 1, "no further snapshot is due");
}

async fn lost_answer_to_a_snapshot_loses_nothing<K: Kind>() {
    for lost in [Lost::Answer, Lost::Request] {
        let space = Space::<K>::new();
        write_until_due(&space.store()).await;
        let (proxy, url) = Proxy::start(&space.url);
        let store = K::open(&url, space.options()).unwrap();
        proxy.lose(lost, "\"kind\":\"snapshot\"");
        let lease = store.lease("a").await.unwrap();
        assert!(proxy.was_lost(), "{lost:?}");
        store.append(&lease, vec![said("and on")]).await.unwrap();
        let_go(lease);
        let log = K::log(&space.url, &space.prefix, "a");
        assert_eq!(snapshots(&log), 1, "{lost:?}");
        assert_eq!(texts(&space.store(), "a").await, ["words", "and on"]);
    }
}

async fn large_write_may_take_longer_than_the_idle_timeout<K: Kind>() {
    let space = Space::<K>::new();
    let (proxy, url) = Proxy::start(&space.url);
    let hasty = space.options().timeout(Duration::from_secs(1));
    let store = K::open(&url, hasty).unwrap();
    let lease = store.lease("a").await.unwrap();
    proxy.is_slow.store(true, Ordering::SeqCst);
    let text = "words ".repeat(400_000);
    store.append(&lease, vec![said(&text)]).await.unwrap();
    assert_eq!(texts(&store, "a").await, [text]);
    proxy.is_slow.store(false, Ordering::SeqCst);
    drop(lease);
    assert!(store.delete("a").await.unwrap());
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn real_postgres_releases_locks_of_a_lost_connection() {
    use agentcore::ErrorKind;
    use agentcore::session::PostgresStore;
    if !super::is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    let (proxy, url) = Proxy::start(&space.url);
    let hasty = space
        .options()
        .timeout(Duration::from_secs(1))
        .lease_time(Duration::from_secs(6))
        .max_retry_time(Duration::ZERO);
    let store = PostgresStore::with_options(url, hasty).unwrap();
    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![said("one")]).await.unwrap();
    drop(lease);
    let mut torn = PostgresStore::log(&space.url, &space.prefix, "a");
    torn.extend_from_slice(b"torn words");
    PostgresStore::put(&space.url, &space.prefix, "a", &torn);

    // The request with these bytes is sent while the lock is held.
    proxy.lose(Lost::Machine, "torn words");
    let timeout_error = store.lease("a").await.unwrap_err();
    assert_eq!(timeout_error.kind(), ErrorKind::Timeout, "{timeout_error}");
    assert!(proxy.was_lost());
    let other = space.store_with(space.options().max_retry_time(Duration::from_secs(60)));
    let lease = loop {
        match other.lease("a").await {
            Ok(lease) => break lease,
            Err(error) => assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}"),
        }
    };

    other.append(&lease, vec![said("two")]).await.unwrap();
    drop(lease);
    assert_eq!(texts(&other, "a").await, ["one", "two"]);
}

/// The command that waits for the disk concerns the last write of its connection.
#[cfg(feature = "redis")]
#[tokio::test]
async fn real_redis_repeats_a_write_to_wait_for_the_disk() {
    use agentcore::session::RedisStore;
    let Some(server) = Own::start::<RedisStore>() else {
        return;
    };

    let direct = RedisStore::url_at(server.port());
    let (proxy, url) = Proxy::start(&direct);
    let store = RedisStore::open(url).unwrap();
    let writes = || {
        let info: String = ask(&direct, redis::cmd("INFO").arg("persistence"));
        let count = info
            .lines()
            .find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        count.unwrap().trim().parse::<usize>().unwrap()
    };

    let is_leased = || ask::<bool>(&direct, redis::cmd("EXISTS").arg("agentcore:lease:a"));
    let mut counts = Vec::new();
    for lost in [None, Some("wanted")] {
        let lease = store.lease("a").await.unwrap();
        store.append(&lease, vec![said("one")]).await.unwrap();
        drop(lease);
        while is_leased() {}
        let before = writes();
        if let Some(mark) = lost {
            proxy.lose(Lost::Answer, mark);
        }

        assert!(store.delete("a").await.unwrap());
        assert!(proxy.was_lost());
        counts.push(writes() - before);
    }

    assert!(counts[1] > counts[0], "{counts:?}");

    // The whole log is cut off, and the response is lost.
    counts.clear();
    for lost in [None, Some("cut == 0")] {
        RedisStore::put(&direct, "agentcore", "a", b"torn");
        ask::<()>(&direct, redis::cmd("DEL").arg("agentcore:damaged:a"));
        let before = writes();
        if let Some(mark) = lost {
            proxy.lose(Lost::Answer, mark);
        }

        drop(store.lease("a").await.unwrap());
        assert!(proxy.was_lost());
        while is_leased() {}
        counts.push(writes() - before);
    }

    assert!(counts[1] > counts[0], "{counts:?}");
}
