//! The start of a run in a thread.

use std::sync::Arc;
use std::time::SystemTime;

use crate::agent::{Decision, Session};
use crate::message::Messages;
use crate::run::Run;
use crate::session::AgentState;

use super::super::app::App;
use super::super::bounded_recorder::BoundedRecorder;
use super::super::error::ApiError;
use super::super::runs::{RunKey, ServerRun, StartRun};
use super::super::stream::EncoderOptions;
use super::super::traces::Trace;
use super::super::users::Caller;
use super::opened_thread::OpenedThread;

/// The input that a run starts with.
pub(super) enum LaunchInput {
    /// An input, with its id.
    Input(Messages, Option<Arc<str>>),
    /// An input, with its id, that replaces the messages from this position on.
    Regenerate(Messages, Option<Arc<str>>, usize),
    /// Decisions about pending calls.
    Decisions(Vec<Decision>),
}

impl LaunchInput {
    /// Removes the messages that a regeneration replaces.
    fn truncate(&self, state: &mut AgentState) {
        if let Self::Regenerate(.., position) = self {
            let len = state.messages.len().min(*position);
            state.messages = state.messages.as_slice()[..len].iter().cloned().collect();
            state.infos.keep(len);
            state.inputs.reopen_from(len);
        }
    }

    /// Returns `true` if an earlier run has stored this input.
    fn is_stored_in(&self, state: &AgentState) -> bool {
        match self {
            Self::Input(_, Some(id)) => state.inputs.contains(id),
            _ => false,
        }
    }
}

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchOptions {
    /// True if the spans of the run are recorded.
    pub(super) is_traced: bool,
    /// True if a call that needs approval becomes pending at once.
    pub(super) leaves_calls_pending: bool,
    /// The id that an AG-UI client gave to the run.
    pub(super) client_run_id: Option<Arc<str>>,
    /// The ids that the client gave to the messages of the input.
    pub(super) message_ids: Vec<Arc<str>>,
}

/// Starts a run in its own task.
///
/// # Errors
///
/// Returns 409 if the thread has a run, 429 if there are too many runs, and 503 during a shutdown.
pub(super) fn launch(
    app: &App,
    caller: &Caller,
    opened: OpenedThread,
    launch_input: LaunchInput,
    options: LaunchOptions,
) -> Result<Arc<ServerRun>, ApiError> {
    let recorder = options.is_traced.then(BoundedRecorder::default);
    let mut session = opened.session;
    if let Some(recorder) = &recorder {
        session = session.trace_recorder(recorder.clone());
    }

    // A new thread has no messages; without a state, readers would treat them as unknown.
    let mut state = opened
        .state
        .unwrap_or_else(|| AgentState::new(session.id().clone()));
    launch_input.truncate(&mut state);
    let has_input = launch_input.is_stored_in(&state);
    let (run, input) = new_run(session.clone(), launch_input);
    let run_id = run.handle().run_id().clone();
    let leaves_calls_pending = options.leaves_calls_pending;
    let new_input = if has_input { Messages::new() } else { input };
    let encoder_options = encoder_options(&run_id, state, &new_input, options);
    let key = RunKey {
        user: caller.id().clone(),
        store: opened.store,
        thread: session.id().clone(),
    };
    let server_run = app.runs.start(StartRun {
        key: key.clone(),
        agent: opened.agent_id.clone(),
        shows_folders: caller.0.is_admin,
        run,
        options: encoder_options,
        leaves_calls_pending,
    })?;
    if let Some(recorder) = recorder {
        app.traces.add(Trace {
            id: run_id,
            key,
            agent: opened.agent_id,
            started_at: SystemTime::now(),
            recorder,
        });
    }
    Ok(server_run)
}

/// Returns a run that has not begun, and the messages of its input.
fn new_run(session: Session, launch_input: LaunchInput) -> (Run, Messages) {
    match launch_input {
        LaunchInput::Input(messages, input_id) => {
            let run = with_input_id(session, input_id).run(messages.clone());
            (run, messages)
        }
        LaunchInput::Regenerate(messages, input_id, position) => {
            let session = session.replace_input(input_id, position);
            (session.run(messages.clone()), messages)
        }
        LaunchInput::Decisions(decisions) => {
            let run = session.must_exist().resume(decisions);
            (run, Messages::new())
        }
    }
}

/// Returns the data of the run for its encoders.
fn encoder_options(
    run_id: &Arc<str>,
    state: AgentState,
    input: &Messages,
    options: LaunchOptions,
) -> EncoderOptions {
    let mut encoder_options = EncoderOptions::new(run_id.clone()).with_state(state);
    if let Some(id) = options.client_run_id {
        encoder_options = encoder_options.with_client_run_id(id);
    }
    for (index, message) in input.as_slice().iter().enumerate() {
        let id = options
            .message_ids
            .get(index)
            .cloned()
            .unwrap_or_else(|| format!("{run_id}.in.{index}").into());
        encoder_options = encoder_options.with_input(id, message.clone());
    }
    encoder_options
}

fn with_input_id(session: Session, id: Option<Arc<str>>) -> Session {
    match id {
        Some(id) => session.input_id(id),
        None => session,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    #[test]
    fn state_before_a_run_has_neither_its_input_nor_what_it_removes() {
        let mut state = AgentState::new("s");
        state.messages = Messages::from("One")
            .ai("First.")
            .with(Message::human("Two"))
            .ai("Second.");
        state.inputs.begin("one".into(), 0..1);
        state.inputs.begin("two".into(), 2..3);
        let input = |id: &str| LaunchInput::Input(Messages::from("Two"), Some(id.into()));
        assert!(input("two").is_stored_in(&state));
        assert!(!input("three").is_stored_in(&state));
        input("two").truncate(&mut state);
        assert_eq!(state.messages.len(), 4);

        let regenerated = LaunchInput::Regenerate(Messages::from("Two"), None, 2);
        assert!(!regenerated.is_stored_in(&state));
        regenerated.truncate(&mut state);
        assert_eq!(state.messages.len(), 2);
        let starts = state.inputs.starts();
        let starts: Vec<_> = starts.map(|(id, start)| (&**id, start)).collect();
        assert_eq!(starts, [("one", 0)]);
    }
}
