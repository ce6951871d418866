//! Redis servers whose replies are endless, or too large for the memory.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::session::{RedisStore, ServerOptions};
use agentcore::{Error, ErrorKind, SessionStore};

use super::fake::{hasty, listen, read};

/// A Redis server that has a valid version and answers every other command with `answer`.
fn redis(answer: impl Fn(&mut TcpStream) + Send + 'static) -> RedisStore {
    redis_with(hasty(), answer)
}

fn redis_with(
    options: ServerOptions,
    answer: impl Fn(&mut TcpStream) + Send + 'static,
) -> RedisStore {
    let port = listen(move |stream| {
        if read(stream).starts_with(b"*2\r\n$3\r\nGET\r\n") {
            let _ = stream.write_all(b"$1\r\n1\r\n");
            read(stream);
        }
        answer(stream);
    });
    RedisStore::with_options(format!("redis://127.0.0.1:{port}/0"), options).unwrap()
}

fn check(error: &Error, words: &str) {
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    for words in ["Redis at 127.0.0.1", words] {
        assert!(error.text().contains(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn reply_over_a_limit_is_refused_before_it_is_read() {
    for (answer, words) in [
        ("$4000000000\r\n".to_owned(), "bytes"),
        ("*4000000000\r\n".to_owned(), "values"),
        ("*1\r\n".repeat(100), "levels of arrays"),
        ("+".to_owned() + &"x".repeat(100_000), "bytes in a line"),
        ("-ERR ".to_owned() + &"x".repeat(100_000), "bytes in a line"),
    ] {
        let store = redis(move |stream| {
            let _ = stream.write_all(answer.as_bytes());
        });
        check(&store.load("a").await.unwrap_err(), words);
        check(&store.list().await.unwrap_err(), words);
        check(&store.lease("a").await.unwrap_err(), words);
    }
}

#[tokio::test]
async fn log_that_is_longer_than_was_asked_for_is_refused() {
    let options = hasty().max_session_bytes(1 << 20);
    let store = redis_with(options, |stream| {
        let _ = stream.write_all(b"*2\r\n$3000000\r\n");
    });
    check(&store.load("a").await.unwrap_err(), "3000014 bytes");

    // A list requests the last 16 KiB of a session.
    let store = redis(|stream| {
        let _ = stream.write_all(b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nl\r\n");
        read(stream);
        let _ = stream.write_all(b"*3\r\n$3000000\r\n");
    });
    check(&store.list().await.unwrap_err(), "3000014 bytes");
}

/// Reads the arguments of a command.
fn arguments(stream: &mut TcpStream) -> Vec<String> {
    let mut received = Vec::new();
    loop {
        let bytes = read(stream);
        received.extend_from_slice(&bytes);
        let text = String::from_utf8_lossy(&received).into_owned();
        let count = text
            .strip_prefix('*')
            .and_then(|text| text.split_once("\r\n"));
        let count = count
            .and_then(|(count, _)| count.parse().ok())
            .unwrap_or(0_usize);
        let mut remaining = text.split_once("\r\n").map_or("", |(_, text)| text);
        let mut arguments = Vec::new();
        while let Some((head, text)) = remaining.split_once("\r\n") {
            let len = head[1..].parse().unwrap();
            if text.len() < len + 2 {
                break;
            }
            arguments.push(text[..len].to_owned());
            remaining = &text[len + 2..];
        }
        if bytes.is_empty() || arguments.len() == count {
            return arguments;
        }
    }
}

/// A log has the length that the server reported, also if the pieces are longer than requested.
#[tokio::test]
async fn pieces_that_are_longer_than_was_asked_for_are_cut() {
    check_pieces(900_000).await;
}

#[tokio::test]
async fn long_log_is_read_in_pieces() {
    check_pieces(0).await;
}

/// Reads a log from a server that sends this number of bytes more than requested.
async fn check_pieces(extra_bytes: usize) {
    const LOG: usize = 5_000_000;
    const PIECE: usize = 1024 * 1024;
    let log = format!("{}\n", "x".repeat(49)).repeat(LOG / 50);
    let piece = move |first: usize, end: usize| {
        let (bytes, len) = (&log[first..end], end - first);
        format!("*3\r\n${len}\r\n{bytes}\r\n:{LOG}\r\n:1\r\n")
    };
    let places = Arc::<Mutex<Vec<(usize, usize)>>>::default();
    let asked = places.clone();
    let port = listen(move |stream| {
        loop {
            let arguments = arguments(stream);
            let reply = match &arguments[..] {
                [get, _] if get == "GET" => "$1\r\n1\r\n".to_owned(),
                [_, script, _, .., len] if script.contains("'-' .. ARGV[2]") => {
                    piece(LOG - len.parse::<usize>().unwrap(), LOG)
                }
                [_, _, .., first, last] => {
                    let first = first.parse().unwrap();
                    let end = last.parse::<usize>().unwrap() + 1;
                    asked.lock().unwrap().push((first, end));
                    piece(first, (end + extra_bytes).min(LOG))
                }
                _ => return,
            };
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    });

    let store = RedisStore::with_options(format!("redis://127.0.0.1:{port}/0"), hasty()).unwrap();
    let session = store.load("a").await.unwrap().unwrap();
    assert_eq!(session.damage[0].len, LOG as u64);
    let expected = (0..LOG).step_by(PIECE);
    let expected = expected.map(|first| (first, first + PIECE));
    assert_eq!(*places.lock().unwrap(), expected.collect::<Vec<_>>());
}

/// Sends the bytes one by one, for ten seconds or until the connection closes.
fn trickle(stream: &mut TcpStream, bytes: &[u8]) {
    for byte in bytes.iter().cycle().take(500) {
        if stream.write_all(&[*byte]).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn impatient() -> ServerOptions {
    ServerOptions::default()
        .timeout(Duration::from_millis(300))
        .max_retry_time(Duration::from_millis(1))
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn handshake_that_trickles_in_is_a_timeout() {
    let port = listen(|stream| {
        read(stream);
        // The first bytes of a TLS record of 16 KiB, which is never complete.
        let _ = stream.write_all(&[22, 3, 3, 64, 0]);
        trickle(stream, &[0]);
    });
    let url = format!("rediss://localhost:{port}/0");
    let store = RedisStore::with_options(url, impatient()).unwrap();
    let error = store.load("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[tokio::test]
async fn replies_that_trickle_in_are_a_timeout() {
    // A list requests the ends of all sessions in one pipeline, whose commands have a time limit
    // each.
    let store = redis_with(impatient(), |stream| {
        let ids = "$1\r\na\r\n$1\r\nl\r\n".repeat(90);
        let _ = stream.write_all(format!("*2\r\n$1\r\n0\r\n*180\r\n{ids}").as_bytes());
        read(stream);
        trickle(stream, b"*3\r\n$-1\r\n:0\r\n:0\r\n");
    });
    let error = store.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}
