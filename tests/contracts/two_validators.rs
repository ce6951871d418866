//! The two implementations of the rules of providers, in histories and in the strict model, agree
//! on every history, and every repaired history passes both.

use agentcore::message::{Annotations, Citation};
use agentcore::testing::{FunctionModel, StrictModel};
use agentcore::{Message, Messages, Model, ModelRequest, Part, ToolCall};
use futures::executor::block_on;
use proptest::prelude::*;
use serde_json::json;

fn message() -> impl Strategy<Value = Message> {
    let text = || prop_oneof![6 => Just("text"), 1 => Just(""), 1 => Just(" \n")];
    let id = || prop_oneof![Just("a"), Just("b"), Just("c"), Just("")];
    let call = id().prop_map(|id| Part::ToolCall(ToolCall::new(id, "tool", json!({}))));
    let text_part = text().prop_map(Part::text);
    let citation = Just(Part::Annotations(Annotations::new([Citation::new("u")])));
    prop_oneof![
        1 => text().prop_map(Message::system),
        3 => text().prop_map(Message::human),
        4 => prop::collection::vec(prop_oneof![4 => text_part, 6 => call, 1 => citation], 0..3).prop_map(Message::ai),
        4 => (id(), text()).prop_map(|(id, text)| Message::tool(id, "tool", text)),
    ]
}

fn history() -> impl Strategy<Value = Messages> {
    prop::collection::vec(message(), 0..8).prop_map(Messages::from)
}

/// Returns the violations that the strict model finds in `messages`.
fn violations(messages: &Messages) -> Vec<String> {
    let model = StrictModel::new(FunctionModel::text(|_| "ok".into()));
    let outcome = block_on(model.call(ModelRequest::new(messages.clone())));
    assert_eq!(outcome.is_ok(), model.violations().is_empty());
    model.violations()
}

#[test]
fn message_of_annotations_alone_is_empty() {
    let annotations = Part::Annotations(Annotations::new([Citation::new("u")]));
    let history = Messages::from("Hi").with(Message::ai(annotations.clone()));
    let history = history.human("Go on");
    history.validate_for_model().unwrap_err();
    assert_eq!(
        violations(&history),
        ["message[1]: nothing but whitespace or thinking"]
    );
    let cited = Message::ai([Part::text("Ho"), annotations]);
    let history = Messages::from("Hi").with(cited).human("Go on");
    history.validate_for_model().unwrap();
    assert_eq!(violations(&history), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::kit::effort::cases(1_300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn history_and_strict_model_agree_on_every_history(messages in history()) {
        let own = messages.validate_for_model();
        let strict = violations(&messages);
        prop_assert_eq!(own.is_ok(), strict.is_empty(), "{:?} against {:?}", own, strict);
    }

    #[test]
    fn repaired_history_passes_both_validators(mut messages in history()) {
        messages.repair();
        // A repair cannot make a history without messages of the user valid.
        if messages.user_messages().next().is_some() {
            prop_assert!(messages.validate_for_model().is_ok());
            prop_assert_eq!(violations(&messages), Vec::<String>::new());
        }
    }
}
