//! Long sessions, which are opened at a snapshot.

use memchr::{memmem, memrchr};

use super::places::{Held, Place, for_each_place};

for_each_place!(
    long_session_loads_equally_with_and_without_its_snapshot,
    long_session_without_a_snapshot_gets_one_on_the_next_write,
);

/// The length of a text; 17 of them make a snapshot due.
const fn len<P: Place>() -> usize {
    P::SNAPSHOT_AFTER / 17
}

/// Appends long texts until the log is long enough for a snapshot, and returns the messages.
async fn long<P: Place>(held: &Held<P>) -> Vec<String> {
    for number in 0..30 {
        let text = format!("{number} {}", "x".repeat(len::<P>()));
        held.say("a", &[&text]).await;
    }
    held.texts("a").await
}

/// Returns the offset of the last snapshot.
fn snapshot(bytes: &[u8]) -> Option<usize> {
    let kind = b"\"kind\":\"snapshot\"";
    let at = memmem::rfind(bytes, kind)?;
    let line = memrchr(b'\n', &bytes[..at]);
    Some(line.map_or(0, |end| end + 1))
}

async fn long_session_loads_equally_with_and_without_its_snapshot<P: Place>() {
    let mut held = Held::<P>::new();
    let texts = long(&held).await;
    assert_eq!(texts.len(), 30);
    held.reopen();
    assert_eq!(held.texts("a").await, texts);
    held.say("a", &["next"]).await;
    let bytes = held.store.log("a");

    let snapshot = snapshot(&bytes).unwrap();
    assert!(snapshot > P::SNAPSHOT_AFTER);
    let mut expected = texts.clone();
    expected.push("next".into());
    held.reopen();
    assert_eq!(held.texts("a").await, expected);

    // The snapshot is incomplete, as after a killed process.
    let message_count = snapshot / len::<P>();
    for end in [snapshot + 200, snapshot + 70_000] {
        held.store.put("a", &bytes[..end]);
        held.reopen();
        held.say("a", &["again"]).await;
        held.reopen();
        let stored = held.store.load("a").await.unwrap().unwrap();
        assert!(stored.damage.is_empty());
        let count = stored.state.messages.len();
        assert!(
            count >= message_count && count <= message_count + 2,
            "{count} of {message_count}"
        );
        assert_eq!(stored.state.messages.last_content(), "again");
    }

    let mut damaged = bytes.clone();
    damaged[snapshot + 50_000] ^= 1;
    held.store.put("a", &damaged);
    held.reopen();
    held.say("a", &["again"]).await;
    expected.push("again".into());
    held.reopen();
    assert_eq!(held.texts("a").await, expected);
}

async fn long_session_without_a_snapshot_gets_one_on_the_next_write<P: Place>() {
    let mut held = Held::<P>::new();
    let texts = long(&held).await;
    let bytes = held.store.log("a");
    let first = snapshot(&bytes).unwrap();

    // The log before the first snapshot is that of an older version.
    let texts = &texts[..first / len::<P>()];
    held.store.put("a", &bytes[..first]);
    held.reopen();
    assert_eq!(held.texts("a").await, texts);
    held.say("a", &["next"]).await;
    assert!(snapshot(&held.store.log("a")).is_some());
    held.reopen();
    assert_eq!(held.texts("a").await.len(), texts.len() + 1);
}
