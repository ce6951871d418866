//! Writes that wait for the server's disk. The server is scripted, because not every Redis supports
//! this.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use agentcore::session::{RedisStore, ServerOptions};
use agentcore::{ErrorKind, SessionStore};

use crate::session_stores::places::said;

/// Reads a command of the client.
fn command(from: &mut impl BufRead) -> Option<Vec<String>> {
    let number = |from: &mut dyn BufRead| {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|len| *len > 0)?;
        line[1..].trim_end().parse::<usize>().ok()
    };

    let count = number(from)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(from)? + 2];
        from.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }

    Some(words)
}

/// Answers as an empty server that executes every command, and sends the name of each to the
/// channel.
fn serve(stream: TcpStream, appended: &str, waited: &str, sender: &Sender<String>) {
    let mut to = stream.try_clone().unwrap();
    let mut from = BufReader::new(stream);
    while let Some(words) = command(&mut from) {
        let (what, answer) = match &*words[0] {
            "SET" => ("set", "+OK\r\n"),
            "GET" => ("version", "$1\r\n1\r\n"),
            "WAITAOF" => ("wait", waited),
            "EVAL" if words[1].contains("'append'") => ("append", appended),
            "EVAL" if words[1].contains("return {") => ("read", "*3\r\n$0\r\n\r\n:0\r\n:0\r\n"),
            _ => ("other", ":1\r\n"),
        };

        let _ = sender.send(what.to_owned());
        let _ = to.write_all(answer.as_bytes());
    }
}

fn start(waited: &'static str) -> (RedisStore, Receiver<String>) {
    start_with(":1\r\n", waited)
}

fn start_with(appended: &'static str, waited: &'static str) -> (RedisStore, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let (sender, commands) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || serve(stream.unwrap(), appended, waited, &sender));
        }
    });
    let hasty = ServerOptions::default().max_retry_time(Duration::from_millis(100));
    (RedisStore::with_options(url, hasty).unwrap(), commands)
}

fn writes(commands: &Receiver<String>) -> Vec<String> {
    let is_write = |what: &String| what == "append" || what == "wait";
    commands.try_iter().filter(is_write).collect()
}

#[tokio::test]
async fn write_waits_for_the_disk_of_the_server() {
    let (store, commands) = start("*2\r\n:1\r\n:0\r\n");
    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![said("one")]).await.unwrap();
    store.append(&lease, vec![said("two")]).await.unwrap();
    assert_eq!(writes(&commands), ["append", "wait", "append", "wait"]);
}

#[tokio::test]
async fn write_that_does_not_reach_the_disk_in_time_is_a_timeout() {
    let (store, commands) = start("*2\r\n:0\r\n:0\r\n");
    let lease = store.lease("a").await.unwrap();
    let error = store.append(&lease, vec![said("one")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.text().contains("its disk"), "{error}");
    assert!(error.text().contains("appendfsync"), "{error}");
    assert_eq!(writes(&commands)[..2], ["append", "wait"]);
}

#[tokio::test]
async fn write_to_a_server_that_becomes_a_replica_is_an_error() {
    for error in [
        "-UNBLOCKED force unblock from blocking operation, instance state changed\r\n",
        "-ERR WAITAOF cannot be used with replica instances.\r\n",
    ] {
        let (store, commands) = start(error);
        let lease = store.lease("a").await.unwrap();
        let error = store.append(&lease, vec![said("one")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        assert!(error.text().contains("replica"), "{error}");
        assert_eq!(writes(&commands)[..2], ["append", "wait"]);
    }
}

/// The replica may become the primary, so the write is retried.
#[tokio::test]
async fn readonly_error_of_a_script_is_retried() {
    for error in [
        "-READONLY You can't write against a read only replica.\r\n",
        "-READONLY You can't write against a read only replica. script: f1, on @user_script:9.\r\n",
        "-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -READONLY You \
         can't write against a read only replica.\r\n",
    ] {
        let (store, commands) = start_with(error, "*2\r\n:1\r\n:0\r\n");
        let lease = store.lease("a").await.unwrap();
        let error = store.append(&lease, vec![said("one")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        let appends = |all: Vec<String>| all.iter().filter(|what| *what == "append").count();
        assert!(appends(writes(&commands)) > 1);
    }
}

#[tokio::test]
async fn server_without_waitaof_is_asked_to_wait_once() {
    for error in [
        "-ERR unknown command 'WAITAOF'\r\n",
        "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n",
    ] {
        let (store, commands) = start(error);
        let lease = store.lease("a").await.unwrap();
        for text in ["one", "two", "three"] {
            store.append(&lease, vec![said(text)]).await.unwrap();
        }
        assert_eq!(writes(&commands), ["append", "wait", "append", "append"]);
    }
}
