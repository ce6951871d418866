//! Wakes of the task that polls a run.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use agentcore::testing::ScriptedModel;
use agentcore::{FuncTool, Run, SdkMessage};
use futures::Stream;
use serde_json::json;
use tokio::sync::oneshot;

use crate::kit::{agent, any_object, echo};

/// A waker that counts wakes and forwards them.
struct CountingWaker {
    count: AtomicUsize,
    task: Waker,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

/// Polls a run once, and returns the number of wakes during the poll as well.
fn poll_counted(run: &mut Run, cx: &Context<'_>) -> (Poll<Option<SdkMessage>>, usize) {
    let counting_waker = Arc::new(CountingWaker {
        count: AtomicUsize::new(0),
        task: cx.waker().clone(),
    });
    let waker = Waker::from(counting_waker.clone());
    let polled = Pin::new(run).poll_next(&mut Context::from_waker(&waker));
    let count = counting_waker.count.load(Ordering::SeqCst);
    (polled, count)
}

#[tokio::test]
async fn reader_that_takes_a_message_is_not_woken_by_it() {
    let mut model = ScriptedModel::new();
    for text in ["a", "b", "c", "d"] {
        let calls = [
            ("echo", json!({"text": text})),
            ("echo", json!({"text": "x"})),
        ];
        model = model.calls(calls);
    }
    let agent = agent(model.say("done")).tool(echo()).build().unwrap();
    let mut run = agent.run("Go");
    let mut wakes = 0;
    let mut message_count = 0;
    loop {
        let next = poll_fn(|cx| {
            let (polled, count) = poll_counted(&mut run, cx);
            if polled.is_ready() {
                wakes += count;
            }
            polled
        });
        if next.await.is_none() {
            break;
        }
        message_count += 1;
    }
    assert!(message_count > 20, "{message_count} messages");
    assert_eq!(wakes, 0);
    assert_eq!(run.into_output().unwrap().turns, 5);
}

/// A tool that waits for answers of a thread, `count` times.
fn waits(count: usize, thread: mpsc::Sender<oneshot::Sender<usize>>) -> FuncTool {
    FuncTool::new("waits", "Waits", any_object(), move |cx, _args| {
        let thread = thread.clone();
        async move {
            for number in 0..count {
                let (sender, receiver) = oneshot::channel();
                thread.send(sender).expect("the thread runs");
                let answer = receiver.await.expect("an answer");
                if number % 3 == 0 {
                    cx.progress(json!({"answer": answer})).await;
                }
            }
            "done"
        }
    })
}

/// Wakes arrive from another thread, before, during or after the poll that waits for them. A lost
/// one would make the run wait forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakes_of_a_foreign_thread_are_never_lost() {
    const COUNT: usize = 20_000;
    let (thread_sender, requests) = mpsc::channel::<oneshot::Sender<usize>>();
    let thread = std::thread::spawn(move || {
        for (number, request) in requests.into_iter().enumerate() {
            // The delay varies, so that wakes arrive at all stages of a poll.
            for _ in 0..number % 400 {
                std::hint::spin_loop();
            }
            let _ = request.send(number);
        }
    });

    let model = ScriptedModel::new()
        .calls([("waits", json!({})), ("waits", json!({}))])
        .say("done");
    let agent = agent(model)
        .tool(waits(COUNT, thread_sender))
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let mut progress_count = 0;
    // Each future of `next` is dropped after its first poll.
    while let Some(message) = poll_fn(|cx| pin!(run.next()).poll(cx)).await {
        progress_count += usize::from(matches!(message, SdkMessage::ToolProgress(_)));
    }
    assert_eq!(run.into_output().unwrap().turns, 2);
    assert!(progress_count >= 2 * COUNT / 3, "{progress_count}");
    drop(agent);
    thread.join().expect("no panic");
}
