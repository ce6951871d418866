//! The memory that a session file takes to read if it is mostly junk, or small as text and large as
//! a session. The test is a program of its own, because it counts all allocations of the process.
#![cfg(all(feature = "jsonl", unix))]
#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::Path;

use agentcore::session::{JsonlStore, Record, StoredSession};
use agentcore::{Message, SessionStore};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: u64 = 1024 * 1024;

/// The most that reading any of the files may allocate, freed or not: the longest line, as it
/// grows, and the read buffers.
const MOST: usize = 200 * MIB as usize;

fn text_record(text: &str) -> Record {
    let message = Message::human(text).into();
    Record::Message {
        message,
        input_id: None,
    }
}

async fn say(folder: &Path, text: &str) {
    let store = JsonlStore::open(folder).unwrap();
    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![text_record(text)]).await.unwrap();
    std::thread::spawn(move || drop(lease)).join().unwrap();
}

/// Adds `len` bytes with the value `byte` to the file.
fn fill(file: &mut File, byte: u8, len: u64) {
    if byte == 0 {
        let end = file.seek(SeekFrom::End(0)).unwrap();
        file.set_len(end + len).unwrap();
        return;
    }
    let piece = vec![byte; MIB as usize];
    for _ in 0..len / MIB {
        file.write_all(&piece).unwrap();
    }
}

/// Returns a record with a valid checksum.
fn line(seq: usize, data: &str) -> Vec<u8> {
    let body = format!(
        r#""v":1,"seq":{seq},"token":1,"at":1,"kind":"message","data":{{"message":{data}}},"info":{{"messages":{seq},"created":1}}}}"#
    );
    let crc = crc32fast::hash(body.as_bytes());
    format!("{{\"crc\":\"{crc:08x}\",{body}\n").into_bytes()
}

/// Returns a log of records. An iterator over single bytes takes seconds without optimisation.
fn lines(seqs: RangeInclusive<usize>, data: &str) -> Vec<u8> {
    seqs.map(|seq| line(seq, data)).collect::<Vec<_>>().concat()
}

fn detailed(item: &str, count: usize) -> Vec<u8> {
    let details = vec![item; count].join(",");
    line(
        1,
        &format!(r#"{{"role":"tool","content":"","details":[{details}]}}"#),
    )
}

/// The size option of the store that refuses the logs below: sessions may take 21 MiB of memory.
const SESSION_BYTES: u64 = 64 * MIB;

/// Logs whose sessions would take 50 MiB and more, and the most that refusing each may allocate.
fn hostile_logs() -> Vec<(&'static str, Vec<u8>, usize)> {
    let text = |len: usize| format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(len));
    let few = 16 * MIB as usize;
    vec![
        ("objects", detailed(r#"{"a":{}}"#, 1_000_000), 2 * few),
        ("fewer objects", detailed(r#"{"a":{}}"#, 75_000), few),
        ("zeros", detailed("0", 5_000_000), 2 * few),
        ("text", line(1, &text(23_000_000)), 3 * few),
        ("messages", lines(1..=300, &text(200_000)), MOST / 2 + few),
    ]
}

async fn refuse(folder: &Path) {
    let store = JsonlStore::open(folder).unwrap();
    let store = store.with_max_session_bytes(SESSION_BYTES);
    let error = store.load("a").await.unwrap_err();
    assert!(error.text().contains("bytes of memory"), "{error}");
    let error = store.lease("a").await.unwrap_err();
    assert!(error.text().contains("bytes of memory"), "{error}");
}

fn check_hostile_logs(runtime: &tokio::runtime::Runtime) {
    for (name, log, most) in hostile_logs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.jsonl"), log).unwrap();
        let before = ALLOCATOR.stats();
        runtime.block_on(refuse(folder.path()));
        let after = ALLOCATOR.stats();
        let allocated = after.bytes_allocated - before.bytes_allocated;

        // Both the reader and the lease refuse the log.
        assert!(
            allocated < 2 * most,
            "{name}: {} MiB",
            allocated / MIB as usize
        );
    }
}

/// Checks a session of 70 MB, which is within the default limits. A snapshot of it would be as
/// long, and is not written.
fn check_long_session(runtime: &tokio::runtime::Runtime) {
    const MESSAGES: usize = 350;
    let text = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(200_000));
    let log = lines(1..=MESSAGES, &text);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.jsonl"), log).unwrap();
    let store = JsonlStore::open(folder.path()).unwrap();
    runtime.block_on(async {
        let lease = store.lease("a").await.unwrap();
        let before = ALLOCATOR.stats();
        store
            .append(&lease, vec![text_record("one")])
            .await
            .unwrap();
        let after = ALLOCATOR.stats();
        let allocated = after.bytes_allocated - before.bytes_allocated;
        assert!(
            allocated < 16 * MIB as usize,
            "{}",
            allocated / MIB as usize
        );
        let session = store.load("a").await.unwrap().unwrap();
        assert_eq!(session.state.messages.len(), MESSAGES + 1);
        std::thread::spawn(move || drop(lease)).join().unwrap();
    });
}

/// Checks cuts of a session with as many input ids as are remembered.
fn check_many_cuts() {
    const MESSAGES: usize = 1_249;
    const CUTS: usize = 10_000;
    let mut session = StoredSession::default();
    let add = |session: &mut StoredSession, number: usize| {
        session.apply(Record::Message {
            message: Message::human("x").into(),
            input_id: Some(number.to_string().into()),
        });
    };
    (0..MESSAGES).for_each(|number| add(&mut session, number));
    let before = ALLOCATOR.stats().bytes_allocated;
    for number in 0..CUTS {
        add(&mut session, MESSAGES + number);
        session.apply(text_record("y"));
        for messages in [MESSAGES + 1, MESSAGES] {
            session.apply(Record::Truncated { messages });
        }
    }
    let allocated = ALLOCATOR.stats().bytes_allocated - before;
    assert_eq!(session.input_ids.len(), MESSAGES);
    assert!(allocated < CUTS * 2_000, "{} per cut", allocated / CUTS);
}

/// Writes a log of `messages` equal messages.
fn write_log(folder: &Path, messages: usize, data: &str) {
    let mut file = BufWriter::new(File::create(folder.join("a.jsonl")).unwrap());
    for seq in 1..=messages {
        file.write_all(&line(seq, data)).unwrap();
    }
    file.flush().unwrap();
}

/// Writes a log with a snapshot of `messages` equal messages, followed by as many bytes of blank
/// lines as are read with it.
fn write_snapshot(folder: &Path, messages: usize, data: &str) {
    let sealed = |seq: usize, kind: &str, data: &str, info: &str| {
        let body =
            format!(r#""v":1,"seq":{seq},"token":1,"at":1,"kind":"{kind}","data":{data}{info}}}"#);
        let crc = crc32fast::hash(body.as_bytes());
        format!("{{\"crc\":\"{crc:08x}\",{body}\n")
    };
    let info = r#","info":{"messages":1,"created":1}"#;
    let about = sealed(1, "about", "{}", info);
    let list = vec![data; messages].join(",");
    let snapshot = sealed(2, "snapshot", &format!(r#"{{"messages":[{list}]}}"#), "");
    drop(list);
    let (offset, len) = (about.len(), snapshot.len());
    let info = format!(r#","info":{{"messages":1,"created":1,"snapshot":[{offset},{len}]}}"#);
    let mut file = File::create(folder.join("a.jsonl")).unwrap();
    for line in [about, snapshot, sealed(3, "mark", "null", &info)] {
        file.write_all(line.as_bytes()).unwrap();
    }
    fill(&mut file, b'\n', 27 * MIB);
    let end = sealed(4, "checked", "null", &info);
    file.write_all(end.as_bytes()).unwrap();
}

/// Returns the peak memory of this process, in MB.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024 / 1_000_000
}

/// Freed memory may stay with its thread, so each reading runs on another thread.
#[cfg(target_os = "linux")]
fn check_resident_memory() {
    const MOST: u64 = 200;
    let values = vec![r#"{"a":0}"#; 25_000].join(",");
    let calls = format!(
        r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"c","name":"t","args":{{"m":[{values}]}}}}]}}"#
    );
    let small = r#"{"role":"user","content":"aaaaa"}"#;
    let text = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(101));
    let mut threads = Vec::new();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Arc::new(std::sync::Mutex::new(released));
    for name in ["values", "messages", "snapshot"] {
        let folder = tempfile::tempdir().unwrap();
        match name {
            "values" => write_log(folder.path(), 40, &calls),
            "messages" => write_log(folder.path(), 350_000, small),
            _ => write_snapshot(folder.path(), 220_000, &text),
        }

        for _ in 0..2 {
            let path = folder.path().to_owned();
            let released = released.clone();
            let (ends, ended) = std::sync::mpsc::channel();
            threads.push(std::thread::spawn(move || {
                let store = JsonlStore::open(path).unwrap();
                let outcome = futures::executor::block_on(store.load("a"));
                let session = outcome.ok().flatten();
                ends.send(session.map(|session| session.state.messages.len()))
                    .unwrap();
                drop(ends);
                let _ = released.lock().unwrap().recv();
            }));
            let messages = ended.recv().unwrap();
            assert_eq!(messages, (name == "snapshot").then_some(220_000), "{name}");
        }
        assert!(peak() < MOST, "{name}: {} MB", peak());
    }

    drop(release);
    for thread in threads {
        thread.join().unwrap();
    }
}

// A single test, because allocations of other tests at the same time would count too.
#[test]
fn junk_in_a_session_file_takes_bounded_memory() {
    #[cfg(target_os = "linux")]
    check_resident_memory();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    check_long_session(&runtime);
    check_hostile_logs(&runtime);
    check_many_cuts();
    for (name, byte, len) in [
        ("zeros", 0, 100 * MIB),
        ("blank lines", b'\n', 100 * MIB),
        ("spaces", b' ', 100 * MIB),
        ("one line", b'x', 100 * MIB),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        runtime.block_on(say(folder, "one"));
        let path = folder.join("a.jsonl");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        fill(&mut file, byte, len);
        let before = ALLOCATOR.stats().bytes_allocated;
        // The lease reads the whole file twice, one time after the other, if it looks damaged.
        runtime.block_on(say(folder, "two"));
        let allocated = ALLOCATOR.stats().bytes_allocated - before;
        let store = JsonlStore::open(folder).unwrap();
        let session = runtime.block_on(async { store.load("a").await.unwrap().unwrap() });
        let messages = session.state.messages.iter();
        let texts: Vec<_> = messages.map(Message::text).collect();
        assert_eq!(texts, ["one", "two"], "{name}");
        let once = allocated / 2;
        assert!(once < MOST, "{name}: {} MiB", once / MIB as usize);
    }
}
