//! What the reading of a session file allocates that is mostly junk. A program of its own, for it counts
//! all that the process allocates.
#![cfg(all(feature = "jsonl", unix))]
#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use agentcore::session::{JsonlStore, Record};
use agentcore::{Message, SessionStore};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: u64 = 1024 * 1024;

/// The most that may be allocated at all, freed or not, for any of the files: the longest line, as it
/// grows, and what is read at once.
const MOST: usize = 200 * MIB as usize;

fn said(text: &str) -> Record {
    let message = Message::human(text).into();
    Record::Message {
        message,
        input_id: None,
    }
}

async fn say(folder: &Path, text: &str) {
    let store = JsonlStore::open(folder).unwrap();
    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![said(text)]).await.unwrap();
    std::thread::spawn(move || drop(lease)).join().unwrap();
}

/// Adds so many bytes to the file, each of them this one.
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

// One test, for what others allocate at the same time would count as well.
#[test]
fn junk_in_a_session_file_takes_bounded_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for (name, byte, len) in [
        ("zeros", 0, 300 * MIB),
        ("blank lines", b'\n', 100 * MIB),
        ("spaces", b' ', 100 * MIB),
        ("one line", b'x', 120 * MIB),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        runtime.block_on(say(folder, "one"));
        let path = folder.join("a.jsonl");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        fill(&mut file, byte, len);
        let before = ALLOCATOR.stats().bytes_allocated;
        // The lease reads it all.
        runtime.block_on(say(folder, "two"));
        let allocated = ALLOCATOR.stats().bytes_allocated - before;
        let store = JsonlStore::open(folder).unwrap();
        let session = runtime.block_on(async { store.load("a").await.unwrap().unwrap() });
        let messages = session.state.messages.iter();
        let texts: Vec<_> = messages.map(Message::text).collect();
        assert_eq!(texts, ["one", "two"], "{name}");
        assert!(allocated < MOST, "{name}: {} MiB", allocated / MIB as usize);
    }
}
