//! PostgreSQL servers whose messages are endless, or too large for the memory.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use agentcore::session::PostgresStore;
use agentcore::{Error, ErrorKind, SessionStore};

use super::fake::{hasty, listen, read};

/// A server that reads the startup message and passes the connection to `answer`.
fn postgres(answer: impl Fn(&mut TcpStream) + Send + 'static) -> PostgresStore {
    let port = listen(move |stream| {
        read(stream);
        answer(stream);
        read(stream);
    });
    let url = format!("postgres://user@127.0.0.1:{port}/db");
    PostgresStore::with_options(url, hasty()).unwrap()
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap();
    [&[tag], &len.to_be_bytes()[..], body].concat()
}

/// The messages that accept a client.
fn welcome() -> Vec<u8> {
    [message(b'R', &[0; 4]), message(b'Z', b"I")].concat()
}

/// A row with one value.
fn row(value: &[u8]) -> Vec<u8> {
    let len = u32::try_from(value.len()).unwrap().to_be_bytes();
    message(b'D', &[&[0, 1], &len[..], value].concat())
}

fn check(error: &Error, words: &str) {
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    for words in ["PostgreSQL at 127.0.0.1", words] {
        assert!(error.text().contains(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn message_over_the_limit_is_refused_at_its_head() {
    let large_row = b"D\x7f\xff\xff\xff".to_vec();
    for answer in [large_row.clone(), [welcome(), large_row].concat()] {
        let store = postgres(move |stream| {
            let _ = stream.write_all(&answer);
        });
        for _ in 0..2 {
            let error = store.load("a").await.unwrap_err();
            check(&error, "a message of 2147483647 bytes");
        }
    }
}

#[tokio::test]
async fn settings_and_notices_without_end_are_refused() {
    for (tag, is_let_in) in [(b'S', false), (b'S', true), (b'N', false), (b'N', true)] {
        let store = postgres(move |stream| {
            let start = if is_let_in {
                welcome()
            } else {
                message(b'R', &[0; 4])
            };
            let _ = stream.write_all(&start);
            for number in 0.. {
                let text = "v".repeat(2000);
                let body = match tag {
                    b'S' => format!("k{number}\0{text}\0"),
                    _ => format!("SNOTICE\0VNOTICE\0C00000\0M{text}\0\0"),
                };
                if stream.write_all(&message(tag, body.as_bytes())).is_err() {
                    return;
                }
            }
        });
        let error = store.load("a").await.unwrap_err();
        check(&error, "settings and notices of");
    }
}

/// The description of rows that have one column of this type.
fn column(type_oid: u32) -> Vec<u8> {
    let column = [
        b"\0\x01version\0".as_slice(),
        &[0; 6],
        &type_oid.to_be_bytes(),
        &[0, 4],
        &[0; 6],
    ];
    message(b'T', &column.concat())
}

#[tokio::test]
async fn column_of_an_unknown_type_is_refused_and_not_looked_up() {
    let questions = Arc::<Mutex<Vec<u8>>>::default();
    let received = questions.clone();
    let store = postgres(move |stream| {
        let end = [message(b'C', b"SHOW\0"), message(b'Z', b"I")].concat();
        let _ = stream.write_all(&welcome());
        read(stream);
        let _ = stream.write_all(&[column(23), row(b"off"), end].concat());
        read(stream);
        let is_bound = [message(b'1', b""), message(b'2', b""), column(100_000)].concat();
        let _ = stream.write_all(&is_bound);
        received.lock().unwrap().extend(read(stream));
    });
    let error = store.list().await.unwrap_err();
    check(&error, "a column of the type 100000");
    let questions = questions.lock().unwrap();
    assert!(questions.is_empty(), "{}", questions.escape_ascii());
}

#[tokio::test]
async fn rows_without_end_are_refused() {
    for len in [0, 60_000] {
        let store = postgres(move |stream| {
            let columns = column(23);
            let end = [message(b'C', b"SHOW\0"), message(b'Z', b"I")].concat();
            let is_bound = [message(b'1', b""), message(b'2', b""), columns.clone()].concat();
            let _ = stream.write_all(&welcome());
            read(stream);
            let _ = stream.write_all(&[columns, row(b"off"), end].concat());
            read(stream);
            let _ = stream.write_all(&is_bound);
            let rows = row(&vec![0; len]).repeat(64);
            while stream.write_all(&rows).is_ok() {}
        });
        check(
            &store.list().await.unwrap_err(),
            "rows of more than 4194304",
        );
    }
}

/// A logger that records all messages.
struct Logged(Mutex<String>);

static LOGGED: Logged = Logged(Mutex::new(String::new()));

impl log::Log for Logged {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        *self.0.lock().unwrap() += &format!("{}\n", record.args());
    }

    fn flush(&self) {}
}

#[tokio::test]
async fn notices_do_not_reach_the_log_of_the_program() {
    log::set_logger(&LOGGED).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    log::info!("what a program logs");
    let store = postgres(|stream| {
        let notice = message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Ma canary\0\0");
        // Once during the startup, and once before an answer.
        let greeting = [message(b'R', &[0; 4]), notice.clone(), message(b'Z', b"I")];
        let _ = stream.write_all(&greeting.concat());
        read(stream);
        let _ = stream.write_all(&[notice, b"D\x7f\xff\xff\xff".to_vec()].concat());
    });
    let error = store.load("a").await.unwrap_err();
    check(&error, "a message of 2147483647 bytes");
    let logged = LOGGED.0.lock().unwrap();
    assert!(logged.contains("what a program logs"), "{logged}");
    assert!(!logged.contains("canary"), "{logged}");
}
