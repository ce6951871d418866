//! Bodies of requests that follow each other.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Encoded, GroupPlace, Wire, encode};
use crate::error::Result;
use crate::message::{Content, Message, Messages, Part, ProviderBlock, Role};
use crate::model::{ModelRequest, Stability, SystemPrompt, ToolDefinition};

thread_local! {
    /// The number of messages that were written.
    static WRITTEN: Cell<usize> = const { Cell::new(0) };
}

/// Writes a message as its text in quotes: with `~` in front for its reasoning, and in the last one
/// with the tail and a breakpoint after it.
#[derive(Clone, PartialEq)]
struct Plain<const INPUT: bool = false> {
    has_tail: bool,
}

impl<const INPUT: bool> Wire for Plain<INPUT> {
    const LIST: &'static str = if INPUT { "input" } else { "messages" };
    const BREAKPOINT: &'static str = "!";

    fn joins(&self, _: &Message, _: &Message) -> bool {
        false
    }

    fn message(
        &self,
        group: &[Arc<Message>],
        place: GroupPlace<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        WRITTEN.set(WRITTEN.get() + 1);
        let mut parts = group[0].content().parts().iter();
        let is_reasoned = parts.any(|part| matches!(part, Part::Thinking(_)));
        let prefix = if is_reasoned && place.has_reasoning {
            "~"
        } else {
            ""
        };
        let tail = place.tail.map(|text| format!(",({text})"));
        let message = format!(
            "\"{prefix}{}\"{}",
            group[0].text(),
            tail.unwrap_or_default()
        );
        out.extend_from_slice(message.as_bytes());
        Ok(Some(out.len()))
    }

    fn has_tail(&self) -> bool {
        self.has_tail
    }

    fn system(&self, _: &SystemPrompt, _: &[Arc<Message>], _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn tools(&self, _: &[ToolDefinition], _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

fn encoded(wire: &impl Wire, request: &ModelRequest) -> Encoded {
    let encoded = encode(wire, request, &request.extra, |fields, _| {
        fields.put("model", "m")?;
        Ok(Cow::default())
    });
    encoded.unwrap()
}

fn body(request: &ModelRequest) -> Bytes {
    encoded(&Plain::<false> { has_tail: false }, request).body
}

/// Returns the list of messages in the body of a wire with a tail, without breakpoints.
fn list(request: &ModelRequest) -> String {
    let body = encoded(&Plain::<false> { has_tail: true }, request).body;
    let text = String::from_utf8(body.to_vec()).unwrap();
    let list = text.strip_prefix(r#"{"model":"m","messages":["#).unwrap();
    list.strip_suffix("]}").unwrap().replace('!', "")
}

fn with_clock(text: &str) -> ModelRequest {
    let mut request = ModelRequest::new("one");
    set_clock(&mut request, text);
    request
}

fn set_clock(request: &mut ModelRequest, text: &str) {
    request.system.set("clock", text, Stability::Volatile);
}

fn push(request: &mut ModelRequest, role: Role, text: &str) {
    request.messages.push(match role {
        Role::Assistant => Message::ai(text),
        _ => Message::human(text),
    });
}

/// Returns an answer with reasoning.
fn reasoned(text: &str) -> Message {
    let raw = RawValue::from_string("{}".to_owned()).unwrap();
    let mut content = Content::new();
    content.push(Part::Thinking(ProviderBlock::new("test", raw)));
    content.push(Part::text(text));
    Message::ai(content)
}

#[test]
fn body_buffer_is_extended_only_when_not_shared() {
    let mut request = ModelRequest::new("one");
    let first = body(&request);
    assert_eq!(first, r#"{"model":"m","messages":["one"!]}"#);
    request.messages.push(Message::ai("two"));
    let second = body(&request);
    assert_eq!(first, r#"{"model":"m","messages":["one"!]}"#);
    assert_eq!(second, r#"{"model":"m","messages":["one"!,"two"!]}"#);
    let place = second.as_ptr();
    drop(second);
    request.messages = Messages::from("one");
    let third = body(&request);
    assert_eq!(third, first);
    assert_eq!(third.as_ptr(), place);
}

#[test]
fn breakpoint_of_the_request_before_stays_for_one_request() {
    let mut request = ModelRequest::new("one");
    for (text, list) in [
        ("two", r#""one"!"#),
        ("three", r#""one"!,"two"!"#),
        ("four", r#""one","two"!,"three"!"#),
        ("five", r#""one","two","three"!,"four"!"#),
    ] {
        let expected = format!(r#"{{"model":"m","messages":[{list}]}}"#);
        assert_eq!(body(&request), expected);
        // A retry has the same bytes.
        assert_eq!(body(&request), expected);
        push(&mut request, Role::User, text);
    }

    request.max_output_tokens = Some(7);
    let start = request.messages.as_slice()[..2].iter().cloned();
    request.messages = start.collect();
    push(&mut request, Role::User, "other");
    let expected = r#"{"model":"m","messages":["one","two","other"!]}"#;
    assert_eq!(body(&request), expected);
}

#[test]
fn messages_in_extra_replace_the_encoded_ones() {
    let mut request = ModelRequest::new("one");
    body(&request);
    request.extra.insert("messages".into(), "mine".into());
    assert_eq!(body(&request), r#"{"model":"m","messages":"mine"}"#);
    request.extra.clear();
    assert_eq!(body(&request), r#"{"model":"m","messages":["one"!]}"#);
}

#[test]
fn other_wire_has_another_list() {
    let wire = Plain::<true> { has_tail: false };
    let mut request = ModelRequest::new("one");
    let expected = r#"{"model":"m","input":["one"!]}"#;
    assert_eq!(encoded(&wire, &request).body, expected);
    request.extra.insert("input".into(), "mine".into());
    let expected = r#"{"model":"m","input":"mine"}"#;
    assert_eq!(encoded(&wire, &request).body, expected);
}

#[test]
fn reasoning_left_out_rewrites_the_history_once() {
    let wire = Plain::<false> { has_tail: false };
    let mut request = ModelRequest::new("one");
    request.messages.push(reasoned("two"));
    push(&mut request, Role::User, "three");
    let original = encoded(&wire, &request);
    let expected = r#"{"model":"m","messages":["one","~two","three"!]}"#;
    assert_eq!(original.body, expected);
    original.reasoning.leave_out();

    request.messages.push(reasoned("four"));
    push(&mut request, Role::User, "five");
    let expected = r#"{"model":"m","messages":["one","two","three","~four","five"!]}"#;
    assert_eq!(body(&request), expected);

    WRITTEN.set(0);
    push(&mut request, Role::Assistant, "six");
    let expected = r#"{"model":"m","messages":["one","two","three","~four","five"!,"six"!]}"#;
    assert_eq!(body(&request), expected);
    assert_eq!(WRITTEN.get(), 1);
}

#[test]
fn reasoning_after_a_compaction_is_sent() {
    let wire = Plain::<false> { has_tail: false };
    let mut request = ModelRequest::new("one");
    request.messages.push(reasoned("two"));
    push(&mut request, Role::User, "three");
    encoded(&wire, &request).reasoning.leave_out();
    body(&request);

    request.messages = Messages::from("summary");
    assert_eq!(body(&request), r#"{"model":"m","messages":["summary"!]}"#);
    request.messages.push(reasoned("four"));
    let expected = r#"{"model":"m","messages":["summary"!,"~four"!]}"#;
    assert_eq!(body(&request), expected);
}

#[test]
fn sent_tail_stays_and_is_sent_again_only_when_it_changes() {
    let mut request = with_clock("noon");
    assert_eq!(list(&request), r#""one",(noon)"#);
    push(&mut request, Role::Assistant, "two");
    push(&mut request, Role::User, "three");
    assert_eq!(list(&request), r#""one",(noon),"two","three""#);
    set_clock(&mut request, "night");
    let expected = r#""one",(noon),"two","three",(night)"#;
    assert_eq!(list(&request), expected);
    push(&mut request, Role::Assistant, "four");
    push(&mut request, Role::User, "five");
    assert_eq!(list(&request), format!(r#"{expected},"four","five""#));
}

#[test]
fn tail_is_sent_again_after_its_group_is_dropped() {
    let mut request = with_clock("noon");
    list(&request);
    push(&mut request, Role::Assistant, "two");
    push(&mut request, Role::User, "three");
    list(&request);
    request.messages = Messages::from("summary");
    assert_eq!(list(&request), r#""summary",(noon)"#);
}

#[test]
fn answer_at_the_end_gets_no_tail() {
    let mut request = with_clock("noon");
    push(&mut request, Role::Assistant, "two");
    assert_eq!(list(&request), r#""one","two""#);
    push(&mut request, Role::User, "three");
    assert_eq!(list(&request), r#""one","two","three",(noon)"#);
}

#[test]
fn retried_request_has_the_same_bytes() {
    let mut request = with_clock("noon");
    assert_eq!(list(&request), list(&request));
    push(&mut request, Role::Assistant, "two");
    push(&mut request, Role::User, "three");
    set_clock(&mut request, "night");
    let first = list(&request);
    assert_eq!(first, r#""one",(noon),"two","three",(night)"#);
    assert_eq!(list(&request), first);
}
