//! A server that is killed during runs: after a restart the threads have everything that it had
//! sent, no call runs twice, and the threads continue.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use agentcore::SessionStore;
use serde_json::{Value, json};

use crate::http::Event;

use super::{ASKS, ServerProcess, effects, files, input};

/// The variable with the number of kills, for longer tests by hand.
const KILLS: &str = "AGENTCORE_SERVER_KILLS";
const USER: &str = "ann";

/// Pseudorandom times of the kills, equal in every run.
struct Moments(u64);

impl Moments {
    /// Returns a number below `limit`.
    fn next(&mut self, limit: usize) -> usize {
        // The algorithm is SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) % limit as u64) as usize
    }
}

/// Returns the texts of the answers and results that a reader has received.
fn received_texts(events: &[Event]) -> Vec<String> {
    let mut texts = Vec::new();
    for event in events {
        let message: Value = serde_json::from_str(&event.data).unwrap();
        let is_stored = message["type"] == "assistant" || message["type"] == "user";
        let blocks = message["message"]["content"].as_array();
        for block in blocks.into_iter().flatten().filter(|_| is_stored) {
            for text in [
                &block["text"],
                &block["content"],
                &block["content"][0]["text"],
            ] {
                texts.extend(text.as_str().map(str::to_owned));
            }
        }
    }
    texts
}

/// Checks the thread that a killed server has left.
async fn check_thread(server: &ServerProcess, folder: &Path, name: &str, seen: &[Event]) {
    let thread = format!("th_{name}");
    let path = format!("/agents/default/threads/{thread}");
    let reply = server.get(USER, &path).send().await;
    let answer_end = format!("End of {name}.");
    let mut is_interrupted = false;
    if seen.is_empty() && reply.status == 404 {
        // The input was not stored, and nothing was sent.
        assert_eq!(effects(folder, &format!("call_{name}")), 0);
    } else {
        let state = reply.ok(200);
        let text = state["messages"].to_string();
        assert!(text.contains(name), "{text}");
        for received in received_texts(seen) {
            assert!(text.contains(&received), "{received:?} is lost: {text}");
        }
        is_interrupted = !text.contains(&answer_end);
        assert_eq!(state["running"], false);
        assert_eq!(state["interrupted"], is_interrupted, "{text}");
        let list = server.get(USER, "/agents/default/threads").send().await;
        let list = list.ok(200)["threads"].to_string();
        assert!(list.contains(&format!("{thread:?}")), "{list}");
    }
    let types = seen
        .iter()
        .map(|event| event.data.contains("\"type\":\"result\""));
    assert!(!(is_interrupted && types.into_iter().any(|is_result| is_result)));

    // The log of events ended with its process, and no run is in progress.
    if let Some(last) = seen.last() {
        let events = server.get(USER, &format!("{path}/events"));
        let events = events.header("last-event-id", last.id.as_str());
        assert_eq!(events.send().await.status, 204);
    }
}

/// Continues the thread: repeats the input first, then sends a new one.
async fn continue_thread(server: &ServerProcess, folder: &Path, name: &str, seen: &[Event]) {
    let thread = format!("th_{name}");
    let mut last_id = seen.last().map(|event| event.id.clone());
    for text in [name.to_owned(), format!("{name}-next")] {
        let run = server.post(USER, "/agents/stream?format=sdk", input(&thread, &text));
        let events = run.open().await.events().await;
        let result: Value = serde_json::from_str(&events.last().unwrap().data).unwrap();
        let answer = result["result"].as_str().unwrap_or_default();
        assert!(
            answer.starts_with(&format!("Done for {text}: ")),
            "{result}"
        );
        let effect_count = effects(folder, &format!("call_{text}"));
        let is_unknown = !answer.contains("acted for");
        assert!(
            effect_count == 1 || (is_unknown && effect_count == 0),
            "{text}: {answer}"
        );

        // A reader that resumes with an id of the former process receives the state.
        if let Some(id) = last_id.take() {
            let path = format!("/agents/default/threads/{thread}/events");
            let events = server.get(USER, &path).header("last-event-id", id);
            let events = events.open().await.events().await;
            assert_eq!(events[0].event, "state", "{events:?}");
            assert_eq!(events.last().unwrap().event, "done");
        }
    }
}

#[tokio::test]
async fn killed_server_loses_nothing_that_it_sent_and_repeats_no_call() {
    let kills = std::env::var(KILLS).ok();
    let kills: usize = kills.map_or(4, |text| text.parse().expect("a number of kills"));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = ServerProcess::start(folder, &[]);
    let stream = |server: &ServerProcess, name: &str| {
        let body = input(&format!("th_{name}"), name);
        server.post(USER, "/agents/stream?format=sdk", body)
    };
    let whole_run = stream(&server, "whole").open().await.events().await;
    assert!(whole_run.len() > 20, "{whole_run:?}");

    let mut moments = Moments(17);
    let (mut round, mut ended_count) = (0, 0);
    // Continues as long as every run was faster than its kill.
    while round < kills || (ended_count == round && round < 10 * kills) {
        let name = format!("r{round}");
        let mut response = stream(&server, &name).open().await;
        let mut events = Vec::new();
        for _ in 0..moments.next(whole_run.len()) {
            events.extend(response.event().await);
        }
        sleep(Duration::from_micros(moments.next(2_000) as u64));
        server.kill();
        events.extend(response.events_until_cut().await);
        ended_count += usize::from(events.len() == whole_run.len());

        server = ServerProcess::start(folder, &[]);
        check_thread(&server, folder, &name, &events).await;
        continue_thread(&server, folder, &name, &events).await;
        round += 1;
    }
    assert!(ended_count < round, "no run was killed in its middle");

    server.kill();
    let store = files(folder);
    for info in store.list().await.unwrap() {
        let state = store.load(&info.id).await.unwrap().unwrap().state;
        state.messages.validate_for_model().unwrap();
    }
}

#[tokio::test]
async fn call_that_waited_when_its_server_was_killed_runs_once_after_the_decision() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = ServerProcess::start(folder, &[(ASKS, "1")]);
    // In this format, the call is stored as pending at once.
    let message = json!({"id": "m", "role": "user", "content": "parked"});
    let body = json!({"threadId": "th", "runId": "r", "messages": [message], "tools": [],
        "context": [], "state": {}, "forwardedProps": {}});
    let run = server.post(USER, "/agents/stream?format=ag-ui", body);
    let events = run.open().await.events().await;
    let end = &events.last().unwrap().data;
    assert!(end.contains("\"type\":\"interrupt\""), "{end}");
    server.kill();

    let mut server = ServerProcess::start(folder, &[(ASKS, "1")]);
    let thread = server.get(USER, "/agents/default/threads/th").send().await;
    let call = thread.ok(200)["pending"][0].clone();
    assert_eq!(effects(folder, "call_parked"), 0);
    let decision = json!({"id": call["id"], "args_hash": call["args_hash"], "decision": "allow"});
    let body = json!({"thread_id": "th", "decisions": [decision]});
    let reply = server
        .post(USER, "/agents/resume", body.clone())
        .send()
        .await;
    let reply = reply.ok(200);
    let response = reply["response"].as_str().unwrap();
    assert!(response.contains("acted for call_parked"), "{response}");
    server.kill();

    let server = ServerProcess::start(folder, &[(ASKS, "1")]);
    let reply = server.post(USER, "/agents/resume", body).send().await;
    reply.error(409);
    assert_eq!(effects(folder, "call_parked"), 1);
}

#[tokio::test]
async fn call_whose_question_was_open_when_its_server_was_killed_did_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = ServerProcess::start(folder, &[(ASKS, "1")]);
    let run = server.post(USER, "/agents/stream", input("th", "asked"));
    let mut stream = run.open().await;
    stream.until("on_permission_request").await;
    server.kill();

    let server = ServerProcess::start(folder, &[]);
    let thread = server.get(USER, "/agents/default/threads/th").send().await;
    let thread = thread.ok(200);
    assert_eq!(thread["interrupted"], true, "{thread}");
    let reply = server.post(USER, "/agents/invoke", input("th", "asked"));
    let reply = reply.send().await.ok(200);
    let response = reply["response"].as_str().unwrap();
    assert!(response.contains("it did not run"), "{response}");
    assert_eq!(effects(folder, "call_asked"), 0);
}
