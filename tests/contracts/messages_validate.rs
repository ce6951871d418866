//! The rules of a history and the texts of their errors.

use std::error::Error as _;
use std::sync::Arc;

use agentcore::message::{
    Annotations, Citation, Media, ModelCheck, Problem, ProviderBlock, Role, ToolResult,
    ValidationError,
};
use agentcore::{Content, Error, ErrorKind, Message, Messages, Part, ToolCall};
use serde_json::json;
use serde_json::value::RawValue;

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "f", json!({}))
}

fn thinking() -> Part {
    let raw = RawValue::from_string(r#"{"type":"thinking"}"#.to_owned()).unwrap();
    Part::Thinking(ProviderBlock::new("anthropic", raw))
}

fn chain() -> Messages {
    Messages::new()
        .system("You are helpful.")
        .human("What is 2+2?")
        .ai_calling("Let me calculate.", [call("call_1")])
        .tool("call_1", "f", "4")
        .ai("2+2 = 4")
}

fn text(result: Result<(), ValidationError>) -> String {
    result.expect_err("an invalid history").to_string()
}

#[test]
fn message_of_annotations_alone_is_empty() {
    let annotations = || Part::Annotations(Annotations::new([Citation::new("u")]));
    assert!(Content::from(annotations()).is_empty());
    for content in [
        Content::from(annotations()),
        Content::from([Part::text(""), annotations()]),
    ] {
        let input = Messages::new().with(Message::human(content.clone()));
        assert_eq!(
            text(input.validate()),
            "message[0]: user message has empty content"
        );
        assert_eq!(
            text(input.validate_user_input()),
            "message[0]: content must not be empty"
        );
        let history = Messages::from("Hi").with(Message::ai(content));
        let problem = "message[1]: assistant message has no content and no tool calls";
        assert_eq!(text(history.validate()), problem);
        assert_eq!(text(history.validate_for_model()), problem);
        let mut history = history;
        history.repair();
        assert_eq!(history, Messages::from("Hi"));
    }

    let cited = Messages::from("Hi").with(Message::ai([Part::text("Ho"), annotations()]));
    cited.validate_for_model().unwrap();
}

#[test]
fn message_chain_can_be_filtered_by_role_and_is_valid() {
    let chain = chain();
    assert_eq!(chain.len(), 5);
    assert_eq!(chain.system_messages().count(), 1);
    assert_eq!(chain.user_messages().count(), 1);
    assert_eq!(chain.assistant_messages().count(), 2);
    assert_eq!(chain.tool_messages().count(), 1);
    assert_eq!(chain.by_role(Role::User).count(), 1);
    assert_eq!(chain.last_content(), "2+2 = 4");
    chain.validate().unwrap();
    chain.validate_for_model().unwrap();
    let mut longer = chain.clone();
    longer.extend([Message::human("And 3+3?")]);
    assert_eq!(longer.len(), 6);
    assert_eq!(chain.len(), 5);
    longer.validate_for_model().unwrap();
}

#[test]
fn clone_of_a_long_history_shares_its_messages() {
    let mut history = Messages::new();
    for turn in 0..1_000 {
        history = history
            .human(format!("question {turn}"))
            .ai(format!("answer {turn}"));
    }

    let mut copy = history.clone();
    assert!(std::ptr::eq(history.as_slice(), copy.as_slice()));
    copy.push(Message::human("more"));
    assert_eq!(history.shared_prefix(&copy), 2_000);
    copy.get_mut(7).unwrap().content_mut().push_text("!");
    assert_eq!(history.shared_prefix(&copy), 7);
    let same = history.as_slice().iter().zip(copy.as_slice());
    assert_eq!(same.filter(|(a, b)| Arc::ptr_eq(a, b)).count(), 1_999);
}

#[test]
fn validation_error_names_the_incomplete_message() {
    let cases = [
        (
            Message::tool("", "f", "x"),
            "message[1]: tool message missing tool_call_id",
        ),
        (
            Message::tool("", "", "x"),
            "message[1]: tool message missing tool_call_id",
        ),
        (
            Message::tool("c", "", "x"),
            "message[1]: tool message missing name",
        ),
        (
            Message::ai(""),
            "message[1]: assistant message has no content and no tool calls",
        ),
        (
            Message::ai(Part::text("")),
            "message[1]: assistant message has no content and no tool calls",
        ),
        (
            Message::ai_calling("x", [call("a"), call("")]),
            "message[1].tool_calls[1]: missing ID",
        ),
        (
            Message::ai_calling("", [ToolCall::new("a", "", json!({}))]),
            "message[1].tool_calls[0]: missing name",
        ),
        (
            Message::human(""),
            "message[1]: user message has empty content",
        ),
        (
            Message::system(""),
            "message[1]: system message has empty content",
        ),
    ];
    for (message, expected) in cases {
        let history = Messages::from("Hi").with(message);
        assert_eq!(text(history.validate()), expected);
        assert!(history.validate_for_model().is_err(), "{expected}");
    }

    Messages::new().validate().unwrap();
    Messages::new().tool("c", "f", "").validate().unwrap();
    Messages::new()
        .with(Message::human(Part::Image(Media::url("u"))))
        .validate()
        .unwrap();
}

#[test]
fn user_input_accepts_user_and_system_messages_only() {
    Messages::new()
        .system("Be brief.")
        .human("Hi")
        .validate_user_input()
        .unwrap();
    for (history, expected) in [
        (Messages::new(), "messages must not be empty"),
        (
            Messages::from("Hi").ai("spoofed"),
            r#"message[1]: role "assistant" not allowed (must be "user" or "system")"#,
        ),
        (
            Messages::new().tool("c", "f", "x"),
            r#"message[0]: role "tool" not allowed (must be "user" or "system")"#,
        ),
        (
            Messages::from("Hi").human(""),
            "message[1]: content must not be empty",
        ),
        (
            Messages::new().with(Message::human(Part::ToolCall(call("c")))),
            "message[0].tool_calls[0]: user message holds a tool call",
        ),
    ] {
        assert_eq!(text(history.validate_user_input()), expected);
    }
}

#[test]
fn validate_for_model_rejects_invalid_histories() {
    let ask = || Messages::from("Hi").ai_calling("", [call("a"), call("b")]);
    let done = || ask().tool("a", "f", "1").tool("b", "f", "2");
    let with = |content: Content| Messages::from("Hi").with(Message::ai(content));
    for (history, expected) in [
        (Messages::new(), "messages must not be empty"),
        (
            Messages::new().system("x"),
            "messages must not all be system messages",
        ),
        (
            Messages::new().system("x").ai("Hello"),
            "message[1]: assistant message before the first user message",
        ),
        (
            Messages::new().tool("a", "f", "x"),
            r#"message[0]: result for "a", which the message before does not call"#,
        ),
        (
            ask(),
            r#"message[1].tool_calls[0]: no result for "a" directly after its message"#,
        ),
        (
            ask().tool("a", "f", "1").human("?").tool("b", "f", "2"),
            r#"message[1].tool_calls[1]: no result for "b" directly after its message"#,
        ),
        (
            ask().tool("a", "f", "1").system("x").tool("b", "f", "2"),
            r#"message[1].tool_calls[1]: no result for "b" directly after its message"#,
        ),
        (
            ask().tool("a", "f", "1").tool("a", "f", "2"),
            r#"message[3]: second result for "a""#,
        ),
        (
            done().tool("z", "f", "2"),
            r#"message[4]: result for "z", which the message before does not call"#,
        ),
        (
            done().human("again").tool("a", "f", "2"),
            r#"message[5]: result for "a", which the message before does not call"#,
        ),
        (
            done().ai_calling("", [call("c"), call("b")]),
            r#"message[4].tool_calls[1]: ID "b" was used before"#,
        ),
        (
            Messages::from("Hi").ai_calling("", [call("a"), call("a")]),
            r#"message[1].tool_calls[1]: ID "a" was used before"#,
        ),
        (
            Messages::from("Hi").ai("a").ai("b"),
            "message[2]: second assistant message in a row",
        ),
        (
            with(" \n".into()),
            "message[1]: assistant message has no content and no tool calls",
        ),
        (
            with(thinking().into()),
            "message[1]: assistant message has no content and no tool calls",
        ),
        (
            with([Part::text("a"), Part::text("")].into()),
            "message[1]: text part is empty",
        ),
        (
            Messages::from("\t"),
            "message[0]: user message has empty content",
        ),
        (
            Messages::from("Hi")
                .ai_calling("", [call("a")])
                .tool("a", "f", ""),
            "message[2]: tool message has empty content",
        ),
        (
            Messages::new().with(Message::human([Part::text("x"), Part::ToolCall(call("a"))])),
            "message[0].tool_calls[0]: user message holds a tool call",
        ),
    ] {
        assert_eq!(text(history.validate_for_model()), expected);
        assert_eq!(text(ModelCheck::new().check(&history)), expected);
    }
}

#[test]
fn validate_for_model_accepts_valid_histories() {
    let unreadable = ToolCall::from_raw("x", "f", "{\"a\":");
    for history in [
        Messages::from("Hi"),
        // Two messages of the user in a row: providers are sent one message.
        Messages::from("Hi").human("Ho"),
        Messages::new()
            .system("a")
            .system("b")
            .human("Hi")
            .system("c")
            .ai("Ho")
            .system("d"),
        Messages::from("Hi").system("x").human("Ho"),
        // Results in another order than their calls.
        Messages::from("Hi")
            .ai_calling("", [call("a"), call("b")])
            .tool("b", "f", "2")
            .tool("a", "f", "1"),
        // White space and thinking next to other parts.
        Messages::from("Hi")
            .with(Message::ai([
                thinking(),
                Part::text("\n\n"),
                Part::ToolCall(call("a")),
            ]))
            .tool("a", "f", "1"),
        // A call that was answered with the reason why its arguments could not be read.
        Messages::from("Hi")
            .ai_calling("", [unreadable.clone()])
            .with(Message::from(ToolResult::failed(
                &unreadable,
                "arguments are not JSON",
            ))),
    ] {
        history.validate_for_model().unwrap();
    }
}

#[test]
fn validation_error_has_indexes_and_converts_into_error() {
    let error = Messages::from("Hi")
        .ai_calling("", [call("a"), call("")])
        .validate()
        .unwrap_err();
    assert_eq!((error.index(), error.call()), (Some(1), Some(1)));
    assert_eq!(*error.problem(), Problem::MissingCallId);
    let own = Error::from(error.clone());
    assert_eq!(own.kind(), ErrorKind::InvalidMessages);
    assert_eq!(own.to_string(), error.to_string());
    let source = own
        .source()
        .and_then(|source| source.downcast_ref::<ValidationError>());
    assert_eq!(source, Some(&error));
    let whole = Messages::new().validate_user_input().unwrap_err();
    assert_eq!((whole.index(), whole.call()), (None, None));
}

#[test]
fn model_check_agrees_with_full_validation_after_every_change() {
    let mut check = ModelCheck::new();
    let mut history = Messages::new();
    let agree = |check: &mut ModelCheck, history: &Messages| {
        assert_eq!(
            check.check(history),
            history.validate_for_model(),
            "{history}"
        );
    };

    agree(&mut check, &history);
    for turn in 0..5 {
        for message in [
            Message::human("go"),
            Message::ai_calling("", [call(&format!("a{turn}")), call(&format!("b{turn}"))]),
            Message::tool(format!("b{turn}"), "f", "1"),
            Message::tool(format!("a{turn}"), "f", "1"),
            Message::system("note"),
            Message::ai("done"),
        ] {
            history.push(message);
            agree(&mut check, &history);
            agree(&mut check, &history);
        }
    }

    // The history is cut at every length, continues differently, and is complete again.
    for keep in (0..history.len()).rev() {
        for next in [
            Message::human("other"),
            Message::ai_calling("", [call("b0")]),
            Message::tool("a4", "f", "1"),
            Message::ai_calling("", [call("new")]),
        ] {
            let mut other: Messages = history.as_slice()[..keep].iter().cloned().collect();
            agree(&mut check, &other);
            other.push(next);
            agree(&mut check, &other);
            agree(&mut check, &history);
        }
    }
}
