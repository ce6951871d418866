//! Many readers of one run, one of which does not read.

use std::sync::Arc;

use agentcore::server::{RunLimits, Server, ServerLimits};
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, FuncTool, Message, ModelEvent, ModelStream, StopReason, ToolCall};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::agents::input_in;
use crate::http::{Event, Response, TestServer, patiently};

/// The readers that read.
const READERS: usize = 8;
/// The bytes of a piece of an answer. All pieces are more than a connection holds that is not read:
/// 4 MiB on this side, and less on the other.
const PIECE: usize = 8 * 1024;
/// The pieces of each of the answers, which end in a call, but for the last.
const PIECES_EACH: usize = 50;
const ANSWERS: usize = 16;
const PIECES: usize = ANSWERS * PIECES_EACH;
/// The pieces after which the run waits for the readers. The log keeps more of the newest.
const BATCH: usize = 20;
const LOG_BYTES: usize = 2 * 1024 * 1024;

const EVENTS: &str = "/agents/default/threads/th/events";

/// An agent whose pieces wait for permits.
fn agent(permits: Arc<Semaphore>) -> AgentBuilder {
    let model = FunctionModel::stream(move |request| {
        let permits = permits.clone();
        async move {
            let pieces = stream::iter(0..PIECES_EACH).then(move |_| {
                let permits = permits.clone();
                async move {
                    permits.acquire().await.unwrap().forget();
                    Ok(ModelEvent::Text("x".repeat(PIECE)))
                }
            });
            let calls = request
                .messages
                .iter()
                .flat_map(Message::tool_calls)
                .count();
            let mut end = vec![Ok(ModelEvent::stop(StopReason::EndTurn))];
            if calls + 1 < ANSWERS {
                let call = ToolCall::new(format!("call_{calls}"), "step", json!({"number": calls}));
                let stop = ModelEvent::stop(StopReason::ToolUse);
                end = vec![Ok(ModelEvent::ToolCall(call)), Ok(stop)];
            }
            Ok::<ModelStream, _>(pieces.chain(stream::iter(end)).boxed())
        }
    });
    let schema = json!({"type": "object"});
    let step = FuncTool::new("step", "Takes a step", schema, |_, _| async { "taken" });
    AgentBuilder::new(model).tool(step)
}

/// The bytes of the answer in an event.
fn bytes_of(data: &str) -> usize {
    let data: Value = serde_json::from_str(data).unwrap();
    data["data"]["delta"].as_str().map_or(0, str::len)
}

/// The progress of a reader.
enum Progress {
    /// Another batch was read.
    Batch,
    /// The stream has ended, with so many bytes of the answer and this event.
    End(usize, Event),
}

/// Reads to the end, and reports the progress.
async fn read(mut response: Response, progress: UnboundedSender<Progress>) {
    let (mut bytes, mut batches, mut last) = (0, 0, Event::default());
    while let Some(event) = response.event().await {
        if event.event == "on_chat_model_stream" {
            bytes += bytes_of(&event.data);
            // One event may have several pieces: what an answer has beyond those that were read.
            while batches < bytes / (BATCH * PIECE) {
                progress.send(Progress::Batch).unwrap();
                batches += 1;
            }
        }
        last = event;
    }
    progress.send(Progress::End(bytes, last)).unwrap();
}

#[tokio::test]
async fn reader_that_does_not_read_delays_no_other_and_is_not_waited_for() {
    let permits = Arc::new(Semaphore::new(0));
    let runs = RunLimits::default()
        .with_log(10_000, LOG_BYTES)
        .with_readers_per_user(READERS + 1);
    let server = Server::new()
        .agent("default", agent(permits.clone()))
        .limits(ServerLimits::default().with_runs(runs));
    let server = TestServer::start(server).await;
    let run = server.post("/agents/stream", input_in("th", "Go"));

    // The one that does not read has begun the run.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let connection = socket.connect(server.address).await.unwrap();
    let slow = run.open_on(connection).await;

    let (sender, mut progress) = unbounded_channel();
    for _ in 0..READERS {
        let response = server.get(EVENTS).open().await;
        assert_eq!(response.status, 200);
        tokio::spawn(read(response, sender.clone()));
    }
    for batch in 0..PIECES / BATCH {
        permits.add_permits(BATCH);
        for _ in 0..READERS {
            match patiently(progress.recv()).await.unwrap() {
                Progress::Batch => {}
                Progress::End(_, last) => panic!("a reader ended in batch {batch}: {last:?}"),
            }
        }
    }
    for _ in 0..READERS {
        match patiently(progress.recv()).await.unwrap() {
            Progress::Batch => panic!("there are more pieces"),
            Progress::End(bytes, last) => {
                assert_eq!((bytes, &*last.event), (PIECES * PIECE, "done"));
            }
        }
    }

    // The run is over, and of what the slow one has not read the log has the end alone.
    let events = slow.events_until_cut().await;
    let bytes: usize = events
        .iter()
        .filter(|event| event.event == "on_chat_model_stream")
        .map(|event| bytes_of(&event.data))
        .sum();
    assert!(bytes < (PIECES - BATCH) * PIECE, "{bytes} bytes were kept");
    // A server on a busy machine may have closed the connection by now.
    let last = &*events.last().unwrap().event;
    assert!(matches!(last, "lagged" | "on_chat_model_stream"), "{last}");
}
