//! The bytes that the streams of a user hold, and the bodies and threads of its requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use serde_json::json;
use tokio::time::timeout;

use crate::message::Messages;
use crate::session::{AgentState, ThreadStore};
use crate::testing::ScriptedModel;

use super::super::super::stream::{EncoderOptions, StreamFormat};
use super::super::limits::{OnDisconnect, RunLimits};
use super::super::reader::Reader;
use super::super::store_id::StoreId;
use super::super::user_quota::{MAX_INDEXES, StreamPermit};
use super::kit::{FORMATS, agent, key, rest, start, start_with, table};

const MAX: usize = 700_000;
/// A piece of more needs space.
const FREE: usize = 64 * 1024;

/// All pieces that the readers make before each waits.
fn unsent(readers: &mut [Reader]) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    for reader in readers {
        while let Some(Some(piece)) = reader.next().now_or_never() {
            pieces.push(piece);
        }
    }
    pieces
}

/// The bytes of the pieces that need space.
fn large_bytes(pieces: &[Bytes]) -> usize {
    pieces
        .iter()
        .map(Bytes::len)
        .filter(|len| *len > FREE)
        .sum()
}

#[tokio::test]
async fn pieces_that_are_not_sent_hold_bounded_bytes_of_a_user() {
    let limits = RunLimits::default().with_reader_bytes_per_user(MAX);
    let table = table(limits, OnDisconnect::Detach);
    let text = "x".repeat(200_000);
    let agent = agent(ScriptedModel::new().say(&text).say(&text));
    let run = start(&table, key("a", "s"), &agent).unwrap();
    run.finished().await.unwrap();
    let other = start(&table, key("b", "t"), &agent).unwrap();
    other.finished().await.unwrap();

    for format in FORMATS {
        let reader = || run.reader(format, None, None).unwrap();
        let mut readers: Vec<Reader> = (0..16).map(|_| reader()).collect();
        let pieces = unsent(&mut readers);
        let bytes = large_bytes(&pieces);
        // The frame of an event is not counted before it is written.
        assert!(
            (MAX / 2..=MAX + 16 * 1024).contains(&bytes),
            "{format:?}: {bytes}"
        );
        let stream_text = rest(&mut other.reader(format, None, None).unwrap()).await;
        assert!(
            stream_text.contains(&text),
            "{format:?}: another user waits for nothing"
        );

        // The space is free for others once the pieces are sent, also of a reader that is gone.
        readers.truncate(8);
        assert_eq!(large_bytes(&unsent(&mut readers)), 0, "{format:?}");
        drop(pieces);
        drop(readers.pop());
        for reader in &mut readers {
            rest(reader).await;
        }
        let stream_text = rest(&mut reader()).await;
        assert!(stream_text.contains(&text), "{format:?}");
    }
}

#[tokio::test]
async fn state_of_a_thread_takes_space_like_a_message() {
    let limits = RunLimits::default()
        .with_reader_bytes_per_user(MAX)
        .with_log(1, usize::MAX);
    let table = table(limits, OnDisconnect::Detach);
    let text = "x".repeat(MAX / 2 + 1);
    let agent = agent(ScriptedModel::new().say(&text));
    let options = EncoderOptions::new("run").with_state(AgentState::new("s"));
    let run = agent.session("s").run("Go");
    let run = start_with(&table, key("a", "s"), run, options).unwrap();
    run.finished().await.unwrap();
    let reader = || run.reader(StreamFormat::Sdk, None, None).unwrap();
    let mut readers: Vec<Reader> = (0..4).map(|_| reader()).collect();
    let pieces = unsent(&mut readers);
    let bytes = large_bytes(&pieces);
    assert!((MAX / 2..=MAX + 16 * 1024).contains(&bytes), "{bytes}");
    drop(pieces);
    for reader in &mut readers {
        assert!(rest(reader).await.ends_with("\n\n"));
    }
}

#[tokio::test]
async fn answer_that_may_have_a_state_takes_the_space_of_one() {
    let limits = RunLimits::default().with_reader_bytes_per_user(MAX);
    let table = table(limits, OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("Done."));
    let mut state = AgentState::new("s");
    state.messages = Messages::from("x".repeat(MAX / 2));
    let options = EncoderOptions::new("run").with_state(state);
    let run = agent.session("s").run("Go");
    let run = start_with(&table, key("a", "s"), run, options).unwrap();
    run.finished().await.unwrap();
    let _space = table.quota_of(&Arc::from("a")).acquire_space(MAX / 3).await;
    let mut reader = run.reader(StreamFormat::AgUi, None, None).unwrap();
    let text = rest(&mut reader).now_or_never();
    assert!(text.unwrap().contains("Done."));
}

#[tokio::test]
async fn paths_that_a_stream_begins_with_take_space() {
    let limits = RunLimits::default().with_reader_bytes_per_user(MAX);
    let table = table(limits, OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("Done."));
    let mut state = AgentState::new("s");
    let paths = (0..2_000).map(|number| format!("/{number:0100}"));
    state.files = Arc::new(paths.map(|path| (path.into(), "".into())).collect());
    let options = EncoderOptions::new("run").with_state(state);
    let run = agent.session("s").run("Go");
    let run = start_with(&table, key("a", "s"), run, options).unwrap();
    run.finished().await.unwrap();
    let reader = || run.reader(StreamFormat::AgUi, None, None).unwrap();
    let mut readers: Vec<Reader> = (0..16).map(|_| reader()).collect();
    let pieces = unsent(&mut readers);
    let bytes = large_bytes(&pieces);
    assert!((MAX / 2..=MAX + 16 * 1024).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn long_state_is_written_on_a_thread_for_blocking_work() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("Done."));
    let mut state = AgentState::new("s");
    state.messages = Messages::from("x".repeat(2 * 1024 * 1024) + "end of the text");
    let options = EncoderOptions::new("run").with_state(state);
    let run = agent.session("s").run("Go");
    let run = start_with(&table, key("a", "s"), run, options).unwrap();
    run.finished().await.unwrap();
    // The last format has no states.
    for format in &FORMATS[..4] {
        let mut reader = run.reader(*format, None, Some("other:1")).unwrap();
        assert!(reader.next().now_or_never().is_none(), "{format:?}");
        // The piece whose future was dropped is not lost, and comes once.
        let text = rest(&mut reader).await;
        let count = text.matches("end of the text").count();
        assert_eq!(count, 1, "{format:?}");
        assert!(text.contains("Done."), "{format:?}");
    }
}

#[tokio::test]
async fn streams_of_a_user_keep_bounded_indexes_of_their_runs() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().call("none", json!({})).say("Done."));
    let run = start(&table, key("a", "s"), &agent).unwrap();
    run.finished().await.unwrap();
    let permit = || StreamPermit::take(table.quota_of(&Arc::from("a"))).unwrap();
    let mut large = permit();
    assert!(large.grow_index(MAX_INDEXES - 1_000) && large.grow_index(MAX_INDEXES));
    assert!(!large.grow_index(MAX_INDEXES + 1) && !permit().grow_index(1));
    for format in [StreamFormat::AgUi, StreamFormat::AiSdk] {
        let text = rest(&mut run.reader(format, None, None).unwrap()).await;
        assert!(text.contains("close some"), "{format:?}: {text}");
        assert!(!text.contains("Done."), "{format:?}: {text}");
    }

    drop(large);
    for format in FORMATS {
        let text = rest(&mut run.reader(format, None, None).unwrap()).await;
        assert!(text.contains("Done."), "{format:?}: {text}");
    }
    assert!(
        permit().grow_index(MAX_INDEXES),
        "ended streams count nothing"
    );
}

#[tokio::test]
async fn unsent_replies_hold_bounded_bytes_of_a_user() {
    let limits = RunLimits::default().with_reader_bytes_per_user(MAX);
    let table = table(limits, OnDisconnect::Detach);
    let user = Arc::from("a");
    let piece_len = MAX / 2;
    let first = table
        .quota_of(&user)
        .acquire_space(MAX)
        .await
        .hold(vec![0; piece_len]);
    let second = table
        .quota_of(&user)
        .acquire_space(piece_len)
        .await
        .hold(vec![0; piece_len]);
    assert!(
        table
            .quota_of(&user)
            .acquire_space(piece_len)
            .now_or_never()
            .is_none()
    );
    assert!(
        table
            .quota_of(&Arc::from("b"))
            .acquire_space(MAX)
            .now_or_never()
            .is_some()
    );

    drop(first);
    let third = table
        .quota_of(&user)
        .acquire_space(piece_len)
        .now_or_never();
    assert!(third.is_some(), "a reply that was sent frees its space");
    drop(second);
}

#[tokio::test]
async fn bodies_of_a_user_have_bounded_bytes() {
    const MIB: usize = 1024 * 1024;
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let space = |user: &str, len| {
        table
            .quota_of(&Arc::from(user))
            .acquire_body_space(len)
            .now_or_never()
    };
    let mut spaces: Vec<_> = (0..64).map(|_| space("a", MIB).unwrap()).collect();
    assert!(space("a", 1).is_none());
    assert!(space("a", 0).is_some() && space("b", MIB).is_some());
    spaces.pop();
    assert!(space("a", MIB).is_some());
    drop(spaces);
    assert!(
        space("a", usize::MAX).is_some(),
        "a larger body takes all of it"
    );
}

#[tokio::test]
async fn loads_are_limited_for_a_user_and_for_the_server() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let permit = |user: &str| {
        table
            .quota_of(&Arc::from(user))
            .acquire_load()
            .now_or_never()
    };
    let mut permits: Vec<_> = (0..4).map(|_| permit("a").unwrap()).collect();
    assert!(permit("a").is_none(), "a user loads four threads");
    for user in ["b", "c", "d"] {
        permits.extend((0..4).map(|_| permit(user).unwrap()));
    }
    assert!(permit("e").is_none(), "the server loads sixteen threads");

    permits[0].release_shared_permit();
    assert!(permit("a").is_none(), "the thread is still in memory");
    assert!(permit("e").is_some());
    drop(permits);
    assert!(permit("a").is_some());
}

#[tokio::test]
async fn lists_are_limited_for_a_user_and_for_a_store() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let [store, other_store] = [(); 2].map(|()| Arc::new(ThreadStore::new()) as _);
    let permit_of = |user: &str, store| {
        let store = StoreId::of(store);
        table
            .quota_of(&Arc::from(user))
            .acquire_thread_list(&store)
            .now_or_never()
    };
    let permit = |user: &str| permit_of(user, &store);
    let first = permit("a").unwrap();
    assert!(permit("a").is_none(), "a user lists once");
    let second = permit("b").unwrap();
    assert!(permit("c").is_none(), "a store is listed twice");
    assert!(permit_of("c", &other_store).is_some());
    let load = table
        .quota_of(&Arc::from("a"))
        .acquire_load()
        .now_or_never();
    assert!(load.is_some(), "a list is no load");
    drop((first, second));
    assert!(permit("c").is_some());
}

#[tokio::test(start_paused = true)]
async fn operation_that_hangs_stops_no_loads_of_others() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let mut operations = Vec::new();
    for number in 0..16 {
        let permit = table
            .quota_of(&format!("{number}").into())
            .acquire_load()
            .await;
        operations.push(permit.hold_during(std::future::pending::<()>()));
    }
    let user = Arc::from("other");
    let quota = table.quota_of(&user);
    let permit = timeout(Duration::from_secs(60), quota.acquire_load());
    tokio::select! {
        permit = permit => assert!(permit.is_ok()),
        _ = futures::future::join_all(operations) => unreachable!("the operations hang"),
    }
}
