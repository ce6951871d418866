//! Bodies of requests that follow each other.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Encoded, GroupPlace, KeptBody, Wire, encode};
use crate::error::Result;
use crate::message::{Content, Message, Messages, Part, ProviderBlock, Role};
use crate::model::{ModelRequest, Stability, SystemPrompt, ToolDefinition};

thread_local! {
    /// The number of messages that were written.
    static WRITTEN: Cell<usize> = const { Cell::new(0) };
}

/// Writes a message as its text in quotes: with `~` in front for its reasoning, and in the last one
/// with the tail and, if `MARKED`, a breakpoint after it.
#[derive(Clone, PartialEq)]
struct Plain<const INPUT: bool = false, const MARKED: bool = true> {
    has_tail: bool,
}

/// A wire without breakpoints.
type Unmarked = Plain<false, false>;

impl<const INPUT: bool, const MARKED: bool> Wire for Plain<INPUT, MARKED> {
    const LIST: &'static str = if INPUT { "input" } else { "messages" };
    const BREAKPOINT: &'static str = if MARKED { "!" } else { "" };

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
        Ok(MARKED.then_some(out.len()))
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
    encoded_with(wire, &KeptBody::default(), request)
}

fn encoded_with(wire: &impl Wire, kept_body: &KeptBody, request: &ModelRequest) -> Encoded {
    let encoded = encode(wire, kept_body, request, &request.extra, |fields, _| {
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

/// The number of messages in a [`long_history`].
const LONG: usize = 100;

/// Returns a history whose body is long enough to be kept.
fn long_history() -> Messages {
    let text = "x".repeat(1024);
    let messages = (0..LONG).map(|number| Message::human(format!("{number}{text}")));
    messages.collect()
}

/// The request of a run with `history` and another message.
fn continuing(history: &Messages, text: &str) -> ModelRequest {
    ModelRequest::new(history.clone().human(text))
}

/// Encodes the only request of a run, with a wire that has a tail. Returns the number of messages
/// that were written.
fn written(kept_body: &KeptBody, request: ModelRequest) -> usize {
    let wire = Unmarked { has_tail: true };
    let fresh_body = encoded(&wire, &continuing(&request.messages, "x")).body;
    WRITTEN.set(0);
    let body = encoded_with(&wire, kept_body, &request).body;
    let count = WRITTEN.get();
    assert_eq!(fresh_body[..body.len() - 2], body[..body.len() - 2]);

    // The body is kept once its request is over.
    drop(body);
    drop(request);
    count
}

#[test]
fn run_with_the_same_long_history_continues_the_last_body() {
    let kept_body = KeptBody::default();
    let history = long_history();
    assert_eq!(written(&kept_body, continuing(&history, "a")), LONG + 1);
    assert_eq!(written(&kept_body, continuing(&history, "b")), 1);
    let longer = history.clone().human("c").human("d");
    assert_eq!(written(&kept_body, continuing(&longer, "e")), 3);
    assert_eq!(written(&kept_body, continuing(&longer, "f")), 1);

    // A short body takes the place of no other, and is not kept itself.
    let short = Messages::from("short");
    assert_eq!(written(&kept_body, continuing(&short, "g")), 2);
    assert_eq!(written(&kept_body, continuing(&short, "g")), 2);
    assert_eq!(written(&kept_body, continuing(&history, "h")), 1);
    assert_eq!(
        written(&kept_body, continuing(&long_history(), "i")),
        LONG + 1
    );
    assert_eq!(written(&kept_body, continuing(&history, "j")), LONG + 1);
}

#[test]
fn body_is_lent_to_one_run_at_a_time() {
    let kept_body = KeptBody::default();
    let wire = Unmarked { has_tail: false };
    let history = long_history();
    let first = continuing(&history, "a");
    encoded_with(&wire, &kept_body, &first);
    let second = continuing(&history, "b");
    drop(first);
    let third = continuing(&history, "c");
    WRITTEN.set(0);
    let second_body = encoded_with(&wire, &kept_body, &second).body;
    assert_eq!(WRITTEN.get(), 1);
    let third_body = encoded_with(&wire, &kept_body, &third).body;
    assert_eq!(WRITTEN.get(), 1 + LONG + 1);
    assert_eq!(second_body, encoded(&wire, &continuing(&history, "b")).body);
    assert_eq!(third_body, encoded(&wire, &continuing(&history, "c")).body);
}

#[test]
fn body_that_depends_on_its_run_is_not_kept() {
    let kept_body = KeptBody::default();
    let history = long_history();
    let mut with_tail = continuing(&history, "a");
    set_clock(&mut with_tail, "noon");
    let wire = Unmarked { has_tail: true };
    encoded_with(&wire, &kept_body, &with_tail);

    // The next request of the run has no tail.
    set_clock(&mut with_tail, "");
    encoded_with(&wire, &kept_body, &with_tail);
    drop(with_tail);
    assert_eq!(written(&kept_body, continuing(&history, "b")), LONG + 1);

    let without_reasoning = continuing(&history, "c");
    let encoded = encoded_with(&wire, &kept_body, &without_reasoning);
    encoded.reasoning.leave_out();
    drop(without_reasoning);
    assert_eq!(written(&kept_body, continuing(&history, "d")), LONG + 1);

    let marked = Plain::<false> { has_tail: true };
    for text in ["e", "f"] {
        WRITTEN.set(0);
        encoded_with(&marked, &kept_body, &continuing(&history, text));
        assert_eq!(WRITTEN.get(), LONG + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn body_is_kept_for_five_minutes() {
    let kept_body = KeptBody::default();
    let history = long_history();
    written(&kept_body, continuing(&history, "a"));
    tokio::time::advance(Duration::from_secs(299)).await;
    assert_eq!(written(&kept_body, continuing(&history, "b")), 1);
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!(written(&kept_body, continuing(&history, "c")), LONG + 1);
}
