//! Inputs that are sent more than once.

use std::time::Duration;

use agentcore::testing::{ScriptedModel, Step, StrictModel};
use agentcore::{
    Agent, AgentState, Error, ErrorKind, ExitReason, Message, Messages, ModelEvent, OnUnanswered,
    Run, RunOutput, SdkMessage, StopReason, ThreadStore, hook,
};
use serde_json::json;

use crate::kit::{Log, agent, asking, logged, roles, stored, watch};

const SECOND: Duration = Duration::from_secs(1);

fn send(agent: &Agent, id: &'static str, text: &'static str) -> Run {
    agent.session("s").input_id(id).run(text)
}

/// Interrupts a run after a second, and returns its output.
async fn interrupted(run: Run) -> RunOutput {
    let handle = run.handle();
    tokio::spawn(async move {
        tokio::time::sleep(SECOND).await;
        handle.interrupt();
    });
    run.await.unwrap()
}

fn refusal() -> Vec<ModelEvent> {
    let text = ModelEvent::Text("I will not.".into());
    vec![text, ModelEvent::stop(StopReason::Refusal)]
}

#[tokio::test]
async fn repeated_input_id_returns_the_stored_answer() {
    let model = ScriptedModel::new()
        .say("One.")
        .say("Two.")
        .say("Three.")
        .say("Four.");
    let agent = agent(StrictModel::new(model.clone())).build().unwrap();
    send(&agent, "i1", "First").await.unwrap();
    agent.session("s").run("Without a name").await.unwrap();
    send(&agent, "i2", "Third").await.unwrap();
    for (id, answer) in [("i1", "One."), ("i2", "Three."), ("i1", "One.")] {
        let again = send(&agent, id, "Again").await.unwrap();
        assert_eq!((&*again.text, again.turns), (answer, 0));
        assert_eq!(again.messages.len(), 6);
    }

    let fork = agent.session("s").fork("t").await.unwrap();
    let again = fork.input_id("i1").run("First").await.unwrap();
    assert_eq!((&*again.text, again.turns), ("One.", 0));
    assert_eq!(send(&agent, "i3", "More").await.unwrap().text, "Four.");
    model.assert_finished();
}

#[tokio::test]
async fn repeated_input_id_emits_the_stored_answer_with_its_uuid() {
    let model = ScriptedModel::new().say("One.").say("Two.");
    let agent = agent(model).build().unwrap();
    let answers = async |id: &'static str| {
        let (messages, output) = watch(send(&agent, id, "Go")).await;
        output.unwrap();
        let answer = |message: &SdkMessage| match message {
            SdkMessage::Assistant(event) => Some((event.envelope.uuid, event.text().into_owned())),
            _ => None,
        };
        messages.iter().filter_map(answer).collect::<Vec<_>>()
    };
    let first = answers("i1").await;
    assert_eq!(first.len(), 1);
    answers("i2").await;
    assert_eq!(answers("i1").await, first);
}

#[tokio::test]
async fn repeated_input_id_returns_the_last_answer_of_its_run() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .call("act", json!({}))
        .say("Half.")
        .say("Whole.")
        .say("Later.");
    let once = Log::default();
    let more = hook::before_stop("more", move |_, _| {
        let first = once.len() == 0;
        once.add("asked");
        async move {
            Ok(if first {
                agentcore::StopDecision::Continue(Message::human("Go on."))
            } else {
                agentcore::StopDecision::Stop
            })
        }
    });

    let agent = agent(StrictModel::new(model))
        .tool(logged("act", &log))
        .hook(more)
        .build()
        .unwrap();
    assert_eq!(send(&agent, "i1", "First").await.unwrap().text, "Whole.");
    agent.session("s").run("Second").await.unwrap();
    assert_eq!(send(&agent, "i1", "First").await.unwrap().text, "Whole.");
}

#[tokio::test]
async fn failed_input_is_answered_by_the_next_answer_that_saw_it() {
    let model = ScriptedModel::new()
        .fail(Error::new(ErrorKind::Auth, "no key"))
        .say("To both.")
        .say("Later.");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    send(&agent, "i1", "First").await.unwrap_err();
    send(&agent, "i2", "Second").await.unwrap();
    send(&agent, "i3", "Third").await.unwrap();
    for (id, answer) in [("i1", "To both."), ("i2", "To both."), ("i3", "Later.")] {
        assert_eq!(send(&agent, id, "Again").await.unwrap().text, answer);
    }
}

#[tokio::test]
async fn refused_input_may_be_sent_again_with_its_id() {
    let model = ScriptedModel::new()
        .say("Hello.")
        .step(refusal())
        .say("Well then.")
        .fail(Error::new(ErrorKind::Refused, "no"))
        .say("At last.");
    let agent = agent(StrictModel::new(model.clone())).build().unwrap();
    send(&agent, "i1", "Hi").await.unwrap();
    let refused = send(&agent, "i2", "Do it").await.unwrap();
    assert_eq!(refused.end, ExitReason::Refused);
    assert_eq!(roles(&stored(&agent, "s").await), "user assistant");
    let output = send(&agent, "i2", "Please do it").await.unwrap();
    assert_eq!(
        (output.end, &*output.text),
        (ExitReason::EndTurn, "Well then.")
    );
    assert_eq!(output.messages.len(), 4);
    let refused = send(&agent, "i3", "And that").await.unwrap();
    assert_eq!(refused.end, ExitReason::Refused);
    let user_count = roles(&refused.messages).matches("user").count();
    let output = send(&agent, "i3", "And that").await.unwrap();
    assert_eq!(output.text, "At last.");
    assert!(user_count <= roles(&output.messages).matches("user").count());
    model.assert_finished();
}

#[tokio::test]
async fn input_refused_on_its_second_try_is_removed() {
    let model = ScriptedModel::new()
        .say("Hello.")
        .fail(Error::new(ErrorKind::Auth, "no key"))
        .step(refusal())
        .say("Fine.");
    let agent = agent(StrictModel::new(model.clone())).build().unwrap();
    send(&agent, "i1", "Hi").await.unwrap();
    send(&agent, "i2", "Do it").await.unwrap_err();
    let refused = send(&agent, "i2", "Do it").await.unwrap();
    assert_eq!(refused.end, ExitReason::Refused);
    assert_eq!(roles(&stored(&agent, "s").await), "user assistant");
    assert_eq!(send(&agent, "i2", "Do it").await.unwrap().text, "Fine.");
    model.assert_finished();
}

fn parking(model: &ScriptedModel, log: &Log) -> Agent {
    agent(StrictModel::new(model.clone()))
        .tool(logged("act", log))
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap()
}

#[tokio::test]
async fn repeated_input_id_keeps_pending_calls() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .say("One.")
        .call("act", json!({}))
        .say("done");
    let agent = parking(&model, &log);
    send(&agent, "i1", "First").await.unwrap();
    let parked = send(&agent, "i2", "Go").await.unwrap();
    assert_eq!(parked.end, ExitReason::AwaitingApproval);
    for (id, end, text) in [
        ("i2", ExitReason::AwaitingApproval, ""),
        ("i1", ExitReason::EndTurn, "One."),
        ("i2", ExitReason::AwaitingApproval, ""),
    ] {
        let again = send(&agent, id, "Again").await.unwrap();
        assert_eq!((again.end, &*again.text, again.turns), (end, text, 0));
        assert_eq!(again.state.pending.len(), 1);
        assert_eq!(again.messages.len(), 4);
    }

    let pending = agent.session("s").state().await.unwrap().unwrap().pending;
    let output = agent
        .session("s")
        .resume(agentcore::Decision::allow(&pending[0]))
        .await
        .unwrap();
    assert_eq!((&*output.text, log.take()), ("done", vec!["act{}".into()]));
    assert_eq!(send(&agent, "i2", "Go").await.unwrap().text, "done");
    model.assert_finished();
}

#[tokio::test]
async fn new_input_closes_pending_calls() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", json!({})).say("Well.");
    let agent = parking(&model, &log);
    send(&agent, "i1", "Go").await.unwrap();
    let output = send(&agent, "i2", "Never mind").await.unwrap();
    assert_eq!(output.text, "Well.");
    assert!(output.state.pending.is_empty());
    model.assert_finished();
}

#[tokio::test]
async fn repeated_input_id_returns_the_structured_answer() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let model = ScriptedModel::new().say(r#"{"n": 7}"#).say("Later.");
    let agent = agent(model).build().unwrap();
    let ask = || send(&agent, "i1", "How many?").output_schema("count", schema.clone());
    assert_eq!(ask().await.unwrap().structured, Some(json!({"n": 7})));
    agent.session("s").run("And?").await.unwrap();
    assert_eq!(ask().await.unwrap().structured, Some(json!({"n": 7})));
}

#[tokio::test]
async fn input_ids_survive_serialization_of_the_state() {
    let store = ThreadStore::new();
    let with = |model: ScriptedModel| agent(model).store(store.clone()).build().unwrap();
    let first = with(ScriptedModel::new().say("One.").say("Two."));
    send(&first, "i1", "First").await.unwrap();
    send(&first, "i2", "Second").await.unwrap();
    let json = serde_json::to_string(&store.get("s").unwrap()).unwrap();
    let state: AgentState = serde_json::from_str(&json).unwrap();
    store.save("s", state);
    let second = with(ScriptedModel::new());
    assert_eq!(send(&second, "i1", "First").await.unwrap().text, "One.");
}

#[tokio::test]
async fn repeated_input_whose_answer_was_removed_is_a_conflict() {
    let store = ThreadStore::new();
    let with = |model: ScriptedModel| agent(model).store(store.clone());
    let first = with(ScriptedModel::new().say("One.").say("Two."))
        .build()
        .unwrap();
    send(&first, "i1", "First").await.unwrap();
    send(&first, "i2", "Second").await.unwrap();
    let forget = hook::before_agent("forget", |_, mut state| async move {
        let last_messages = state.messages.to_vec().split_off(2);
        state.messages = last_messages.into_iter().collect::<Messages>();
        Ok(state)
    });

    let second = with(ScriptedModel::new()).hook(forget).build().unwrap();
    let error = send(&second, "i1", "First").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("i1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn paused_answer_is_continued_on_a_repeated_input() {
    let paused = Step::text("One, ").stop(StopReason::PauseTurn);
    let model = ScriptedModel::new().step(paused).hang().say("two.");
    let agent = agent(StrictModel::new(model.clone())).build().unwrap();
    let dropped = tokio::time::timeout(SECOND, send(&agent, "i1", "Count")).await;
    dropped.expect_err("the second part never arrives");
    for turns in [1, 0] {
        let again = send(&agent, "i1", "Count").await.unwrap();
        assert_eq!((&*again.text, again.turns), ("One, two.", turns));
        assert_eq!(roles(&again.messages), "user assistant");
    }
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn interrupted_answer_is_requested_again_on_a_repeated_input() {
    let model = ScriptedModel::new()
        .step(Step::text("Once upon a").then_hang())
        .say("Once upon a time.");
    let agent = agent(StrictModel::new(model.clone())).build().unwrap();
    let first = interrupted(send(&agent, "i1", "Tell")).await;
    assert_eq!(
        (first.end, &*first.text),
        (ExitReason::Interrupted, "Once upon a")
    );
    for turns in [1, 0] {
        let again = send(&agent, "i1", "Tell").await.unwrap();
        assert_eq!((again.end, again.turns), (ExitReason::EndTurn, turns));
        assert_eq!(again.text, "Once upon a time.");
        assert_eq!(roles(&stored(&agent, "s").await), "user assistant");
    }

    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn interrupted_answer_is_kept_after_a_later_input() {
    let model = ScriptedModel::new()
        .step(Step::text("Once upon a").then_hang())
        .say("Good night.");
    let agent = agent(StrictModel::new(model.clone())).build().unwrap();
    interrupted(send(&agent, "i1", "Tell")).await;
    send(&agent, "i2", "Enough").await.unwrap();
    let again = send(&agent, "i1", "Tell").await.unwrap();
    assert_eq!((&*again.text, again.turns), ("Good night.", 0));
    assert_eq!(roles(&again.messages), "user assistant user assistant");
}

#[tokio::test]
async fn repeated_input_id_returns_the_original_exit_reason() {
    for (reason, end) in [
        (StopReason::EndTurn, ExitReason::EndTurn),
        (StopReason::MaxTokens, ExitReason::MaxTokens),
        (StopReason::StopSequence, ExitReason::StopSequence),
        (StopReason::Refusal, ExitReason::Refused),
        (StopReason::Other("tired".into()), ExitReason::EndTurn),
    ] {
        let model = ScriptedModel::new().step(Step::text("Well").stop(reason));
        let agent = agent(model).keep_refused(true).build().unwrap();
        let first = send(&agent, "i1", "Go").await.unwrap();
        let again = send(&agent, "i1", "Go").await.unwrap();
        assert_eq!((first.end, again.end), (end, end));
        assert_eq!((&*again.text, again.turns), ("Well", 0));
    }
}

#[tokio::test]
async fn assistant_text_in_an_input_is_not_its_answer() {
    let down = || Error::new(ErrorKind::Auth, "no key");
    let model = ScriptedModel::new().fail(down()).say(" it is four.");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    let prefilled = || Messages::from("2 + 2?").ai("Sure,");
    let send = || agent.session("s").input_id("i1").run(prefilled());
    send().await.unwrap_err();
    let again = send().await.unwrap();
    assert_eq!(again.turns, 1);
    assert_eq!(again.messages.last_content(), "Sure, it is four.");
    assert_eq!(send().await.unwrap().turns, 0);
}

#[tokio::test]
async fn repeated_input_removed_by_a_hook_is_a_conflict() {
    let store = ThreadStore::new();
    let down = Error::new(ErrorKind::Auth, "no key");
    let model = ScriptedModel::new().say("One.").fail(down);
    let trim = hook::after_agent("trim", |_, mut state| async move {
        if state
            .messages
            .last()
            .is_some_and(|last| last.role().is_user_input())
        {
            let kept_count = state.messages.len() - 1;
            state.messages = state
                .messages
                .to_vec()
                .into_iter()
                .take(kept_count)
                .collect();
        }

        Ok(state)
    });

    let agent = agent(model).store(store).hook(trim).build().unwrap();
    agent.session("s").run("First").await.unwrap();
    send(&agent, "i1", "Second").await.unwrap_err();
    let error = send(&agent, "i1", "Second").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn position_of_an_input_survives_a_dropped_run() {
    let down = Error::new(ErrorKind::Auth, "no key");
    let model = ScriptedModel::new()
        .fail(down)
        .hang()
        .events(refusal().into_iter().map(Ok).collect())
        .say("To the first.");
    let agent = agent(model).build().unwrap();
    send(&agent, "i1", "First").await.unwrap_err();
    let dropped = tokio::time::timeout(SECOND, send(&agent, "i2", "Bad")).await;
    dropped.expect_err("it hangs");
    let refused = send(&agent, "i2", "Bad").await.unwrap();
    assert_eq!(refused.end, ExitReason::Refused);
    assert_eq!(
        roles(&stored(&agent, "s").await),
        "user",
        "only the refused input went"
    );
    assert_eq!(
        send(&agent, "i1", "First").await.unwrap().text,
        "To the first."
    );
}

#[tokio::test]
async fn repaired_input_is_answered_once() {
    let model = ScriptedModel::new().say("One.").say("Two.");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    agent.session("s").run("First").await.unwrap();
    let odd = || Messages::from(vec![Message::ai("And then?"), Message::human("Second")]);
    for turns in [1, 0] {
        let output = agent.session("s").input_id("i1").run(odd()).await.unwrap();
        assert_eq!((&*output.text, output.turns), ("Two.", turns));
    }
}

#[tokio::test(start_paused = true)]
async fn assistant_text_in_an_input_is_not_its_answer_after_a_dropped_run() {
    let model = ScriptedModel::new().hang().say(" it is four.");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    let prefilled = || Messages::from("2 + 2?").ai("Sure,");
    let send = || agent.session("s").input_id("i1").run(prefilled());
    let dropped = tokio::time::timeout(SECOND, send()).await;
    dropped.expect_err("it hangs");
    let again = send().await.unwrap();
    assert_eq!(again.turns, 1);
    assert_eq!(again.messages.last_content(), "Sure, it is four.");
    assert_eq!(send().await.unwrap().turns, 0);
}
