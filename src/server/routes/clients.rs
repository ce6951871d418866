//! The requests of AG-UI and of the AI SDK, which have bodies of their own.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::response::Response;
use futures::stream;

use crate::error::{Error, ErrorKind};
use crate::message::{Message, Role};
use crate::session::AgentState;

use super::super::error::ApiError;
use super::super::stream::ag_ui::AgUiInput;
use super::super::stream::ai_sdk::{AiSdkInput, Trigger};
use super::super::stream::{Encoder, EncoderOptions, RunInput, StreamFormat, write_events};
use super::super::stream_reply;
use super::input::MAX_INPUT_ID;
use super::launch::{LaunchInput, LaunchOptions};
use super::opened_thread::OpenedThread;
use super::stream::StreamCall;
use super::threads::milliseconds;

/// Begins the run of an AG-UI client, or continues one.
pub(super) async fn ag_ui(call: StreamCall<'_>, body: AgUiInput) -> Result<Response, ApiError> {
    check_id("runId", &body.run_id)?;
    let opened = call.open(Some(&body.thread_id)).await?;
    let pending = opened.pending();
    let decisions = body.decisions(&pending, milliseconds(SystemTime::now()));
    let decisions = match decisions {
        Ok(decisions) => decisions,
        // The client expects the events of a run.
        Err(error) if error.kind() == ErrorKind::Conflict => {
            return Ok(failure(&opened, &body.run_id, call.format, &error));
        }
        Err(error) => return Err(error.into()),
    };
    if decisions.is_some() {
        opened.check_agent(call.app, &pending)?;
    }
    let client_run_id = Some(body.run_id.clone());
    let mut options = options(client_run_id);
    let launch_input = match (decisions, &opened.state) {
        (Some(decisions), _) => LaunchInput::Decisions(decisions),
        (None, Some(state)) => {
            let known_ids: HashSet<&str> = state.inputs.ids().collect();
            let input = body.input(|id| known_ids.contains(id))?;
            new_input(input, &mut options)?
        }
        (None, None) => new_input(body.input(|_| false)?, &mut options)?,
    };
    call.launch_and_follow(opened, launch_input, options).await
}

/// Begins the run of an AI SDK client, or continues one.
pub(super) async fn ai_sdk(call: StreamCall<'_>, body: AiSdkInput) -> Result<Response, ApiError> {
    let opened = call.open(Some(&body.id)).await?;
    let pending = opened.pending();
    let decisions = match body.trigger {
        Trigger::SubmitMessage => body.decisions(&pending)?,
        Trigger::RegenerateMessage => None,
    };
    if decisions.is_some() {
        opened.check_agent(call.app, &pending)?;
    }
    let mut options = options(None);
    let launch_input = match (decisions, &opened.state) {
        (Some(decisions), _) => LaunchInput::Decisions(decisions),
        (None, Some(state)) => {
            let input = body.input()?;
            if body.trigger == Trigger::RegenerateMessage || is_edit(&input, state) {
                replacing_input(input, state, &mut options)?
            } else {
                new_input(input, &mut options)?
            }
        }
        (None, None) => new_input(body.input()?, &mut options)?,
    };
    call.launch_and_follow(opened, launch_input, options).await
}

fn options(client_run_id: Option<Arc<str>>) -> LaunchOptions {
    LaunchOptions {
        is_traced: true,
        leaves_calls_pending: true,
        client_run_id,
        message_ids: Vec::new(),
    }
}

/// Checks the length of an id that the client gave to a run or a message.
fn check_id(name: &str, id: &str) -> Result<(), ApiError> {
    if id.len() <= MAX_INPUT_ID {
        return Ok(());
    }
    let text = format!(
        "the {name} has {} bytes, and at most {MAX_INPUT_ID} are allowed; use a shorter one",
        id.len()
    );
    Err(ApiError::bad_request(text))
}

fn new_input(input: RunInput, options: &mut LaunchOptions) -> Result<LaunchInput, ApiError> {
    for (id, _) in &input.messages {
        check_id("id of a message", id)?;
    }
    let messages = input.to_messages();
    let check = messages.validate_user_input();
    check.map_err(|error| ApiError::bad_request(error.to_string()))?;
    options.message_ids = input.messages.iter().map(|(id, _)| id.clone()).collect();
    Ok(LaunchInput::Input(messages, input.input_id))
}

/// Returns `true` if the last message has the id of a stored one and another content.
fn is_edit(input: &RunInput, state: &AgentState) -> bool {
    // A blank message is not stored, so that its id has the place of the next one.
    let Some((id, message)) = input
        .messages
        .last()
        .filter(|(_, message)| !message.content().is_blank())
    else {
        return false;
    };
    let stored = known_position(state, id).and_then(|position| state.messages.get(position));
    stored.is_some_and(|stored| stored.content() != message.content())
}

/// Returns an input that is to be answered in the place of the stored messages from its own on.
fn replacing_input(
    input: RunInput,
    state: &AgentState,
    options: &mut LaunchOptions,
) -> Result<LaunchInput, ApiError> {
    let position = match input.messages.last() {
        Some((id, message)) => user_position(state, id, message)?,
        None => 0,
    };
    Ok(match new_input(input, options)? {
        LaunchInput::Input(messages, id) => LaunchInput::Regenerate(messages, id, position),
        launch_input => launch_input,
    })
}

/// Returns the position of the first message of the input with this id.
fn known_position(state: &AgentState, id: &str) -> Option<usize> {
    let mut starts = state.inputs.starts();
    let (_, position) = starts.find(|(known_id, _)| !id.is_empty() && ***known_id == *id)?;
    Some(position)
}

/// Returns the stored position of a user's message that is to be answered again: the position of
/// its id, or of the user's last message with the same text. The messages after it are removed, so
/// a client that has only some of the messages cannot name a position by their number.
fn user_position(state: &AgentState, id: &str, message: &Message) -> Result<usize, ApiError> {
    if let Some(position) = known_position(state, id) {
        return Ok(position);
    }

    let messages = state.messages.as_slice();
    let last = messages
        .iter()
        .rposition(|message| message.role() == Role::User);
    let position = last.filter(|position| messages[*position].text() == message.text());
    position.ok_or_else(|| {
        ApiError::conflict(format!(
            "the message {id:?} is neither known by its id nor the last message of the user; load \
             the thread again"
        ))
    })
}

/// Returns the response to decisions that cannot be made: a run that has failed.
fn failure(
    opened: &OpenedThread,
    run_id: &Arc<str>,
    format: StreamFormat,
    error: &Error,
) -> Response {
    let mut encoder_options = EncoderOptions::new(run_id.clone());
    if let Some(state) = &opened.state {
        encoder_options = encoder_options.with_state(state.clone());
    }
    let mut events = Vec::new();
    let mut encoder = Encoder::new(format, encoder_options.with_client_run_id(run_id.clone()));
    encoder.fail(error.text(), "conflict", &mut events);
    let bytes = Bytes::from(write_events(events));
    stream_reply::response(format, stream::iter([bytes]))
}
