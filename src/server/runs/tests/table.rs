//! The table of runs, their questions and their readers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::message::Messages;
use crate::run::ExitReason;
use crate::session::{AgentState, SessionStore, ThreadStore};
use crate::testing::{ScriptedModel, Step};
use crate::tool::Answer;

use super::super::super::stream::{EncoderOptions, StreamFormat};
use super::super::limits::{OnDisconnect, RunLimits};
use super::super::questions::AnswerOutcome;
use super::super::table::RunRefusal;
use super::super::user_quota::TooManyStreams;
use super::kit::{agent, key, key_in, rest, start, start_with, table, until};

fn hanging() -> ScriptedModel {
    ScriptedModel::new().step(Step::text("Well").then_hang())
}

#[tokio::test(start_paused = true)]
async fn second_run_of_a_session_is_refused_until_the_first_has_ended() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(hanging().say("Again."));
    let run = start(&table, key("a", "s"), &agent).unwrap();
    assert_eq!(
        start(&table, key("a", "s"), &agent).unwrap_err(),
        RunRefusal::Busy
    );
    assert!(table.find(&key("b", "s")).is_none());

    let mut reader = run.reader(StreamFormat::Events, None, None).unwrap();
    until(&mut reader, "Well").await;
    run.handle().interrupt();
    let end = run.finished().await.unwrap();
    assert_eq!(end.as_ref().as_ref().unwrap().end, ExitReason::Interrupted);
    let second = start(&table, key("a", "s"), &agent).unwrap();
    assert_eq!(table.find(&key("a", "s")).unwrap().id(), second.id());
    let end = second.finished().await.unwrap();
    assert_eq!(end.as_ref().as_ref().unwrap().text, "Again.");
}

#[tokio::test(start_paused = true)]
async fn sessions_of_the_same_name_in_two_stores_have_a_run_each() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("1").say("2"));
    let stores: [Arc<dyn SessionStore>; 2] = [(); 2].map(|()| Arc::new(ThreadStore::new()) as _);
    let [one, two] = stores.each_ref().map(|store| key_in(store, "a", "s"));
    let first = start(&table, one.clone(), &agent).unwrap();
    first.finished().await;
    let second = start(&table, two.clone(), &agent).unwrap();
    assert_eq!(table.find(&one).unwrap().id(), first.id());
    assert!(Arc::ptr_eq(&table.find(&two).unwrap(), &second));
    table.remove_thread_log(&one);
    assert!(table.find(&one).is_none() && table.find(&two).is_some());
}

#[tokio::test(start_paused = true)]
async fn runs_are_limited_for_a_user_and_for_the_server() {
    let table = table(RunLimits::default().with_runs(3, 2), OnDisconnect::Detach);
    let agent = agent(hanging().hang().hang().hang());
    let runs: Vec<_> = [("a", "1"), ("a", "2"), ("b", "3")]
        .into_iter()
        .map(|(user, session)| start(&table, key(user, session), &agent).unwrap())
        .collect();
    let refusal = |user| start(&table, key(user, "4"), &agent).unwrap_err();
    assert_eq!(refusal("a"), RunRefusal::UserRuns(2));
    assert_eq!(refusal("b"), RunRefusal::Runs(3));
    assert!(refusal("a").to_string().contains("you have 2 runs"));
    assert_eq!(table.running("a").len(), 2);

    for run in &runs {
        run.handle().interrupt();
        run.finished().await;
    }
    assert!(table.running("a").is_empty());
    start(&table, key("a", "4"), &agent).unwrap();
}

#[tokio::test(start_paused = true)]
async fn readers_are_limited_for_a_user() {
    let limits = RunLimits::default().with_readers_per_user(2);
    let table = table(limits, OnDisconnect::Detach);
    let agent = agent(hanging().hang());
    let one = start(&table, key("a", "1"), &agent).unwrap();
    let two = start(&table, key("a", "2"), &agent).unwrap();
    let readers = [&one, &two].map(|run| run.reader(StreamFormat::Sdk, None, None).unwrap());
    let refusal = one.reader(StreamFormat::Sdk, None, None).unwrap_err();
    assert_eq!(refusal, TooManyStreams { limit: 2 });
    drop(readers);
    assert!(one.reader(StreamFormat::Sdk, None, None).is_ok());
}

#[tokio::test(start_paused = true)]
async fn question_is_answered_once_and_by_its_user_alone() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().call("act", json!({})).say("Done."));
    let run = start(&table, key("a", "s"), &agent).unwrap();
    let mut reader = run.reader(StreamFormat::Sdk, None, None).unwrap();
    let text = until(&mut reader, "permission_request").await;
    let (_, id) = text.rsplit_once("\"id\":\"ask_").unwrap();
    let id = format!("ask_{}", id.split_once('"').unwrap().0);

    let answer = |user| table.answer(user, &id, Answer::Allow);
    assert_eq!(answer("b"), AnswerOutcome::Unknown);
    assert_eq!(
        table.answer("a", "ask_x", Answer::Allow),
        AnswerOutcome::Unknown
    );
    assert_eq!(answer("a"), AnswerOutcome::Answered);
    assert_eq!(answer("a"), AnswerOutcome::Closed);
    assert!(rest(&mut reader).await.contains("acted"));
    assert_eq!(answer("a"), AnswerOutcome::Closed);
}

#[tokio::test(start_paused = true)]
async fn question_without_an_answer_waits_for_a_decision() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().call("act", json!({})));
    let begin = Instant::now();
    let run = start(&table, key("a", "s"), &agent).unwrap();
    let end = run.finished().await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 30);
    let output = end.as_ref().as_ref().unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);

    let mut reader = run.reader(StreamFormat::AgUi, None, None).unwrap();
    let text = rest(&mut reader).await;
    assert!(text.contains("\"type\":\"interrupt\""), "{text}");
    assert!(text.contains(&*output.pending()[0].args_hash), "{text}");
}

#[tokio::test(start_paused = true)]
async fn deserted_run_is_interrupted_after_five_seconds_without_a_reader() {
    let table = table(RunLimits::default(), OnDisconnect::Interrupt);
    let agent = agent(hanging());
    let run = start(&table, key("a", "s"), &agent).unwrap();
    let reader = run.reader(StreamFormat::Sdk, None, None).unwrap();
    sleep(Duration::from_secs(60)).await;
    drop(reader);
    sleep(Duration::from_secs(4)).await;
    let reader = run.reader(StreamFormat::Sdk, None, None).unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(run.is_running());

    drop(reader);
    let begin = Instant::now();
    let end = run.finished().await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 5);
    assert_eq!(end.as_ref().as_ref().unwrap().end, ExitReason::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn detached_run_continues_without_readers() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let model = ScriptedModel::new().step(Step::text("Late.").delayed(Duration::from_secs(90)));
    let agent = agent(model);
    let run = start(&table, key("a", "s"), &agent).unwrap();
    drop(run.reader(StreamFormat::Sdk, None, None).unwrap());
    let end = run.finished().await.unwrap();
    assert_eq!(end.as_ref().as_ref().unwrap().text, "Late.");
}

#[tokio::test(start_paused = true)]
async fn log_is_kept_for_ten_minutes_after_the_end() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("Done."));
    let run = start(&table, key("a", "s"), &agent).unwrap();
    run.finished().await;
    sleep(Duration::from_secs(599)).await;
    let ended_run = table.find(&key("a", "s")).unwrap();
    let mut reader = ended_run.reader(StreamFormat::Events, None, None).unwrap();
    assert!(rest(&mut reader).await.contains("event: done"));
    sleep(Duration::from_secs(2)).await;
    assert!(table.find(&key("a", "s")).is_none());
}

#[tokio::test(start_paused = true)]
async fn logs_of_ended_runs_are_as_many_as_runs_may_be() {
    let table = table(RunLimits::default().with_runs(2, 2), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("1").say("2").say("3"));
    for session in ["1", "2", "3"] {
        let run = start(&table, key("a", session), &agent).unwrap();
        run.finished().await;
        sleep(Duration::from_secs(1)).await;
    }
    let has_logs = ["1", "2", "3"].map(|session| table.find(&key("a", session)).is_some());
    assert_eq!(has_logs, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn short_runs_leave_no_more_tasks_than_logs() {
    const RUNS: usize = 300;
    let table = table(RunLimits::default().with_runs(2, 2), OnDisconnect::Detach);
    let model = (0..RUNS).fold(ScriptedModel::new(), |model, _| model.say("ok"));
    let agent = agent(model);
    for number in 0..RUNS {
        // In new threads, and over and over in one.
        let thread = format!("{}", number % 7 * number);
        let run = start(&table, key("a", &thread), &agent).unwrap();
        run.finished().await;
    }
    // The tasks that were ended by now are removed when the runtime comes to them.
    sleep(Duration::from_secs(1)).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    assert!(
        metrics.num_alive_tasks() <= 3,
        "{}",
        metrics.num_alive_tasks()
    );
}

#[tokio::test(start_paused = true)]
async fn logs_over_the_limit_are_removed_from_the_user_with_the_most() {
    let table = table(RunLimits::default().with_runs(2, 2), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("1").say("2").say("3"));
    let keys = [("b", "1"), ("a", "2"), ("a", "3")].map(|(user, session)| key(user, session));
    for key in &keys {
        let run = start(&table, key.clone(), &agent).unwrap();
        run.finished().await;
        sleep(Duration::from_secs(1)).await;
    }
    let has_logs = keys.map(|key| table.find(&key).is_some());
    assert_eq!(has_logs, [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn logs_of_ended_runs_are_limited_by_the_size_of_their_threads() {
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let agent = agent(ScriptedModel::new().say("1").say("2").say("3").say("4"));
    let mut state = AgentState::new("s");
    state.messages = Messages::from("x".repeat(45 * 1024 * 1024));
    let keys = [("b", "1"), ("a", "2"), ("a", "3"), ("b", "4")];
    let keys = keys.map(|(user, session)| key(user, session));
    for (key, is_large) in keys.iter().zip([false, true, true, true]) {
        let mut options = EncoderOptions::new("run");
        if is_large {
            options = options.with_state(state.clone());
        }
        let run = agent.session(key.thread.clone()).run("Go");
        let run = start_with(&table, key.clone(), run, options).unwrap();
        run.finished().await;
        sleep(Duration::from_secs(1)).await;
    }
    let has_logs = keys.map(|key| table.find(&key).is_some());
    assert_eq!(has_logs, [true, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn size_of_an_ended_run_includes_paths_and_pending_calls() {
    const PATH: usize = 4_000;
    const TEXT: usize = 100_000;
    let table = table(RunLimits::default(), OnDisconnect::Detach);
    let args = json!({"text": "x".repeat(TEXT)});
    let agent = agent(ScriptedModel::new().call("act", args));
    let mut state = AgentState::new("s");
    let paths = (0..1_000).map(|number| format!("/{number:0PATH$}"));
    state.files = Arc::new(paths.map(|path| (path.into(), "".into())).collect());
    let lease = agent.store().lease("s").await.unwrap();
    agent.store().save(&lease, &state).await.unwrap();
    drop(lease);
    let run = start(&table, key("a", "s"), &agent).unwrap();
    assert_eq!(run.size(), 0);
    run.finished().await.unwrap();
    // The log has the call as well, which counts for both states.
    let least = 1_000 * PATH + 3 * TEXT;
    assert!((least..2 * least).contains(&run.size()), "{}", run.size());
}

#[tokio::test(start_paused = true)]
async fn slow_reader_gets_lagged_and_the_run_continues() {
    let table = table(
        RunLimits::default().with_log(4, usize::MAX),
        OnDisconnect::Detach,
    );
    let agent = agent(ScriptedModel::new().say("one two three four five six"));
    let run = start(&table, key("a", "s"), &agent).unwrap();
    let mut reader = run.reader(StreamFormat::Events, None, None).unwrap();
    run.finished().await;
    let text = rest(&mut reader).await;
    assert!(text.starts_with("event: lagged\n"), "{text}");
    assert!(!text.contains("event: done"), "{text}");

    let mut late_reader = run.reader(StreamFormat::Events, None, None).unwrap();
    let text = rest(&mut late_reader).await;
    assert!(
        text.starts_with("event: state\n") && text.contains("event: done"),
        "{text}"
    );
}
