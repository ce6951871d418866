//! Warnings that a model emits within its answer.

use agentcore::message::ProviderBlock;
use agentcore::testing::ScriptedModel;
use agentcore::{ModelEvent, Part, Result, SdkMessage, Secret, StopReason};
use serde_json::value::RawValue;

use crate::kit::keys::assert_no_leak;
use crate::kit::{agent, kinds, warnings, watch};

fn warning(text: &str) -> Result<ModelEvent> {
    Ok(ModelEvent::Warning(text.to_owned()))
}

fn answer(warnings: impl IntoIterator<Item = Result<ModelEvent>>) -> Vec<Result<ModelEvent>> {
    let text = [
        Ok(ModelEvent::Text("Hi".into())),
        Ok(ModelEvent::stop(StopReason::EndTurn)),
    ];
    warnings.into_iter().chain(text).collect()
}

#[tokio::test]
async fn warning_of_a_model_is_emitted_once_in_a_run() {
    let model = ScriptedModel::new().events(answer([
        warning("no temperature"),
        warning("no temperature"),
        warning("no seed"),
    ]));
    let agent = agent(model).include_partial_messages(true).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(warnings(&messages), ["no temperature", "no seed"]);

    let output = output.unwrap();
    assert_eq!(
        (output.messages.len(), &*output.messages.last_content()),
        (2, "Hi")
    );
    let partial = |message: &&SdkMessage| matches!(message, SdkMessage::Partial(_));
    let partials: Vec<_> = messages.iter().filter(partial).collect();
    assert!(!format!("{partials:?}").contains("temperature"));
}

#[tokio::test]
async fn warning_before_an_error_does_not_restart_the_answer() {
    let overloaded = || agentcore::Error::new(agentcore::ErrorKind::Overloaded, "busy");
    let model = ScriptedModel::new()
        .events(vec![warning("no seed"), Err(overloaded())])
        .say("Hi");
    let agent = agent(model).include_partial_messages(true).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    output.unwrap();
    let kinds = kinds(&messages);
    assert!(
        kinds.iter().all(|kind| !kind.contains("stream_restart")),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn key_in_a_warning_is_redacted() {
    let key = Secret::new("sk-warning-0123456789abcdef");
    let text = format!("the server says {}", key.expose());
    let model = ScriptedModel::new().events(answer([warning(&text)]));
    let (messages, _) = watch(agent(model).build().unwrap().run("Go")).await;
    let shown = warnings(&messages).concat();
    assert!(shown.starts_with("the server says"), "{shown}");
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
}

#[tokio::test]
async fn cut_warning_shows_no_part_of_a_key() {
    const KEY: &str = "vzkqjxwqhgwzjyxqzvkwjqzgxkvqwhzxjqkvzbwtpd";
    let _known = Secret::new(KEY);
    for before in (1_955..2_000).step_by(4) {
        let text = format!("{}{KEY}{}", "x".repeat(before), "y".repeat(3_000));
        let model = ScriptedModel::new().events(answer([warning(&text)]));
        let (messages, _) = watch(agent(model).build().unwrap().run("Go")).await;
        let shown = warnings(&messages).concat();
        assert!(shown.starts_with("xxxx"), "{shown}");
        assert_no_leak(&shown, KEY, &format!("{before}"));
    }
}

#[tokio::test]
async fn warnings_beyond_32_and_text_beyond_2000_characters_are_left_out() {
    let many = (0..40).map(|number| warning(&format!("{number} {}", "x".repeat(3_000))));
    let model = ScriptedModel::new().events(answer(many));
    let (messages, _) = watch(agent(model).build().unwrap().run("Go")).await;
    let shown = warnings(&messages);
    assert_eq!(shown.len(), 32);
    assert!(shown.iter().all(|text| text.chars().count() == 2_000));
}

#[tokio::test]
async fn many_blocks_that_are_nested_too_deeply_are_one_warning() {
    let raw = RawValue::from_string("[".repeat(200) + &"]".repeat(200)).unwrap();
    let part = Part::Opaque(ProviderBlock::new("p", raw));
    let blocks = (0..100).map(|_| Ok(ModelEvent::Part(part.clone())));
    let model = ScriptedModel::new().events(answer(blocks));
    let (messages, output) = watch(agent(model).build().unwrap().run("Go")).await;
    assert_eq!(warnings(&messages).len(), 1);
    assert_eq!(&*output.unwrap().messages.last_content(), "Hi");
}
