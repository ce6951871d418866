//! Session files that other programs changed.

use agentcore::session::JsonlStore;
use agentcore::testing::ScriptedModel;
use agentcore::{Message, SessionStore};
use fastrand::Rng;
use futures::executor::block_on;

use super::fuzz;
use super::texts::JSON;

/// Returns a damaged log: bits flipped, lines cut, repeated or replaced.
fn damaged(rng: &mut Rng, log: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let mut bytes = Vec::new();
    for _ in 0..rng.usize(1..=2 * lines.len()) {
        let mut line = lines[rng.usize(..lines.len())].to_vec();
        match rng.u8(..6) {
            0 => {
                let place = rng.usize(..line.len());
                line[place] ^= 1 << rng.u8(..8);
            }
            1 => line.truncate(rng.usize(..=line.len())),
            2 => line = JSON.text(rng, 16 * 1024).into_bytes(),
            3 => {
                let place = rng.usize(..=line.len());
                line.splice(place..place, JSON.text(rng, 1024).into_bytes());
            }
            _ => {}
        }

        bytes.extend(line);
    }

    bytes
}

#[test]
fn damaged_session_files_load_without_panic() {
    let folder = tempfile::tempdir().unwrap();
    let open = || JsonlStore::open(folder.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let model = ScriptedModel::new().say("one").say("two");
        let agent = crate::kit::agent(model).store(open()).build().unwrap();
        for text in ["first", "second"] {
            let message = Message::human(text);
            agent.session("a").run(message).await.unwrap();
        }
    });

    let path = folder.path().join("a.jsonl");
    let log = std::fs::read(&path).unwrap();
    let store = open();
    fuzz("session file", |rng| {
        let bytes = damaged(rng, &log);
        std::fs::write(&path, &bytes).unwrap();
        std::hint::black_box(block_on(store.load("a")).is_ok());
        bytes.len()
    });
}
