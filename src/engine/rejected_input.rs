//! The removal of an input that the model rejects, because it would be rejected again together with
//! the next input.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::message::{Message, Messages, Part, Role, TokenCounter, count};

use super::history::History;
use super::run_input::STALE_COMPACTION;

impl History {
    /// Removes the input of a run without a response if the model rejected it or the history
    /// exceeds its limit. Returns the error of the model call, with a remedy in its text.
    pub(super) async fn remove_rejected_input(&mut self, error: Error) -> Error {
        let kind = error.kind();
        let is_rejected = match kind {
            ErrorKind::ContextTooLong | ErrorKind::RequestTooLarge | ErrorKind::InvalidRequest => {
                true
            }
            ErrorKind::ResponseTooLarge => self.byte_size.is_over_limit(),
            _ => false,
        };
        if !is_rejected {
            return error;
        }

        let is_over_limit = kind == ErrorKind::ResponseTooLarge;
        let (own_messages, earlier_messages) = self.inputs_without_response(is_over_limit);
        let counter = self.cx.token_counter().clone();
        let removed_count = removed_count(&counter, kind, &own_messages, &earlier_messages).await;
        if removed_count > own_messages.len() {
            self.cx.warn(format!(
                "the unanswered input of an earlier run was removed as well ({} of {removed_count} \
                 messages), because it is longer than this input",
                earlier_messages.len()
            ));
        }

        self.remove_last(removed_count);
        match (removed_count, kind) {
            (0, ErrorKind::InvalidRequest | ErrorKind::ResponseTooLarge) => error,
            (0, _) => error.with_hint(self.long_history_hint()),
            (_, _) => error.with_hint(removed_input_hint(kind, removed_count)),
        }
    }

    /// Removes the inputs of this run from the history, because the model would refuse them again.
    /// Does nothing if some of them have a response. Results stay, because approved calls have run.
    pub(super) fn remove_refused_inputs(&mut self) {
        let (own_messages, _) = self.inputs_without_response(false);
        self.remove_last(own_messages.len());
    }

    /// Returns the inputs of this run without a response, and those of earlier runs before them.
    /// Both are at the end of the history.
    ///
    /// With `is_whole`, assistant messages and results that are part of the input do not end it, so
    /// that all of it can be removed.
    fn inputs_without_response(&self, is_whole: bool) -> (Vec<Arc<Message>>, Vec<Arc<Message>>) {
        self.cx.state(|state| {
            let messages = state.messages.as_slice();
            let start = self.initial_len.min(messages.len());
            let (old_messages, new_messages) = messages.split_at(start);
            // An assistant message without metadata was part of an input, not a response.
            let is_response = |(index, message): (usize, &Arc<Message>)| {
                message.role() == Role::Assistant
                    && (!is_whole || state.infos.get(start + index).is_some())
            };
            if new_messages.iter().enumerate().any(is_response) {
                return (Vec::new(), Vec::new());
            }

            let own_len = if is_whole {
                // The results of approved calls, which have run, come first.
                let is_result = |message: &&Arc<Message>| message.role() == Role::Tool;
                new_messages.iter().skip_while(is_result).count()
            } else {
                trailing_input_count(new_messages)
            };
            let earlier_len = if own_len == new_messages.len() {
                trailing_input_count(old_messages)
            } else {
                0
            };

            let own_messages = new_messages[new_messages.len() - own_len..].to_vec();
            (
                own_messages,
                old_messages[old_messages.len() - earlier_len..].to_vec(),
            )
        })
    }

    /// Removes the last `count` messages of the history.
    fn remove_last(&mut self, count: usize) {
        if count == 0 {
            return;
        }

        let old_messages = self.cx.state(|state| state.messages.clone());
        let is_stale = self.cx.state(|state| {
            let messages = state.messages.as_slice();
            let remaining = &messages[..messages.len().saturating_sub(count)];
            state.inputs.remove_from(remaining.len());
            state.infos.keep(remaining.len());
            state.messages = remaining.iter().cloned().collect::<Messages>();
            state.drop_stale_compaction(&old_messages)
        });

        if is_stale {
            self.cx.warn(STALE_COMPACTION);
        }

        self.recount();
    }

    /// Returns the advice for a history that is too long and was not shortened.
    fn long_history_hint(&self) -> String {
        let input_start = self.cx.state(|state| {
            let messages = state.messages.as_slice();
            let is_input = |message: &Arc<Message>| message.role().is_user_input();
            let end = messages
                .iter()
                .rposition(is_input)
                .map_or(0, |index| index + 1);
            end - trailing_input_count(&messages[..end])
        });

        format!(
            "the turn has answers or results and was not removed; continue before it with \
             rewind_to({input_start}), set a compactor, or move long tool results into files with \
             FilesystemHook"
        )
    }
}

/// Returns the number of messages to remove: of the input of this run, with the input of earlier
/// runs if that is longer.
async fn removed_count(
    counter: &Arc<dyn TokenCounter>,
    kind: ErrorKind,
    own_messages: &[Arc<Message>],
    earlier_messages: &[Arc<Message>],
) -> usize {
    // A request may be invalid for other reasons than its input, so only media is suspected.
    let is_suspect = |messages: &[Arc<Message>]| {
        kind != ErrorKind::InvalidRequest || messages.iter().any(|message| has_media(message))
    };
    let removes_earlier = is_suspect(earlier_messages)
        && count(counter, earlier_messages).await > count(counter, own_messages).await;
    match (removes_earlier, is_suspect(own_messages)) {
        (true, _) => own_messages.len() + earlier_messages.len(),
        (false, true) => own_messages.len(),
        (false, false) => 0,
    }
}

/// Returns the number of inputs at the end of `messages`.
fn trailing_input_count(messages: &[Arc<Message>]) -> usize {
    messages
        .iter()
        .rev()
        .take_while(|message| message.role().is_user_input())
        .count()
}

fn has_media(message: &Message) -> bool {
    let mut parts = message.content().parts().iter();
    parts.any(|part| matches!(part, Part::Image(_) | Part::Document(_) | Part::Audio(_)))
}

/// Returns the advice for an input that was removed.
fn removed_input_hint(kind: ErrorKind, count: usize) -> String {
    let action = match count {
        1 => "the input was removed".to_owned(),
        _ => format!("the input was removed ({count} messages)"),
    };

    let advice = match kind {
        // The error itself has the advice.
        ErrorKind::ResponseTooLarge => return action,
        ErrorKind::ContextTooLong => {
            "shorten it, set a compactor, or set the server's actual window with \
             context_window(..); if a short input is too long as well, continue from an earlier \
             message with rewind_to(..) or start another session"
        }
        ErrorKind::RequestTooLarge => {
            "shorten it, or send smaller pictures, documents and recordings"
        }
        _ => {
            "send it without its pictures, documents and recordings, or send these in another form"
        }
    };

    format!("{action}; {advice}")
}
