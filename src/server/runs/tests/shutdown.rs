//! The end of the server, and of runs that fail.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::agent::Agent;
use crate::run::ExitReason;
use crate::testing::{ScriptedModel, Step};

use super::super::super::stream::StreamFormat;
use super::super::limits::{OnDisconnect, RunLimits};
use super::super::table::RunRefusal;
use super::kit::{OddStore, Oddity, agent, key, rest, start, table, until};

#[tokio::test(start_paused = true)]
async fn shutdown_leaves_open_questions_pending_and_interrupts_the_other_runs() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let asking = agent(ScriptedModel::new().call("act", json!({})));
    let busy = agent(ScriptedModel::new().step(Step::text("Well").then_hang()));
    let questioner = start(&table, key("a", "1"), &asking).unwrap();
    let worker = start(&table, key("a", "2"), &busy).unwrap();
    let mut question = questioner.reader(StreamFormat::Sdk, None, None).unwrap();
    until(&mut question, "permission_request").await;
    let mut text = worker.reader(StreamFormat::Events, None, None).unwrap();
    until(&mut text, "Well").await;

    let begin = Instant::now();
    table.shutdown(Duration::from_secs(10)).await;
    assert_eq!(begin.elapsed().as_secs(), 0);
    let end = |run: &super::super::server_run::ServerRun| {
        run.end().unwrap().as_ref().as_ref().unwrap().end
    };
    assert_eq!(end(&questioner), ExitReason::AwaitingApproval);
    assert_eq!(end(&worker), ExitReason::Interrupted);
    assert_eq!(asking.session("1").pending().await.unwrap().len(), 1);
    let messages = busy.session("2").state().await.unwrap().unwrap().messages;
    assert!(messages.validate_for_model().is_ok());
    assert!(rest(&mut question).await.contains("tool_deferred"));
    assert!(rest(&mut text).await.contains("event: error"));
    assert!(table.is_closing());
    assert_eq!(
        start(&table, key("a", "3"), &busy).unwrap_err(),
        RunRefusal::Closing
    );
}

#[tokio::test(start_paused = true)]
async fn second_shutdown_keeps_the_calls_that_the_first_one_left_pending() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let asking = agent(ScriptedModel::new().call("act", json!({})));
    let questioner = start(&table, key("a", "1"), &asking).unwrap();
    let mut question = questioner.reader(StreamFormat::Sdk, None, None).unwrap();
    until(&mut question, "permission_request").await;

    let limit = Duration::from_secs(10);
    tokio::join!(table.shutdown(limit), table.shutdown(limit));
    let end = questioner.end().unwrap();
    let output = end.as_ref().as_ref().unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    assert_eq!(asking.session("1").pending().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_runs_that_do_not_end_in_time() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = Agent::builder(ScriptedModel::new().say("Done."))
        .store(OddStore::new(Oddity::HangsInSave))
        .build()
        .unwrap();
    let run = start(&table, key("a", "s"), &agent).unwrap();
    let mut reader = run.reader(StreamFormat::Events, None, None).unwrap();
    until(&mut reader, "Done.").await;
    let begin = Instant::now();
    table.shutdown(Duration::from_secs(4)).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(4));
    assert!(!run.is_running());
    assert!(run.finished().await.is_none());
    let text = rest(&mut reader).await;
    assert!(text.contains("event: error"), "{text}");
    assert!(text.contains("shut down"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_the_logs_and_states_of_all_runs() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let quick = agent(ScriptedModel::new().say("Done."));
    let busy = agent(ScriptedModel::new().step(Step::text("Well").then_hang()));
    let ended_run = start(&table, key("a", "1"), &quick).unwrap();
    ended_run.finished().await.unwrap();
    let interrupted_run = start(&table, key("a", "2"), &busy).unwrap();
    let mut reader = interrupted_run
        .reader(StreamFormat::Events, None, None)
        .unwrap();
    until(&mut reader, "Well").await;
    let [ended_run, interrupted_run] = [ended_run, interrupted_run].map(|run| Arc::downgrade(&run));
    assert!(ended_run.upgrade().is_some());

    table.shutdown(Duration::from_secs(10)).await;
    assert!(table.find(&key("a", "1")).is_none());
    assert!(ended_run.upgrade().is_none());

    // A reader still receives the end of its run.
    assert!(rest(&mut reader).await.contains("event: error"));
    drop(reader);
    assert!(interrupted_run.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn log_of_an_ended_run_is_dropped_with_its_table() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("Done."));
    let run = start(&table, key("a", "s"), &agent).unwrap();
    run.finished().await.unwrap();
    let weak_run = Arc::downgrade(&run);
    drop(run);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(weak_run.upgrade().is_some());
    drop(table);
    assert!(weak_run.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_run_is_an_error_event() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = Agent::builder(ScriptedModel::new())
        .store(OddStore::new(Oddity::PanicsInLoad))
        .build()
        .unwrap();
    let run = start(&table, key("a", "s"), &agent).unwrap();
    for format in [
        StreamFormat::Events,
        StreamFormat::AgUi,
        StreamFormat::AiSdk,
    ] {
        let mut reader = run.reader(format, None, None).unwrap();
        let text = rest(&mut reader).await;
        assert!(text.contains("the store burst"), "{text}");
    }
    let end = run.finished().await.unwrap();
    let error = end.as_ref().as_ref().unwrap_err();
    assert!(error.to_string().contains("the store burst"), "{error}");
}
