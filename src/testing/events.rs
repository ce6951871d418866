//! Events that look like a provider's.

use crate::error::Result;
use crate::message::ToolCall;
use crate::model::{ModelEvent, ResponseHead, StopReason};

/// The pieces in which text is streamed: words with the whitespace after them.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let mut remaining = text;
    std::iter::from_fn(move || {
        let word = remaining
            .find(char::is_whitespace)
            .unwrap_or(remaining.len());
        let space = remaining[word..]
            .find(|c: char| !c.is_whitespace())
            .unwrap_or(remaining.len() - word);
        let (piece, tail) = remaining.split_at(word + space);
        remaining = tail;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

/// Returns a call as it streams: its start, its arguments in two pieces, the whole.
pub(super) fn call(index: u32, call: ToolCall) -> Vec<ModelEvent> {
    let raw = match &call.raw_args {
        Some(raw) => raw.to_string(),
        None => call.args.to_string(),
    };

    let middle = (0..=raw.len() / 2)
        .rev()
        .find(|at| raw.is_char_boundary(*at))
        .unwrap_or(0);
    let delta = |json: &str| ModelEvent::ToolCallDelta {
        index,
        json: json.to_owned(),
    };

    let mut out = vec![ModelEvent::ToolCallStart {
        index,
        id: call.id.clone(),
        name: call.name.clone(),
    }];
    let (first, last) = raw.split_at(middle);
    out.extend(
        [first, last]
            .into_iter()
            .filter(|s| !s.is_empty())
            .map(delta),
    );
    out.push(ModelEvent::ToolCall(call));
    out
}

/// Adds what a well-formed stream needs and `events` lack: `Start`, and `Stop` with `ToolUse` if
/// there are calls and `EndTurn` if there are none. A stream that begins or ends with an error
/// keeps that beginning or end.
pub(super) fn complete(
    mut events: Vec<Result<ModelEvent>>,
    head: ResponseHead,
) -> Vec<Result<ModelEvent>> {
    if !matches!(events.first(), Some(Ok(ModelEvent::Start(_)) | Err(_))) {
        events.insert(0, Ok(ModelEvent::Start(Box::new(head))));
    }
    let is_stop = |event: &Result<ModelEvent>| matches!(event, Ok(ModelEvent::Stop { .. }));
    let has_failed = matches!(events.last(), Some(Err(_)));
    if !has_failed && !events.iter().any(is_stop) {
        events.push(Ok(ModelEvent::stop(reason(&events))));
    }
    events
}

fn reason(events: &[Result<ModelEvent>]) -> StopReason {
    let calls = |event: &Result<ModelEvent>| matches!(event, Ok(ModelEvent::ToolCall(_)));
    if events.iter().any(calls) {
        StopReason::ToolUse
    } else {
        StopReason::EndTurn
    }
}
