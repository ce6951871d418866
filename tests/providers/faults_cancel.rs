//! Runs that are dropped or interrupted during a response, and the requests that follow.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::testing::FaultServer;
use agentcore::tool::Answer;
use agentcore::{Agent, ExitReason, FuncTool, Run, SdkMessage};
use tokio::sync::{Notify, oneshot};

use crate::faults_kit::{ALL, Api, accepted};
use crate::kit::{Log, any_object, asking, echo, logged, result_texts, stored};

/// Reads a run until the first words of the model.
async fn first_words(run: &mut Run) {
    loop {
        let message = run.next().await.unwrap();
        let json = serde_json::to_string(&message).unwrap();
        if matches!(message, SdkMessage::Partial(_)) && json.contains("some") {
            return;
        }
    }
}

/// A server that sends nothing after the first words, and an agent that emits partial messages.
async fn hanging(api: Api) -> (FaultServer, Agent) {
    let server = FaultServer::start().await.unwrap();
    server.reply(api.hangs());
    let builder = api.agent(&server).include_partial_messages(true);
    (server, builder.build().unwrap())
}

/// A tool that notifies `started` and never returns.
fn waits(name: &'static str, started: &Arc<Notify>) -> FuncTool {
    waits_with(name, started, ())
}

/// A tool like that of [`waits`]; its one call owns `kept` until the call is dropped.
fn waits_with<T: Send + 'static>(name: &'static str, started: &Arc<Notify>, kept: T) -> FuncTool {
    let (started, kept) = (started.clone(), Mutex::new(Some(kept)));
    FuncTool::new(name, "Waits", any_object(), move |_, _| {
        started.notify_one();
        let value = kept.lock().unwrap().take();
        async move {
            let _kept = value;
            std::future::pending::<String>().await
        }
    })
}

/// Reads a run until `reached` is notified.
async fn until(run: &mut Run, reached: &Notify) {
    loop {
        tokio::select! {
            biased;
            () = reached.notified() => return,
            message = run.next() => assert!(message.is_some(), "the run has ended"),
        }
    }
}

/// Runs the session once more. Checks that the history is complete and that the server accepts each
/// request.
async fn run_again(api: Api, server: &FaultServer, agent: &Agent) {
    server.reply(api.text("Good."));
    let output = agent.session("s").run("Again").await.unwrap();
    assert_eq!(output.text, "Good.", "{api:?}");
    output.messages.validate_for_model().unwrap();
    let bodies = accepted(api, server);
    assert!(bodies.last().unwrap().to_string().contains("Again"));
}

#[tokio::test]
async fn c1_run_dropped_in_the_stream_closes_its_connection() {
    for api in ALL {
        let (server, agent) = hanging(api).await;
        let mut run = agent.session("s").run("Go");
        first_words(&mut run).await;
        drop(run);
        server.all_closed().await;
        run_again(api, &server, &agent).await;
    }
}

#[tokio::test]
async fn c2_run_dropped_in_a_tool_drops_it_and_leaves_no_call_open() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let calls = [("a", "echo", r#"{"text":"x"}"#), ("b", "waits", "{}")];
        server.reply(api.calls(&calls));
        let (alive, gone) = oneshot::channel::<()>();
        let started = Arc::default();
        let tools = [echo(), waits_with("waits", &started, alive)];
        let agent = api.agent(&server).tools(tools).build().unwrap();
        let mut run = agent.session("s").run("Go");
        until(&mut run, &started).await;
        drop(run);
        assert!(gone.await.is_err(), "the tool's future is dropped");
        run_again(api, &server, &agent).await;
        let results = result_texts(&stored(&agent, "s").await);
        assert_eq!(results.len(), 2, "{results:?}");
        assert!(results[1].contains("may have"), "{results:?}");
    }
}

#[tokio::test]
async fn c3_interrupt_between_parallel_tools_keeps_finished_results() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(api.calls(&[
            ("a", "first", "{}"),
            ("b", "echo", r#"{"text":"quick"}"#),
            ("c", "second", "{}"),
            ("d", "never", "{}"),
        ]));
        let (log, early, late) = (Log::default(), Arc::default(), Arc::default());
        let tools = [
            waits("first", &early),
            echo(),
            waits("second", &late),
            logged("never", &log),
        ];

        // At most two calls run at once: the third begins after the second has ended.
        let builder = api.agent(&server).tools(tools).parallel_tools(2);
        let agent = builder.build().unwrap();
        let mut run = agent.session("s").run("Go");
        until(&mut run, &late).await;
        run.handle().interrupt();
        let output = run.finish().await.unwrap();
        assert_eq!(output.end, ExitReason::Interrupted);
        output.messages.validate_for_model().unwrap();
        let results = result_texts(&output.messages);
        assert_eq!(results[1], "quick", "{results:?}");
        assert!(results[0].contains("may have") && results[2].contains("may have"));
        assert!(results[3].contains("did not run") && log.len() == 0);
        run_again(api, &server, &agent).await;
    }
}

#[tokio::test]
async fn c4_interrupt_during_a_question_denies_the_call() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(api.calls(&[("a", "act", "{}")]));
        let log = Log::default();
        let builder = api.agent(&server).tool(logged("act", &log));
        let agent = builder.permissions(asking()).build().unwrap();
        let mut run = agent.session("s").run("Go");
        let (handle, responder) = (run.handle(), run.responder());
        let mut asked = None;
        while let Some(message) = run.next().await {
            if let SdkMessage::PermissionRequest(request) = message {
                handle.interrupt();
                asked = Some(request.id.clone());
            }
        }

        assert!(!responder.respond(asked.unwrap(), Answer::Allow), "late");
        let output = run.into_output().unwrap();
        assert_eq!(output.end, ExitReason::Interrupted, "{api:?}");
        assert!(result_texts(&output.messages)[0].contains("did not run"));
        run_again(api, &server, &agent).await;
        assert_eq!(log.len(), 0);
    }
}

#[tokio::test]
async fn c5_second_stop_and_stop_after_the_end_change_nothing() {
    for api in ALL {
        let (server, agent) = hanging(api).await;
        let mut run = agent.session("s").run("Go");
        let handle = run.handle();
        first_words(&mut run).await;
        handle.interrupt();
        handle.interrupt();
        let output = run.finish().await.unwrap();
        assert_eq!(output.end, ExitReason::Interrupted);
        assert!(output.text.starts_with("some"), "{}", output.text);
        server.all_closed().await;
        handle.interrupt();
        handle.abort();
        assert_eq!(handle.exit_reason(), Some(ExitReason::Interrupted));
        run_again(api, &server, &agent).await;
    }
}

#[tokio::test]
async fn c6_run_outlives_its_agent_and_no_connection_outlives_the_run() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(api.calls(&[("a", "echo", "{}")]));
        server.reply(api.hangs());
        server.fallback(api.text("nobody asked"));
        let builder = api.agent(&server).tool(echo());
        let agent = builder.include_partial_messages(true).build().unwrap();
        let mut run = agent.run("Go");
        drop(agent);
        first_words(&mut run).await;
        drop(run);
        server.all_closed().await;
        assert_eq!(accepted(api, &server).len(), 2, "{api:?}");
    }
}

/// Uses a paused clock, which advances only when both sides wait.
#[tokio::test(start_paused = true)]
async fn c7_interrupt_ends_the_run_without_delay() {
    for api in ALL {
        let (_server, agent) = hanging(api).await;
        let mut run = agent.run("Go");
        first_words(&mut run).await;
        let start = tokio::time::Instant::now();
        run.handle().interrupt();
        let output = run.finish().await.unwrap();
        assert_eq!(output.end, ExitReason::Interrupted);
        assert!(start.elapsed() <= Duration::from_millis(100), "{api:?}");
    }
}
