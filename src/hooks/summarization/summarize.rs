//! The calls of the summarizer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, is_large};
use crate::model::{CompactionRequest, Model, ModelRequest, StopReason};
use crate::util::blocking::blocking_until_dropped;

use super::prompt;
use super::transcript::{MAX_PIECES, pieces, transcript};

/// The maximum number of words of a summary, if the window has room for them.
const MAX_WORDS: usize = 2_000;
/// The tokens of a word, including the thinking of the model before it writes the word.
const TOKENS_A_WORD: u64 = 3;
/// The length of a piece, in tokens, below which it is not divided even if it is too long for the
/// summarizer.
const SHORTEST_PIECE: u64 = 200;

/// The summarizer: the model that writes a summary, with the request for it and its limits.
pub(crate) struct Summarizer<'a> {
    pub(crate) request: &'a CompactionRequest,
    pub(crate) model: Arc<dyn Model>,
    /// The window of the model that reads the summary.
    pub(crate) window: u64,
    /// The time limit of one call.
    pub(crate) timeout: Duration,
}

impl Summarizer<'_> {
    /// Returns one summary of `old_summary` and all messages. If they do not fit into the
    /// summarizer's own window, it reads them piece by piece, each piece with the summary of the
    /// previous pieces.
    ///
    /// # Errors
    ///
    /// Returns the summarizer's error, an error if it times out or returns no text, and
    /// [`ErrorKind::Config`] if its window is so small that it would be called more than 512 times.
    pub(crate) async fn summarize(
        &self,
        old_summary: Option<String>,
        messages: &[Arc<Message>],
    ) -> Result<String> {
        let counter = &*self.request.counter;
        let room = self.room(old_summary.as_deref());
        let mut queue = self.pieces(messages, room).await?;
        let mut summary = old_summary;
        let mut requests = 0;
        while let Some(piece) = queue.pop_front() {
            requests += 1;
            if requests + queue.len() > MAX_PIECES {
                return Err(too_many_pieces(room));
            }

            match self.ask(&piece, summary.as_deref()).await {
                Ok(next) => summary = Some(next),
                Err(error) => {
                    let tokens = counter.count_text(&piece);
                    if error.kind() != ErrorKind::ContextTooLong || tokens <= SHORTEST_PIECE {
                        return Err(error);
                    }

                    // The count was too low: the piece is read in two halves.
                    let halves = pieces([piece], tokens.div_ceil(2), counter);
                    halves
                        .into_iter()
                        .rev()
                        .for_each(|half| queue.push_front(half));
                }
            }
        }

        summary.ok_or_else(no_text)
    }

    /// Merges two summaries into one. `first` is the summary of the earlier messages.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`summarize`](Self::summarize).
    #[cfg(feature = "gateway")]
    pub(crate) async fn merge(&self, first: &str, second: &str) -> Result<String> {
        self.ask(second, Some(first)).await
    }

    /// Returns the messages as the summarizer reads them, in pieces of about `max_tokens`. Long
    /// ones are written and counted on a thread for blocking work.
    async fn pieces(&self, messages: &[Arc<Message>], max_tokens: u64) -> Result<VecDeque<String>> {
        let max_chars = usize::try_from(self.window.saturating_mul(4)).unwrap_or(usize::MAX);
        let counter = self.request.counter.clone();
        if !is_large(messages) {
            return Ok(pieces(
                transcript(messages, max_chars),
                max_tokens,
                &*counter,
            ));
        }

        let messages = messages.to_vec();
        blocking_until_dropped(move |cancellation| {
            let entries =
                transcript(&messages, max_chars).take_while(|_| !cancellation.is_cancelled());
            Ok(pieces(entries, max_tokens, &*counter))
        })
        .await
    }

    /// Calls the summarizer once. Returns a summary of `old_summary` and the piece.
    async fn ask(&self, piece: &str, old_summary: Option<&str>) -> Result<String> {
        let max_words = self.max_words();
        let prompt = prompt::prompt(piece, old_summary, max_words);
        let request = ModelRequest::new(prompt).with_max_output_tokens(self.max_output_tokens());
        let response = timeout(self.timeout, self.request.call(&self.model, request))
            .await
            .map_err(|_| {
                let text = format!("the summarizer took longer than {:?}", self.timeout);
                Error::new(ErrorKind::Timeout, text)
            })??;
        if response.stop_reason == Some(StopReason::Refusal) {
            return Err(Error::new(ErrorKind::Refused, "the summarizer refused"));
        }

        let summary = prompt::summary(&response.text(), max_words);
        if summary.is_empty() {
            return Err(no_text());
        }

        Ok(summary)
    }

    /// Returns the maximum number of words of a summary: a tenth of the tokens of the smaller
    /// window, so that there is room for the next messages.
    fn max_words(&self) -> usize {
        let window = self.window.min(self.model.profile().context_window);
        usize::try_from(window / 10)
            .unwrap_or(MAX_WORDS)
            .clamp(10, MAX_WORDS)
    }

    fn max_output_tokens(&self) -> u32 {
        let profile = self.model.profile();
        let requested_tokens = self.max_words() as u64 * TOKENS_A_WORD;
        let limit = requested_tokens.min(profile.context_window / 4).max(1);
        u32::try_from(limit)
            .unwrap_or(u32::MAX)
            .min(profile.max_output_tokens)
    }

    /// Returns the number of tokens of conversation that fit into one prompt. Counts are estimates,
    /// so not all of the window is used.
    fn room(&self, old_summary: Option<&str>) -> u64 {
        let counter = &*self.request.counter;
        let prompt_tokens = counter.count_text(&prompt::prompt("", None, self.max_words()));
        let old_tokens = old_summary.map_or(0, |text| counter.count_text(text));
        // Later pieces are read with the summary of the previous pieces, at two tokens a word.
        let summary_tokens = old_tokens.max(self.max_words() as u64 * 2);
        let reserved_tokens = prompt_tokens
            .saturating_add(summary_tokens)
            .saturating_add(self.max_output_tokens().into());
        let remaining = self
            .model
            .profile()
            .context_window
            .saturating_sub(reserved_tokens);
        (remaining.saturating_mul(7) / 10).max(SHORTEST_PIECE)
    }
}

fn too_many_pieces(room: u64) -> Error {
    let text = format!(
        "the summarizer, which reads about {room} tokens at once, would be asked more than \
         {MAX_PIECES} times; choose a model with a larger context window"
    );
    Error::new(ErrorKind::Config, text)
}

fn no_text() -> Error {
    Error::new(ErrorKind::EmptyResponse, "the summarizer returned no text")
}
