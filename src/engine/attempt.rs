//! One attempt to stream an answer.

use futures::StreamExt;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Part;
use crate::model::{
    Model, ModelEvent, ModelRequest, ModelResponse, ResponseFold, ResponseHead, ResponseMeter, Taps,
};
use crate::run::{Reservation, RunContext, Stop};
use crate::util::Pace;
use crate::util::panic::{self, DropContained};
use crate::util::sync::lock;

use super::answer_redactor::redacting;
use super::attempt_view::AttemptView;
use super::sanitize;
use super::usage::record_partial_usage;

/// The part of an attempt that is kept when the attempt fails or is dropped half-way: an interrupt
/// must not lose the text the user was reading, and the tokens used are paid for in any case.
struct AttemptRecord<'a> {
    cx: &'a RunContext,
    model: &'a dyn Model,
    request: &'a ModelRequest,
    reservation: &'a Reservation,
    fold: ResponseFold,
    meter: ResponseMeter,
    begun: bool,
    /// True once the model of the current attempt has sent an event.
    heard: bool,
    /// The number of bytes of thinking and of calls received that are not in `fold` yet.
    unfinished: usize,
    done: bool,
}

impl AttemptRecord<'_> {
    /// Folds an event and passes it on. Returns `false` at the end of the stream.
    fn take(
        &mut self,
        event: Option<Result<ModelEvent>>,
        taps: &mut Taps,
        view: &mut AttemptView<'_>,
    ) -> Result<bool> {
        let Some(mut event) = event.transpose()? else {
            return Ok(false);
        };
        let outcome = self.meter.count(&mut event);
        if outcome.is_err() && !matches!(&event, ModelEvent::Text(text) if !text.is_empty()) {
            self.heard = true;
            return outcome.map(|()| false);
        }
        let Some(event) = sanitize::event(event) else {
            self.cx.warn(
                "a block of the answer was dropped because it is nested too deeply to be stored",
            );
            return Ok(true);
        };
        if !self.begun {
            self.begin(&event, taps, view);
        }
        match &event {
            ModelEvent::Restart => self.restart(taps, view)?,
            event => self.hear(event),
        }
        let is_last = matches!(event, ModelEvent::Stop { .. });
        if view.is_shown() || !taps.is_empty() {
            self.fold.note(&event);
            pass(taps, view, event);
        } else {
            self.fold.push(event);
        }
        outcome.map(|()| !is_last)
    }

    fn hear(&mut self, event: &ModelEvent) {
        self.heard = true;
        match event {
            ModelEvent::Thinking(piece) => self.unfinished += piece.len(),
            ModelEvent::ToolCallDelta { json, .. } => self.unfinished += json.len(),
            ModelEvent::Part(_) | ModelEvent::ToolCall(_) => self.unfinished = 0,
            _ => {}
        }
    }

    fn begin(&mut self, first: &ModelEvent, taps: &mut Taps, view: &mut AttemptView<'_>) {
        self.begun = true;
        // What an earlier attempt left is void from here on.
        self.cx.take_partial();
        if self.request.is_visible() {
            note_first_event(self.cx);
        }
        view.begin();
        if !matches!(first, ModelEvent::Start(_)) {
            let head = Box::<ResponseHead>::default();
            pass(taps, view, ModelEvent::Start(head));
        }
    }

    /// Another model is about to be asked instead.
    fn restart(&mut self, taps: &mut Taps, view: &mut AttemptView<'_>) -> Result<()> {
        let is_used = self.record_usage();
        self.fold = ResponseFold::new();
        (self.heard, self.unfinished) = (false, 0);
        *taps = self.request.start_taps();
        view.restart();
        if is_used && !self.reservation.fits() {
            let text = "the remaining budget does not cover a call of the fallback model; the \
                        interrupted answer of the model before it has used a part";
            // The run's own limit, also in a hook's call of a model.
            return Err(Error::new(ErrorKind::BudgetExhausted, text).attributed());
        }
        Ok(())
    }

    /// Records the usage of an incomplete answer; returns `false` when nothing was used.
    fn record_usage(&mut self) -> bool {
        self.heard
            && record_partial_usage(
                self.cx,
                self.model,
                self.request,
                self.fold.partial_mut(),
                self.unfinished,
                self.reservation,
            )
    }
}

impl Drop for AttemptRecord<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // The model and its like are foreign, and this may be on the way of another panic.
        if let Err(text) = panic::contained(|| self.record_usage()) {
            tracing::warn!(
                "the usage of an interrupted answer was not recorded because its model panicked: {text}"
            );
        }
        if self.request.is_visible() && !self.fold.partial().content.is_empty() {
            let fold = std::mem::take(&mut self.fold);
            self.cx.put_partial(fold.into_partial());
        }
    }
}

/// Streams one answer: events are folded, passed through the hooks' taps and shown.
pub(super) async fn attempt(
    cx: &RunContext,
    model: &dyn Model,
    request: &ModelRequest,
    reservation: &Reservation,
    show: bool,
) -> Result<ModelResponse> {
    let mut view = AttemptView::new(cx, request, show && request.is_visible());
    let mut record = AttemptRecord {
        cx,
        model,
        request,
        reservation,
        fold: ResponseFold::new(),
        meter: ResponseMeter::new(request.response_limits()),
        begun: false,
        heard: false,
        unfinished: 0,
        done: false,
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
    // What an earlier attempt left is not what an interrupt of this one should keep.
    drop(record.cx.take_partial());
    let mut taps = record.request.start_taps();
    let events = record.model.stream(record.request.clone()).await?;
    let mut events = DropContained::new(redacting(events), "a model's stream");
    let mut pace = Pace::default();
    let mut bytes = 0;
    // No event is held while the reader catches up: there may be many runs that wait.
    while record.take(events.next().await, &mut taps, view)? {
        let previous = std::mem::replace(&mut bytes, record.meter.bytes());
        pace.step(bytes.saturating_sub(previous)).await;
        if record.cx.shared().stop() != Stop::None {
            // Who awaits this sees to the stop when it is polled next.
            yield_now().await;
        }
        if view.is_shown() && record.cx.shared().is_backed_up() {
            record.cx.shared().drained().await;
        }
    }
    if !record.fold.is_stopped() {
        // The broken fold stays where it is kept.
        return ResponseFold::new().finish();
    }
    record.done = true;
    std::mem::take(&mut record.fold).finish()
}

fn pass(taps: &mut Taps, view: &mut AttemptView<'_>, event: ModelEvent) {
    if taps.is_empty() {
        view.show(event);
    } else {
        taps.feed(event, &mut |event| view.show(event));
    }
}

fn note_first_event(cx: &RunContext) {
    let mut stats = lock(&cx.shared().stats);
    if stats.time_to_first_token.is_none() {
        stats.time_to_first_token = Some(Instant::now() - cx.started());
    }
}

/// Returns `true` if an answer has neither text nor a call.
pub(super) fn is_empty(response: &ModelResponse) -> bool {
    response.content.parts().iter().all(|part| match part {
        Part::Text(text) => text.trim_start().is_empty(),
        Part::ToolCall(_) => false,
        _ => true,
    })
}

/// The error of a model that returned an empty answer twice.
pub(super) fn empty_response(model: &str) -> Error {
    Error::new(
        ErrorKind::EmptyResponse,
        format!("the model {model:?} answered with neither text nor a tool call, twice"),
    )
}
