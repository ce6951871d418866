//! Repairs of histories.

use std::sync::Arc;

use agentcore::message::{ModelCheck, ProviderBlock, Repair, Role};
use agentcore::{Content, Message, Messages, Part, ToolCall, ToolResult};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const INTERRUPTED: &str = "Error: interrupted before a result was recorded; the call may have run";

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "f", json!({}))
}

fn thinking(text: &str) -> Part {
    let raw = json!({"type": "thinking", "thinking": text, "signature": "s"}).to_string();
    let raw = RawValue::from_string(raw).unwrap();
    Part::Thinking(ProviderBlock::new("anthropic", raw))
}

fn interrupted(id: &str) -> Message {
    ToolResult::failed(&call(id), INTERRUPTED).into()
}

/// Repairs a history, checks the properties of every repair, and returns the report as text.
fn repair(history: &mut Messages) -> String {
    let before = history.clone();
    let report = history.repair().to_string();
    history
        .validate_for_model()
        .unwrap_or_else(|error| panic!("{error}\n{before}\n{history}"));
    let mut again = history.clone();
    assert!(again.repair().is_empty());
    assert!(std::ptr::eq(again.as_slice(), history.as_slice()));
    report
}

#[track_caller]
fn becomes(mut broken: Messages, expected: &Messages, repairs: &[&str]) {
    assert_eq!(repair(&mut broken), repairs.join("\n"));
    assert_eq!(&broken, expected);
}

#[test]
fn repair_of_a_valid_history_does_not_copy_it() {
    let mut history = Messages::from("Hi")
        .ai_calling("", [call("a")])
        .tool("a", "f", "1");
    let before = history.clone();
    assert!(history.repair().is_empty());
    assert!(std::ptr::eq(before.as_slice(), history.as_slice()));
}

#[test]
fn unanswered_calls_get_error_results_in_call_order() {
    let ask = || Messages::from("Hi").ai_calling("", [call("a"), call("b"), call("c")]);
    let says = |id: &str| {
        format!(r#"message[1]: added an error result for unanswered call "f" (id "{id}")"#)
    };

    becomes(
        ask(),
        &ask()
            .with(interrupted("a"))
            .with(interrupted("b"))
            .with(interrupted("c")),
        &[&says("a"), &says("b"), &says("c")],
    );
    becomes(
        ask().tool("b", "f", "2").human("Go on"),
        &ask()
            .with(interrupted("a"))
            .tool("b", "f", "2")
            .with(interrupted("c"))
            .human("Go on"),
        &[&says("a"), &says("c")],
    );
    assert!(interrupted("a").as_tool_result().unwrap().is_error);
}

#[test]
fn repair_keeps_calls_that_await_approval() {
    let history = Messages::from("Hi").ai_calling("", [call("a"), call("b"), call("p")]);
    let mut parked = history.clone().tool("a", "f", "1");
    let pending = [Arc::from("p")];
    let repairs = parked.repair_keeping(&pending);
    assert_eq!(parked, history.tool("a", "f", "1").with(interrupted("b")));
    assert_eq!(repairs.len(), 1);
    assert!(parked.repair_keeping(&pending).is_empty());

    let unreadable = ToolCall::from_raw("p", "f", "{");
    let mut parked = Messages::from("Hi")
        .ai_calling("", [unreadable])
        .ai("still here");
    let before = parked.clone();
    assert!(parked.repair_keeping(&pending).is_empty());
    assert_eq!(parked, before);
}

#[test]
fn partially_streamed_calls_are_dropped() {
    let half = |id: &str, name: &str| ToolCall::from_raw(id, name, r#"{"path":"/wor"#);
    becomes(
        Messages::from("Hi")
            .ai_calling("Reading", [call("a"), half("b", "f")])
            .tool("a", "f", "1"),
        &Messages::from("Hi")
            .ai_calling("Reading", [call("a")])
            .tool("a", "f", "1"),
        &[r#"message[1]: dropped unusable call "f" (id "b")"#],
    );
    becomes(
        Messages::from("Hi")
            .ai_calling("", [half("", "")])
            .tool("", "", "x"),
        &Messages::from("Hi"),
        &[
            r#"message[1]: dropped unusable call "" (id "")"#,
            "message[1]: dropped empty assistant message",
            r#"message[2]: dropped orphan result for """#,
        ],
    );

    // A stored call has no raw text.
    let mut stored = Messages::from_json(
        r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":"x","tool_calls":[{"id":"a","name":"f","args":null}]}]"#,
    )
    .unwrap();
    repair(&mut stored);
    assert_eq!(stored, Messages::from("Hi").ai("x"));

    // The raw text is valid JSON, although it was not parsed.
    let mut whole = ToolCall::from_raw("a", "f", r#"{"x":1}"#);
    whole.args = Arc::new(Value::Null);
    let mut history = Messages::from("Hi").ai_calling("", [whole]);
    repair(&mut history);
    assert_eq!(history.len(), 3);
}

#[test]
fn unreadable_call_with_an_error_result_is_kept() {
    let bad = ToolCall::from_raw("a", "f", "{");
    let refused = Message::from(ToolResult::failed(&bad, "not JSON"));
    let history = Messages::from("Hi")
        .ai_calling("", [bad])
        .with(refused)
        .ai("Sorry");
    becomes(
        history.clone().ai("Again"),
        &history.as_slice()[..3]
            .iter()
            .cloned()
            .collect::<Messages>()
            .with(Message::ai([Part::text("Sorry"), Part::text("Again")])),
        &["message[4]: merged into message[3]"],
    );
}

#[test]
fn orphan_and_duplicate_results_are_dropped() {
    becomes(
        Messages::new()
            .tool("z", "f", "cut off by compaction")
            .human("Hi")
            .ai_calling("", [call("a")])
            .tool("a", "f", "1")
            .tool("a", "f", "2")
            .ai("ok")
            .tool("a", "f", "3"),
        &Messages::from("Hi")
            .ai_calling("", [call("a")])
            .tool("a", "f", "1")
            .ai("ok"),
        &[
            r#"message[0]: dropped orphan result for "z""#,
            r#"message[4]: dropped second result for "a""#,
            r#"message[6]: dropped second result for "a""#,
        ],
    );
}

#[test]
fn misplaced_result_moves_to_follow_its_call() {
    let expected = Messages::from("Hi")
        .ai_calling("", [call("a"), call("b")])
        .tool("a", "f", "1")
        .tool("b", "f", "2")
        .human("?");
    becomes(
        Messages::from("Hi")
            .ai_calling("", [call("a"), call("b")])
            .tool("a", "f", "1")
            .human("?")
            .tool("b", "f", "2"),
        &expected,
        &[r#"message[4]: moved result for "b" to follow its call"#],
    );
    becomes(
        Messages::from("Hi")
            .tool("b", "f", "2")
            .ai_calling("", [call("a"), call("b")])
            .tool("a", "f", "1")
            .human("?"),
        &expected,
        &[r#"message[1]: moved result for "b" to follow its call"#],
    );

    // A result before its call, of another tool with the same id, does not belong to the call.
    becomes(
        Messages::new()
            .tool("b", "other", "2")
            .human("Hi")
            .ai_calling("", [call("b")]),
        &Messages::from("Hi")
            .ai_calling("", [call("b")])
            .with(interrupted("b")),
        &[
            r#"message[0]: dropped orphan result for "b""#,
            r#"message[2]: added an error result for unanswered call "f" (id "b")"#,
        ],
    );
    becomes(
        Messages::from("Hi")
            .ai_calling("", [call("a"), call("b")])
            .tool("a", "f", "1")
            .system("note")
            .tool("b", "f", "2"),
        &Messages::from("Hi")
            .ai_calling("", [call("a"), call("b")])
            .tool("a", "f", "1")
            .tool("b", "f", "2")
            .system("note"),
        &[r#"message[4]: moved result for "b" to follow its call"#],
    );
}

#[test]
fn reused_call_id_is_renamed_together_with_its_result() {
    becomes(
        Messages::from("Hi")
            .ai_calling("", [call("a"), call("a")])
            .tool("a", "f", "1")
            .tool("a", "f", "2")
            .ai_calling("", [call("a"), call("a_2")])
            .tool("a_2", "f", "4")
            .tool("a", "f", "3"),
        &Messages::from("Hi")
            .ai_calling("", [call("a"), call("a_3")])
            .tool("a", "f", "1")
            .tool("a_3", "f", "2")
            .ai_calling("", [call("a_4"), call("a_2")])
            .tool("a_4", "f", "3")
            .tool("a_2", "f", "4"),
        &[
            r#"message[1]: changed call id "a" to "a_3""#,
            r#"message[4]: changed call id "a" to "a_4""#,
            r#"message[5]: moved result for "a_2" to follow its call"#,
        ],
    );
}

#[test]
fn renamed_call_keeps_its_extra() {
    let signed_call = |id: &str| {
        let raw = RawValue::from_string(r#"{"signature":"c2ln"}"#.to_owned()).unwrap();
        call(id).with_extra(ProviderBlock::new("gemini", raw))
    };

    let mut history = Messages::from("Hi")
        .ai_calling("", [signed_call("a"), signed_call("a"), signed_call("")])
        .tool("a", "f", "1")
        .tool("a", "f", "2");
    repair(&mut history);
    let calls: Vec<_> = history.iter().flat_map(|m| m.tool_calls()).collect();
    let ids: Vec<_> = calls.iter().map(|call| &*call.id).collect();
    assert_eq!(ids, ["a", "a_2", "call_1_2"]);
    assert!(calls.iter().all(|call| call.extra.is_some()));
}

#[test]
fn missing_call_id_is_generated_and_results_match_by_position() {
    becomes(
        Messages::from("Hi")
            .ai_calling("", [call(""), ToolCall::new("", "g", json!({}))])
            .tool("", "g", "2")
            .tool("", "", "1"),
        &Messages::from("Hi")
            .ai_calling(
                "",
                [call("call_1_0"), ToolCall::new("call_1_1", "g", json!({}))],
            )
            .tool("call_1_0", "f", "1")
            .tool("call_1_1", "g", "2"),
        &[
            r#"message[1]: changed call id "" to "call_1_0""#,
            r#"message[1]: changed call id "" to "call_1_1""#,
            r#"message[2]: moved result for "call_1_1" to follow its call"#,
            r#"message[3]: completed result with id and name of its call "call_1_0""#,
        ],
    );
    becomes(
        Messages::from("Hi")
            .ai_calling("", [call("a"), call("b")])
            .tool("", "f", "1")
            .tool("a", "f", "2"),
        &Messages::from("Hi")
            .ai_calling("", [call("a"), call("b")])
            .tool("a", "f", "2")
            .tool("b", "f", "1"),
        &[
            r#"message[2]: moved result for "b" to follow its call"#,
            r#"message[2]: completed result with id and name of its call "b""#,
        ],
    );

    // An id that an earlier repair generated is not generated again.
    becomes(
        Messages::from("Hi").ai_calling("", [call("call_1_1"), call("")]),
        &Messages::from("Hi")
            .ai_calling("", [call("call_1_1"), call("call_1_1_2")])
            .with(interrupted("call_1_1"))
            .with(interrupted("call_1_1_2")),
        &[
            r#"message[1]: changed call id "" to "call_1_1_2""#,
            r#"message[1]: added an error result for unanswered call "f" (id "call_1_1")"#,
            r#"message[1]: added an error result for unanswered call "f" (id "call_1_1_2")"#,
        ],
    );
}

#[test]
fn empty_messages_are_dropped_and_adjacent_assistant_messages_merge() {
    becomes(
        Messages::new()
            .system("")
            .human("one")
            .ai(" ")
            .human("two")
            .ai(thinking("hm"))
            .human("three")
            .ai([Part::text(""), Part::text("four")])
            .ai("five"),
        // Messages of the user may follow each other, those of the assistant may not.
        &Messages::from("one")
            .human("two")
            .human("three")
            .with(Message::ai([Part::text("four"), Part::text("five")])),
        &[
            "message[0]: dropped empty system message",
            "message[2]: dropped empty assistant message",
            "message[4]: dropped empty assistant message",
            "message[6]: dropped empty text",
            "message[7]: merged into message[6]",
        ],
    );
}

#[test]
fn empty_result_is_filled_with_no_output() {
    becomes(
        Messages::from("Hi")
            .ai_calling("", [call("a")])
            .tool("a", "f", ""),
        &Messages::from("Hi")
            .ai_calling("", [call("a")])
            .tool("a", "f", "(no output)"),
        &["message[2]: filled empty result"],
    );
}

#[test]
fn assistant_message_at_the_start_gets_a_user_message_before_it() {
    becomes(
        Messages::new()
            .system("x")
            .ai_calling("", [call("a")])
            .tool("a", "f", "1"),
        &Messages::new()
            .system("x")
            .human("(conversation continues)")
            .ai_calling("", [call("a")])
            .tool("a", "f", "1"),
        &["message[1]: added a user message before it"],
    );
}

#[test]
fn calls_in_user_messages_are_dropped() {
    becomes(
        Messages::new().with(Message::human([Part::text("x"), Part::ToolCall(call("a"))])),
        &Messages::from("x"),
        &[r#"message[0]: dropped unusable call "f" (id "a")"#],
    );
}

#[test]
fn text_of_many_repairs_is_short() {
    let mut history = Messages::from("q");
    for _ in 0..100 {
        let id = "\u{7f}".repeat(100_000);
        history.push(Message::tool(id.as_str(), "f", "ok"));
        history.push(Message::ai_calling("", [call(&id)]));
    }
    let repairs = history.repair();
    let text = repairs.to_string();
    assert!(repairs.len() > 20, "{}", repairs.len());
    assert!(text.len() < 20_000, "{}", text.len());
    let expected = format!("\n{} more changes", repairs.len() - 20);
    assert!(text.ends_with(&expected), "{text}");
}

#[test]
fn repair_of_a_history_without_content_is_idempotent() {
    for mut history in [
        Messages::new(),
        Messages::new().system("only"),
        Messages::new().tool("a", "f", "orphan"),
        Messages::new().human("").ai(""),
    ] {
        history.repair();
        assert!(history.validate_for_model().is_err());
        let before = history.clone();
        assert!(history.repair().is_empty());
        assert_eq!(history, before);
    }
}

#[test]
fn repair_shares_untouched_messages_and_keeps_thinking() {
    let mut history = Messages::from("Hi")
        .with(Message::ai([thinking("x"), Part::ToolCall(call("a"))]))
        .tool("a", "f", "1")
        .with(Message::ai([thinking("y"), Part::ToolCall(call("a"))]))
        .tool("a", "f", "2")
        .human("next");
    let before = history.clone();
    repair(&mut history);
    assert_eq!(before.shared_prefix(&history), 3);
    assert!(Arc::ptr_eq(&before.as_slice()[5], &history.as_slice()[5]));
    assert_eq!(history.get(3).unwrap().content().parts()[0], thinking("y"));
}

#[test]
fn model_check_repairs_only_new_faults() {
    let mut check = ModelCheck::new();
    let mut history = Messages::from("Hi").ai("Ho");
    assert!(check.ensure(&mut history, &[]).is_empty());
    history.push(Message::human("go"));
    history.push(Message::ai_calling("", [call("a")]));
    let repairs = check.ensure(&mut history, &[]);
    let added = Repair::AddedResult {
        index: 3,
        id: "a".into(),
        name: "f".into(),
    };

    assert_eq!(repairs.iter().collect::<Vec<_>>(), [&added]);
    assert!(check.ensure(&mut history, &[]).is_empty());
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    let id = prop::sample::select(vec!["", "a", "a", "b", "a_2", "call_1_0"]);
    let name = prop::sample::select(vec!["", "f", "f", "g"]);
    let args = prop::sample::select(vec!["{}", "{\"x\":1}", "", "{\"x\":", "null", "[1]"]);
    (id, name, args, any::<bool>()).prop_map(|(id, name, args, raw)| {
        let mut call = ToolCall::from_raw(id, name, args);
        if !raw {
            call.raw_args = None;
        }
        call
    })
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        3 => prop::sample::select(vec!["", " ", "x", "some text\n"]).prop_map(Part::text),
        4 => any_call().prop_map(Part::ToolCall),
        1 => Just(thinking("t")),
        1 => Just(Part::Image(agentcore::message::Media::url("u"))),
        1 => Just(Part::Annotations(agentcore::message::Annotations::default())),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let content = || prop::collection::vec(any_part(), 0..4).prop_map(Content::from);
    let id = prop::sample::select(vec!["", "a", "a", "b", "a_2", "zz"]);
    let name = prop::sample::select(vec!["", "f", "g"]);
    let text = prop::sample::select(vec!["", "r1", "r2", "r3"]);
    prop_oneof![
        1 => prop::sample::select(vec!["", "sys"]).prop_map(Message::system),
        1 => content().prop_map(Message::human),
        2 => prop::sample::select(vec!["", "hello"]).prop_map(Message::human),
        4 => content().prop_map(Message::ai),
        5 => (id, name, text).prop_map(|(id, name, text)| Message::tool(id, name, text)),
        1 => ("[ab]", content()).prop_map(|(id, content)| Message::tool(id, "f", content)),
    ]
}

fn has_content(history: &Messages) -> bool {
    history.iter().any(|message| {
        let calls_count = message.role() == Role::Assistant;
        matches!(message.role(), Role::User | Role::Assistant)
            && message.content().parts().iter().any(|part| match part {
                Part::Text(text) => !text.trim().is_empty(),
                Part::ToolCall(call) => {
                    calls_count && !call.name.is_empty() && call.args.is_object()
                }
                Part::Thinking(_) | Part::Annotations(_) => false,
                _ => true,
            })
    })
}

/// Returns `true` if the results after each message are in the order of its calls.
fn is_in_call_order(history: &Messages) -> bool {
    let all = history.as_slice();
    all.iter().enumerate().all(|(at, message)| {
        let ids: Vec<_> = message.tool_calls().map(|call| &call.id).collect();
        let results = all[at + 1..].iter().map_while(|next| next.as_tool_result());
        let place = |id| ids.iter().position(|own| *own == id);
        ids.is_empty()
            || results
                .map(|result| place(&result.tool_call_id))
                .is_sorted()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::kit::effort::cases(1_000), failure_persistence: None, ..Default::default() })]

    #[test]
    fn repair_makes_any_history_with_content_valid(list in prop::collection::vec(any_message(), 0..14)) {
        let broken: Messages = list.into_iter().collect();
        let mut history = broken.clone();
        let was_valid = broken.validate_for_model().is_ok() && is_in_call_order(&broken);
        let repairs = history.repair();
        if was_valid {
            prop_assert!(std::ptr::eq(broken.as_slice(), history.as_slice()));
        }

        prop_assert_eq!(repairs.is_empty(), broken == history, "{}", repairs);
        prop_assert!(is_in_call_order(&history), "{}", history);
        if has_content(&broken) {
            let valid = history.validate_for_model();
            prop_assert!(valid.is_ok(), "{:?}\n{}\n{}\n{}", valid, broken, repairs, history);
        }

        let mut again = history.clone();
        let second = again.repair();
        prop_assert!(second.is_empty(), "{}\n{}", second, history);
        prop_assert!(std::ptr::eq(again.as_slice(), history.as_slice()));

        // Messages before the first change are identical, not only equal.
        let equal = broken.iter().zip(&history).take_while(|(a, b)| a == b).count();
        prop_assert_eq!(broken.shared_prefix(&history), equal);

        let thoughts = |h: &Messages| h.iter().flat_map(|m| m.content().parts()).filter(|p| matches!(p, Part::Thinking(_))).count();
        prop_assert!(thoughts(&history) <= thoughts(&broken));
        for repair in &repairs {
            prop_assert!(repair.index() < broken.len());
        }

        let mut checked = broken.clone();
        let by_check = ModelCheck::new().ensure(&mut checked, &[]);
        prop_assert_eq!(&checked, &history);
        prop_assert_eq!(by_check, repairs);
    }

    #[test]
    fn repair_with_pending_calls_is_idempotent(
        list in prop::collection::vec(any_message(), 0..10)
    ) {
        let mut history: Messages = list.into_iter().collect();
        let pending = [Arc::from("a")];
        history.repair_keeping(&pending);
        let before = history.clone();
        let second = history.repair_keeping(&pending);
        prop_assert!(second.is_empty(), "{}\n{}", second, before);
        prop_assert_eq!(history, before);
    }

    #[test]
    fn history_json_round_trips(list in prop::collection::vec(any_message(), 0..6)) {
        let history: Messages = list.into_iter().collect();
        let json = serde_json::to_string(&history).unwrap();
        prop_assert_eq!(&Messages::from_json(&json).unwrap(), &history);
        let value = serde_json::to_value(&history).unwrap();
        let read: Messages = serde_json::from_value(value).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&history).unwrap());
    }

    #[test]
    fn model_check_agrees_with_full_validation_on_any_history(list in prop::collection::vec(any_message(), 0..12), cut in 0usize..12) {
        let mut check = ModelCheck::new();
        let mut history = Messages::new();
        for message in &list {
            history.push(message.clone());
            prop_assert_eq!(check.check(&history), history.validate_for_model());
        }
        history.repair();
        prop_assert_eq!(check.check(&history), history.validate_for_model());
        let mut other: Messages = history.as_slice().iter().take(cut).cloned().collect();
        other.extend(list);
        prop_assert_eq!(check.check(&other).is_ok(), other.validate_for_model().is_ok());
    }
}
