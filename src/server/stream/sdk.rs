//! The formats `sdk` and `ndjson`: the messages as they are.

use serde_json::{Map, Value, json};

use crate::sdk::{Envelope, ResultMessage, ResultSubtype, SdkMessage, SystemEvent, SystemKind};

use super::format::StreamFormat;
use super::out::Out;
use super::state::StreamState;

/// Writes a message: a bare line in the format `ndjson`, an event in the format `sdk`.
pub(super) fn push(message: &SdkMessage, format: StreamFormat, out: &mut Out<'_>) {
    if format == StreamFormat::Ndjson {
        out.line(message);
    } else {
        out.json(message);
    }
}

pub(super) fn snapshot(state: &StreamState, format: StreamFormat, out: &mut Out<'_>) {
    extension(state, "state", state.snapshot(), format, out);
}

pub(super) fn lagged(state: &StreamState, text: &str, format: StreamFormat, out: &mut Out<'_>) {
    extension(state, "lagged", json!({ "error": text }), format, out);
}

pub(super) fn fail(state: &StreamState, text: &str, format: StreamFormat, out: &mut Out<'_>) {
    let mut result = ResultMessage::new(envelope(state), ResultSubtype::ErrorDuringExecution);
    result.errors.push(text.to_owned());
    push(&result.into(), format, out);
}

/// A system message that a run has not emitted.
fn extension(
    state: &StreamState,
    subtype: &str,
    fields: Value,
    format: StreamFormat,
    out: &mut Out<'_>,
) {
    let fields = match fields {
        Value::Object(fields) => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    let kind = SystemKind::Unknown {
        subtype: subtype.into(),
        fields,
    };
    push(&SystemEvent::new(envelope(state), kind).into(), format, out);
}

fn envelope(state: &StreamState) -> Envelope {
    Envelope {
        session_id: state.thread_id().clone(),
        ..Envelope::default()
    }
}
