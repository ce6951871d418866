//! Summaries of a gateway, which are made in the background.

use std::sync::Arc;
use std::time::Duration;

use agentcore::gateway::{Summaries, estimate_tokens};
use agentcore::model::{Compaction, ModelProfile};
use agentcore::session::Record;
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{Agent, ErrorKind, Message, Session, SessionStore, ThreadStore, ToolCall};
use serde_json::json;

use crate::kit::agent;

const NOTE: &str = "[Some oversized messages are left out of this summary.]";

/// Appends `texts` to a session, as messages of the user and the model in turn.
async fn filled(store: &ThreadStore, texts: impl IntoIterator<Item = String>) {
    let lease = store.lease("s").await.unwrap();
    let records = texts
        .into_iter()
        .enumerate()
        .map(|(index, text)| Record::Message {
            message: Arc::new(match index % 2 {
                0 => Message::human(text),
                _ => Message::ai(text),
            }),
            input_id: None,
        });
    store.append(&lease, records.collect()).await.unwrap();
}

fn numbers(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("message {number}"))
}

fn summarizer<'a>(texts: impl IntoIterator<Item = &'a str>) -> ScriptedModel {
    let says = |model: ScriptedModel, text: &str| model.say(format!("<summary>{text}</summary>"));
    texts.into_iter().fold(ScriptedModel::new(), says)
}

fn over(store: &ThreadStore, summaries: &Summaries, model: ScriptedModel) -> Agent {
    let agent = agent(model).store(store.clone());
    agent.compactor(summaries.clone()).build().unwrap()
}

async fn maybe_summarize(
    summaries: &Summaries,
    session: &Session,
) -> agentcore::Result<Option<Compaction>> {
    let state = session.state().await?.unwrap();
    summaries.maybe_summarize(session, &state).await
}

#[tokio::test]
async fn twenty_messages_have_no_summary_and_one_more_has() {
    for (count, expected) in [(20, None), (21, Some(Compaction::new("merged", 17)))] {
        let store = ThreadStore::new();
        filled(&store, numbers(count)).await;
        let model = summarizer(["first half", "second half", "merged"]);
        let summaries = Summaries::new().with_model(model.clone());
        let session = over(&store, &summaries, ScriptedModel::new()).session("s");
        assert_eq!(
            maybe_summarize(&summaries, &session).await.unwrap(),
            expected
        );
        let state = session.state().await.unwrap().unwrap();
        assert_eq!(state.messages.len(), count, "the history is whole");
        assert_eq!(state.compaction, expected);
        let requests = model.requests();
        assert_eq!(requests.len(), if expected.is_some() { 3 } else { 0 });
        model.allow_unused();
    }
}

#[tokio::test]
async fn halves_are_merged_and_up_to_ten_messages_are_one() {
    let store = ThreadStore::new();
    filled(&store, numbers(21)).await;
    let model = summarizer(["first half", "second half", "merged", "newer"]);
    let summaries = Summaries::new()
        .with_model(model.clone())
        .with_max_messages(10);
    let session = over(&store, &summaries, ScriptedModel::new()).session("s");
    maybe_summarize(&summaries, &session).await.unwrap();
    let prompts = |from: usize| -> Vec<String> {
        let requests = model.requests();
        let prompts = requests[from..]
            .iter()
            .map(|request| request.messages.last_content());
        prompts.map(|prompt| prompt.into_owned()).collect()
    };
    let first_prompts = prompts(0);
    assert!(
        first_prompts[0].contains("message 0") && first_prompts[0].contains("message 7"),
        "{}",
        first_prompts[0]
    );
    assert!(
        !first_prompts[0].contains("message 8"),
        "{}",
        first_prompts[0]
    );
    assert!(
        first_prompts[1].contains("message 8") && first_prompts[1].contains("message 16"),
        "{}",
        first_prompts[1]
    );
    assert!(
        first_prompts[2].contains("first half") && first_prompts[2].contains("second half"),
        "{}",
        first_prompts[2]
    );

    // Four messages follow the summary, so seven more exceed the limit.
    filled(&store, numbers(7)).await;
    let compaction = maybe_summarize(&summaries, &session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(compaction, Compaction::new("newer", 24));
    let newer = &prompts(3)[0];
    assert!(
        newer.contains("merged") && newer.contains("message 17"),
        "{newer}"
    );
}

#[tokio::test]
async fn session_is_due_at_three_quarters_of_the_window() {
    for (characters, is_due) in [(750, false), (760, true)] {
        let store = ThreadStore::new();
        filled(&store, (0..10).map(|_| "x".repeat(characters / 10 * 3))).await;
        let model = summarizer(["short"]);
        model.allow_unused();
        let summaries = Summaries::new()
            .with_model(model)
            .with_context_window(1_000);
        let session = over(&store, &summaries, ScriptedModel::new()).session("s");
        let compaction = maybe_summarize(&summaries, &session).await.unwrap();
        assert_eq!(compaction.is_some(), is_due, "{characters}");
    }

    // The context window counts, not the length of an answer.
    let store = ThreadStore::new();
    filled(&store, (0..10).map(|_| "x".repeat(2_100))).await;
    let profile = ModelProfile::default().with_context_window(128_000);
    let model = ScriptedModel::new().with_profile(profile.with_max_output_tokens(8_192));
    let summaries = Summaries::new();
    let session = over(&store, &summaries, model).session("s");
    assert_eq!(maybe_summarize(&summaries, &session).await.unwrap(), None);
}

#[tokio::test]
async fn oversized_messages_are_left_out_with_a_note() {
    let store = ThreadStore::new();
    let huge = "y".repeat(1_600);
    let texts = ["one".to_owned(), huge, "two".to_owned()];
    filled(&store, texts.into_iter().chain(numbers(19))).await;
    let model = summarizer(["a", "b", "all of it", "again"]);
    let summaries = Summaries::new()
        .with_model(model.clone())
        .with_context_window(1_000);
    let session = over(&store, &summaries, ScriptedModel::new()).session("s");
    let compaction = maybe_summarize(&summaries, &session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(compaction.summary, format!("all of it\n\n{NOTE}"));
    let is_sent =
        |request: &agentcore::ModelRequest| request.messages.last_content().contains("yy");
    assert!(!model.requests().iter().any(is_sent));

    // Without other messages, the earlier summary stays and has one note.
    filled(&store, ["z".repeat(1_600)].into_iter().chain(numbers(4))).await;
    let summaries = summaries.with_max_messages(5);
    let compaction = maybe_summarize(&summaries, &session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        compaction.summary.matches(NOTE).count(),
        1,
        "{}",
        compaction.summary
    );
    model.allow_unused();
}

#[tokio::test(start_paused = true)]
async fn session_is_summarised_once_at_a_time_and_for_two_minutes_at_most() {
    let store = ThreadStore::new();
    filled(&store, numbers(21)).await;
    let model = ScriptedModel::new().hang().hang();
    let summaries = Summaries::new().with_model(model.clone());
    let session = over(&store, &summaries, ScriptedModel::new()).session("s");
    let start = tokio::time::Instant::now();
    let (first, second) = tokio::join!(
        maybe_summarize(&summaries, &session),
        maybe_summarize(&summaries, &session)
    );
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(second.unwrap(), None);
    assert_eq!(start.elapsed(), Duration::from_secs(120));
    assert_eq!(session.state().await.unwrap().unwrap().compaction, None);

    // After the failure, one of two calls at once makes the summary.
    let model = summarizer(["a", "b", "c"]);
    let summaries = Summaries::new().with_model(model);
    let session = over(&store, &summaries, ScriptedModel::new()).session("s");
    let clone = summaries.clone();
    let (first, second) = tokio::join!(
        maybe_summarize(&summaries, &session),
        maybe_summarize(&clone, &session)
    );
    assert_eq!(first.unwrap().is_some(), second.unwrap().is_none());
}

/// Turns that run while the summary is made lose no message, and a turn that holds the session's
/// lease when the summary is complete does not lose the summary.
#[tokio::test(start_paused = true)]
async fn summary_while_turns_run_loses_no_message() {
    let mut waited_count = 0;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut wait = || Duration::from_millis(random.u64(0..2_000));
        let store = ThreadStore::new();
        filled(&store, numbers(21)).await;
        let slow = |model: ScriptedModel, text: &str, wait| {
            model
                .say(format!("<summary>{text}</summary>"))
                .delayed(wait)
        };
        let model = slow(ScriptedModel::new(), "first", wait());
        let model = slow(slow(model, "second", wait()), "merged", wait());
        let summaries = Summaries::new().with_model(model);
        let turns = (0..4).fold(ScriptedModel::new(), |model, turn| {
            model.say(format!("answer {turn}")).delayed(wait())
        });
        let session = over(&store, &summaries, turns).session("s");
        let pauses = [wait(), wait(), wait(), wait()];
        let conversation = async {
            for (turn, pause) in pauses.into_iter().enumerate() {
                tokio::time::sleep(pause).await;
                let input = format!("question {turn}");
                // Storing a summary takes the session's lease for a moment.
                while let Err(error) = session.clone().run(&*input).await {
                    assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}");
                    waited_count += 1;
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
        };
        let (compaction, ()) = tokio::join!(maybe_summarize(&summaries, &session), conversation);
        assert_eq!(
            compaction.unwrap(),
            Some(Compaction::new("merged", 17)),
            "seed {seed}"
        );
        let state = session.state().await.unwrap().unwrap();
        assert_eq!(state.compaction, Some(Compaction::new("merged", 17)));
        let texts: Vec<_> = state
            .messages
            .iter()
            .map(|message| message.text())
            .collect();
        let turns = (0..4).flat_map(|turn| [format!("question {turn}"), format!("answer {turn}")]);
        let expected: Vec<_> = numbers(21).chain(turns).collect();
        assert_eq!(texts, expected, "seed {seed}");
    }
    assert_eq!(
        waited_count, 0,
        "a store in memory holds a session for no time"
    );
}

#[tokio::test]
async fn run_is_summarised_only_near_the_end_of_the_window() {
    let store = ThreadStore::new();
    filled(&store, numbers(60)).await;
    let summaries = Summaries::new().with_model(ScriptedModel::new());
    let session = over(&store, &summaries, ScriptedModel::new().say("done")).session("s");
    let output = session.run("Go").await.unwrap();
    assert_eq!(
        output.state.compaction, None,
        "many messages do not stop a run"
    );

    filled(&store, (0..8).map(|_| "word ".repeat(200))).await;
    let model = FunctionModel::text(|_| "<summary>short</summary>".to_owned());
    let summaries = Summaries::new()
        .with_model(model)
        .with_context_window(2_000);
    let session = over(&store, &summaries, ScriptedModel::new().say("done")).session("s");
    let output = session.run("Go").await.unwrap();
    assert_eq!(output.state.compaction.unwrap().summary, "short");
}

#[test]
fn tokens_are_a_third_of_the_characters() {
    let call = ToolCall::new("c", "echo", json!({"text": "12345"}));
    let messages = [
        Message::human("123456789"),
        Message::ai("\u{e4}\u{f6}\u{fc}\u{e4}\u{f6}\u{fc}"),
        Message::ai_calling("", [call]),
    ];
    let messages = messages.map(Arc::new);
    assert_eq!(estimate_tokens(&messages), 3 + 2 + 5);
}
