//! One turn: from an input to its reply.

use std::sync::Arc;

use uuid::Uuid;

use crate::error::{ErrorKind, Result};
use crate::message::{Content, Message, Messages};
use crate::run::{ExitReason, RunOutput};
use crate::session::Record;
use crate::tool::TaskOutcome;

use super::channels::is_internal_channel;
use super::chat_turn::{ChatTurn, delete_once};
use super::core::Core;
use super::late_answers::InputUse;
use super::message::{OutboundMessage, check_channel};
use super::process_options::ProcessOptions;
use super::served::{Served, ServedRun};
use super::shared::stopped;
use super::summaries::DueSummary;
use super::tools::resume_task;

/// The outcome of a turn.
#[derive(Default)]
pub(super) struct Processed {
    /// The reply; empty if a question waits for its answer.
    pub(super) text: String,
    /// True if the tool `message` has replied.
    pub(super) has_sent: bool,
    /// True if a tool continues in the background.
    pub(super) is_async: bool,
    /// True if an earlier run has responded to the input.
    pub(super) is_repeated: bool,
    /// The summary of the session that is due now.
    pub(super) summary: Option<DueSummary>,
}

impl Core {
    /// Runs one turn. The caller is first in the session's lane.
    pub(super) async fn process(&self, options: &ProcessOptions) -> Result<Processed> {
        check_channel(&options.channel)?;
        if !is_internal_channel(&options.channel) && options.report_depth == 0 {
            self.shared.channels.add(&options.channel);
            self.record_origin(options).await;
        }

        let session_id: Arc<str> = if options.no_history {
            format!("{}:once:{}", options.session_key, Uuid::now_v7()).into()
        } else {
            options.session_key.clone()
        };
        let turn = ChatTurn::new(&self.shared, options, &session_id);
        let input_use = self.use_of(options).await?;
        let is_repeated = matches!(input_use, InputUse::Input { has_response: true });
        let outcome = self.run(&turn, &session_id, options, input_use).await;
        if options.no_history {
            let session = self.served.first_agent().session(session_id.clone());
            delete_once(&self.shared, &session).await;
        }

        let output = match outcome {
            Ok(Some(output)) => output,
            Ok(None) => return Ok(without_run(options)),
            // `response_text` returns `None` for the partial output, so the default response is the
            // reply.
            Err(error) if error.kind() == ErrorKind::EmptyResponse => {
                error.partial().cloned().ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        let text = match self.response_text(&output)? {
            Some(text) => text,
            None => {
                self.store_default_response(&output, options).await?;
                options.default_response.clone()
            }
        };
        let processed = Processed {
            has_sent: turn.has_sent(&output, self.replies_after_message_elsewhere),
            is_async: has_background_work(&output),
            is_repeated,
            summary: self.due_summary(&output, options).await,
            text,
        };
        if options.send_response {
            let publish = self.send_reply(options, &processed);
            match self.shared.publish_in_turn(publish).await {
                Err(error) if self.shared.may_skip(&error) => {
                    tracing::warn!("a reply was not sent, and its caller has it: {error}");
                }
                outcome => outcome?,
            }
        }
        Ok(processed)
    }

    /// Records the chat in which a person wrote.
    async fn record_origin(&self, options: &ProcessOptions) {
        let Some(state) = &self.state else {
            return;
        };
        if let Err(error) = state.record(&options.channel, &options.chat_id).await {
            tracing::warn!("the last channel could not be recorded: {error}");
        }
    }

    /// Returns the summary of the session, if it is due.
    async fn due_summary(
        &self,
        output: &RunOutput,
        options: &ProcessOptions,
    ) -> Option<DueSummary> {
        if !options.enable_summary || options.no_history {
            return None;
        }
        let agent = self.served.active_agent(&output.state);
        let session = agent.session(output.session_id.clone());
        let due = self.summaries.as_ref()?.due(&session, &output.state).await;
        due.unwrap_or_else(|error| {
            tracing::warn!("session {} was not summarized: {error}", session.id());
            None
        })
    }

    /// Begins a summary in the background. It ends when the turns are interrupted, and is due again
    /// after the next turn.
    pub(super) fn summarize_later(&self, summary: DueSummary) {
        let interrupt = self.shared.interrupt.clone();
        let work = async move {
            tokio::select! {
                biased;
                () = interrupt.cancelled() => TaskOutcome::Stopped,
                outcome = summary.make_logged() => outcome,
            }
        };
        self.shared.summaries.spawn("summary", work);
    }

    /// Runs the agent on the input, or with it as the late answer to a question. Returns `None` if
    /// there is no run: the input is the answer to a task, was taken as an answer before, or is a
    /// notice.
    async fn run(
        &self,
        turn: &Arc<ChatTurn>,
        session_id: &Arc<str>,
        options: &ProcessOptions,
        input_use: InputUse,
    ) -> Result<Option<RunOutput>> {
        match input_use {
            InputUse::Input { .. } => {
                let input = Messages::new().human(input(options));
                let run = self.served.run(turn, session_id, input);
                self.drive(run, turn, options).await.map(Some)
            }
            InputUse::Answer(state, decision) => {
                let run = self.served.resume(turn, &state, decision);
                // The run loads the state itself.
                drop(state);
                let mut output = self.drive(run, turn, options).await?;
                let is_handed_over = output.end == ExitReason::HookStopped
                    && matches!(self.served, Served::Group(_));
                if !is_handed_over {
                    return Ok(Some(output));
                }
                if !output.pending().is_empty() {
                    // The run of the next agent would close the other questions.
                    output.end = ExitReason::AwaitingApproval;
                    return Ok(Some(output));
                }
                let run = self.served.run(turn, session_id, Messages::new());
                self.drive(run, turn, options).await.map(Some)
            }
            InputUse::TaskAnswer => {
                if let Some((task, decision)) = self.shared.waiting_tasks.take(options) {
                    resume_task(task, decision);
                }
                Ok(None)
            }
            InputUse::KnownAnswer | InputUse::Notice => Ok(None),
        }
    }

    async fn drive(
        &self,
        run: ServedRun,
        turn: &ChatTurn,
        options: &ProcessOptions,
    ) -> Result<RunOutput> {
        self.shared.drive(run, turn, options.send_response).await
    }

    /// Returns the text of a run's response, which is empty if a question waits for its answer.
    /// Returns `None` if the default response takes its place.
    fn response_text(&self, output: &RunOutput) -> Result<Option<String>> {
        let may_have_text = match output.end {
            ExitReason::AwaitingApproval => return Ok(Some(String::new())),
            ExitReason::Interrupted | ExitReason::Aborted
                if self.shared.interrupt.is_cancelled() =>
            {
                return Err(stopped());
            }
            ExitReason::EndTurn
            | ExitReason::StopSequence
            | ExitReason::MaxTokens
            | ExitReason::HookStopped
            | ExitReason::Refused => true,
            _ => false,
        };
        let has_text = may_have_text && !output.text.trim().is_empty();
        Ok(has_text.then(|| output.text.clone()))
    }

    /// Stores the default response, so that the history does not end with an input or a result.
    async fn store_default_response(
        &self,
        output: &RunOutput,
        options: &ProcessOptions,
    ) -> Result<()> {
        if options.no_history || output.end == ExitReason::Refused {
            return Ok(());
        }

        let store = self.served.store();
        let lease = store.lease(&options.session_key).await?;
        let message = Record::Message {
            message: Arc::new(Message::ai(options.default_response.as_str())),
            input_id: None,
        };
        store.append(&lease, vec![message]).await
    }

    /// Sends the reply to the chat, unless there is none or the tool `message` has replied.
    pub(super) async fn send_reply(
        &self,
        options: &ProcessOptions,
        processed: &Processed,
    ) -> Result<()> {
        if processed.has_sent || processed.text.is_empty() {
            return Ok(());
        }
        self.send_text(options, &processed.text).await
    }

    /// Sends a text as the reply to an input.
    pub(super) async fn send_text(&self, options: &ProcessOptions, text: &str) -> Result<()> {
        let message = OutboundMessage::new(options.channel.clone(), options.chat_id.clone(), text)
            .with_id_of_input(&options.input_id, "reply");
        self.shared.publish_outbound(message).await
    }
}

/// Returns the outcome of a turn without a run. Its text is the result of a task, as a notice, or
/// empty.
fn without_run(options: &ProcessOptions) -> Processed {
    let is_notice = options.report_depth > 0;
    let text = is_notice.then(|| options.user_message.to_string());
    Processed {
        text: text.unwrap_or_default(),
        ..Processed::default()
    }
}

fn has_background_work(output: &RunOutput) -> bool {
    let messages = output.messages.tool_messages();
    let mut results = messages.filter_map(Message::as_tool_result);
    results.any(|result| result.is_async)
}

/// Returns the user's message: the text and the media.
pub(super) fn input(options: &ProcessOptions) -> Content {
    let mut content = Content::from(&*options.user_message);
    for part in &options.media {
        content.push(part.clone());
    }
    content
}
