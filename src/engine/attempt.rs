//! One attempt to stream a response.

use futures::StreamExt;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Part;
use crate::model::{
    ModelEvent, ModelResponse, ResponseFold, ResponseHead, ResponseMeter, StopReason, Taps,
    truncated_stream,
};
use crate::run::RunContext;
use crate::util::Pace;
use crate::util::byte_pool::PoolShare;
use crate::util::json_size::{escaped_len, escaped_prefix};
use crate::util::panic::{self, DropContained};
use crate::util::sync::lock;

use super::attempt_view::AttemptView;
use super::history_size::check_pool;
use super::response_redactor::redact_stream;
use super::sanitize;
use super::usage::ModelAttempt;

/// Streams one response: events are folded, passed through the hooks' taps and shown.
pub(super) async fn stream_response(attempt: ModelAttempt<'_>) -> Result<ModelResponse> {
    let ModelAttempt { cx, request, .. } = attempt;
    let is_shown = cx.settings().partial_messages && request.is_shown();
    let mut view = AttemptView::new(cx, request, is_shown);
    let mut record = AttemptRecord {
        attempt,
        fold: ResponseFold::new(),
        meter: ResponseMeter::new(request.response_limits()),
        share: cx.shared().tree.histories.share(),
        has_begun: false,
        has_events: false,
        unfinished_bytes: 0,
        is_done: false,
    };

    let result = stream(&mut record, &mut view).await;
    if result.is_ok() {
        view.release();
    }

    result
}

async fn stream(
    record: &mut AttemptRecord<'_>,
    view: &mut AttemptView<'_>,
) -> Result<ModelResponse> {
    // An interrupt of this attempt must not keep the response of an earlier one.
    record.attempt.cx.discard_partial();
    let mut taps = record.attempt.request.start_taps();
    let buffers = record.attempt.cx.shared().tree.event_buffers.clone();
    let request = record.attempt.request.clone().with_event_buffers(buffers);
    let opening = record.attempt.model.stream(request);
    let events = DropContained::new(opening, "a model").await?;
    let max_bytes = record.attempt.request.response_limits().max_bytes;
    let events = redact_stream(events, max_bytes);
    let mut events = DropContained::new(events, "a model's stream");
    let mut pace = Pace::default();
    let mut bytes = 0;

    // The event is passed on before the wait, so that a waiting run holds none.
    while record.handle(events.next().await, &mut taps, view)? {
        let previous = std::mem::replace(&mut bytes, record.meter.bytes());
        pace.step(bytes.saturating_sub(previous)).await;
        if record.attempt.cx.shared().is_stopped() {
            // The caller (`unless_stopped`) drops this future when it is polled next.
            yield_now().await;
        }

        if view.is_shown() && record.attempt.cx.shared().is_backed_up() {
            record.attempt.cx.shared().drained().await;
        }
    }

    if !record.fold.is_stopped() {
        // The partial response stays in the record, whose `Drop` keeps it.
        return Err(truncated_stream());
    }

    record.is_done = true;
    let mut response = std::mem::take(&mut record.fold).finish()?;
    if let Some(StopReason::MaxTokens | StopReason::ContextWindow) = response.stop_reason {
        response.cut_calls = record.meter.open_names();
    }
    Ok(response)
}

/// An attempt in progress. If it fails or is dropped, its `Drop` keeps the partial response, which
/// the user may have read already, and records the usage, which has to be paid for.
struct AttemptRecord<'a> {
    attempt: ModelAttempt<'a>,
    fold: ResponseFold,
    meter: ResponseMeter,
    /// The memory of the response so far.
    share: PoolShare,
    /// True once the reader and the hooks receive the response, from the first event on.
    has_begun: bool,
    /// True once the model that answers has sent an event; another one answers after a restart.
    has_events: bool,
    /// The number of bytes of thinking and of calls received that are not in `fold` yet.
    unfinished_bytes: usize,
    /// True once the stream has ended regularly, so that `Drop` has nothing to keep.
    is_done: bool,
}

impl AttemptRecord<'_> {
    /// Folds an event and passes it on. Returns `false` at the end of the stream.
    fn handle(
        &mut self,
        event: Option<Result<ModelEvent>>,
        taps: &mut Taps,
        view: &mut AttemptView<'_>,
    ) -> Result<bool> {
        let mut event = match event {
            Some(Ok(ModelEvent::Warning(text))) => {
                self.attempt.cx.warn_once(&text);
                return Ok(true);
            }
            Some(Ok(event)) => event,
            Some(Err(error)) => return Err(error),
            None => return Ok(false),
        };

        let mut limit_error = self.count(&mut event).err();

        // If a text exceeds a limit, the part that fits is still folded below; any other event is
        // dropped.
        let has_text =
            |event: &ModelEvent| matches!(event, ModelEvent::Text(text) if !text.is_empty());
        if let Some(error) = limit_error.take_if(|_| !has_text(&event)) {
            self.has_events = true;
            return Err(error);
        }

        if !sanitize::event(&mut event) {
            self.attempt.cx.warn_once(
                "a block of the answer was dropped because it is nested too deeply to be stored",
            );
            return Ok(true);
        }

        if !self.has_begun {
            self.begin(&event, taps, view);
        }

        match &event {
            ModelEvent::Restart => self.restart(taps, view)?,
            event => self.record_received(event),
        }

        let is_last = matches!(event, ModelEvent::Stop { .. });
        if view.is_shown() || !taps.is_empty() {
            self.fold.push_ref(&event);
            pass(taps, view, event);
        } else {
            self.fold.push(event);
        }

        match limit_error {
            Some(error) => Err(error),
            None => Ok(!is_last),
        }
    }

    /// Counts an event against the limits of the response and against the memory that all responses
    /// and histories of the run's tree share. A response to a hook is exempt from the second limit:
    /// it is not added to a history, and a summary may be needed to free memory.
    fn count(&mut self, event: &mut ModelEvent) -> Result<()> {
        self.meter.count(event)?;
        self.share.set(self.meter.memory());
        if !self.attempt.request.is_of_conversation() {
            return Ok(());
        }

        let pool = self.share.pool();
        let outcome = check_pool(pool, 0);
        if outcome.is_err()
            && let ModelEvent::Text(text) = event
        {
            let excess = pool.used().saturating_sub(pool.max_bytes());
            let fitting_len = escaped_len(text).saturating_sub(excess);
            text.truncate(escaped_prefix(text, fitting_len).len());
        }

        outcome
    }

    fn record_received(&mut self, event: &ModelEvent) {
        self.has_events = true;
        match event {
            ModelEvent::Thinking(piece) => self.unfinished_bytes += piece.len(),
            ModelEvent::ToolCallDelta { json, .. } => self.unfinished_bytes += json.len(),
            ModelEvent::Part(_) | ModelEvent::ToolCall(_) => self.unfinished_bytes = 0,
            _ => {}
        }
    }

    fn begin(&mut self, first: &ModelEvent, taps: &mut Taps, view: &mut AttemptView<'_>) {
        self.has_begun = true;
        // The partial response of an earlier attempt is superseded.
        self.attempt.cx.discard_partial();
        if self.attempt.request.is_of_conversation() {
            record_first_event(self.attempt.cx);
        }
        view.begin();
        if !matches!(first, ModelEvent::Start(_)) {
            let head = Box::<ResponseHead>::default();
            pass(taps, view, ModelEvent::Start(head));
        }
    }

    /// Restarts the record because another model is about to answer.
    fn restart(&mut self, taps: &mut Taps, view: &mut AttemptView<'_>) -> Result<()> {
        let is_used = self.record_usage();
        self.fold = ResponseFold::new();
        (self.has_events, self.unfinished_bytes) = (false, 0);
        *taps = self.attempt.request.start_taps();
        view.restart();
        if is_used && !self.attempt.reservation.fits() {
            let text = "the remaining budget does not cover a call of the fallback model; the \
                        interrupted answer of the model before it has used a part";
            // Attributed to the run, also when a hook makes the model call.
            return Err(Error::new(ErrorKind::BudgetExhausted, text).attributed());
        }
        Ok(())
    }

    /// Records the usage of an incomplete response; returns `false` when nothing was used.
    fn record_usage(&mut self) -> bool {
        self.has_events
            && self
                .attempt
                .record_partial_usage(self.fold.partial_mut(), self.unfinished_bytes)
    }
}

impl Drop for AttemptRecord<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }

        // Foreign code runs here, possibly while another panic unwinds.
        if let Err(text) = panic::catch(|| self.record_usage()) {
            tracing::warn!(
                "the usage of an interrupted answer was not recorded because its model panicked: {text}"
            );
        }

        if self.attempt.request.is_shown() && !self.fold.partial().content.is_empty() {
            let fold = std::mem::take(&mut self.fold);
            self.attempt.cx.keep_partial(fold.into_partial());
        }
    }
}

fn pass(taps: &mut Taps, view: &mut AttemptView<'_>, event: ModelEvent) {
    if taps.is_empty() {
        view.show(event);
    } else {
        taps.feed(event, &mut |event| view.show(event));
    }
}

fn record_first_event(cx: &RunContext) {
    let mut stats = lock(&cx.shared().stats);
    if stats.time_to_first_token.is_none() {
        stats.time_to_first_token = Some(Instant::now() - cx.started());
    }
}

/// Returns `true` if a response has neither text nor a call.
pub(super) fn is_empty(response: &ModelResponse) -> bool {
    response.content.parts().iter().all(|part| match part {
        Part::Text(text) => text.trim_start().is_empty(),
        Part::ToolCall(_) => false,
        _ => true,
    })
}

/// Returns the error of a model that returned an empty response twice.
pub(super) fn empty_response(model: &str) -> Error {
    Error::new(
        ErrorKind::EmptyResponse,
        format!(
            "the model {model:?} returned an empty answer twice; send the input again, or use \
             another model"
        ),
    )
}
