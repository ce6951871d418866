//! One attempt to stream an answer.

use futures::StreamExt;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Model, ModelCard, ModelEvent, ModelRequest, ModelResponse, ResponseFold, ResponseHead, Taps,
};
use crate::run::RunContext;
use crate::sdk::{ApiStreamEvent, PartialEvent, SdkMessage, SystemKind};
use crate::util::sync::lock;

use super::booking::book_answer;
use super::partials::Partials;

/// What of an attempt is kept when it fails or is dropped half-way: an interrupt must not lose the
/// text the user was reading, and what was used is paid for all the same.
struct Kept<'a> {
    cx: &'a RunContext,
    card: &'a ModelCard,
    fold: ResponseFold,
    done: bool,
    visible: bool,
}

impl Kept<'_> {
    /// Books what was used for an answer that will never be whole.
    fn book(&self) {
        let partial = self.fold.partial();
        if !partial.usage.is_zero() {
            book_answer(self.cx, self.card, partial);
        }
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.book();
        if self.visible && !self.fold.partial().content.is_empty() {
            self.cx.put_partial(self.fold.partial().clone());
        }
    }
}

/// Where the events of an attempt go after the hooks' taps.
struct Screen<'a> {
    cx: &'a RunContext,
    /// `None` when nobody looks.
    partials: Option<Partials>,
    number: u32,
    held: Option<Vec<SdkMessage>>,
    first: Option<Uuid>,
}

impl<'a> Screen<'a> {
    fn new(cx: &'a RunContext, request: &ModelRequest, shown: bool) -> Self {
        Self {
            cx,
            partials: shown.then(Partials::new),
            number: 0,
            held: request.is_held().then(Vec::new),
            first: None,
        }
    }

    /// Begins an attempt: what an earlier one has shown is void from here on.
    fn begin(&mut self) {
        if self.partials.is_none() {
            return;
        }
        self.number = self.cx.next_attempt();
        if let Some(first) = self.cx.shown_attempt() {
            self.send(self.cx.system_message(SystemKind::StreamRestart {
                attempt: self.number,
                supersedes: vec![first],
            }));
        }
    }

    /// The model itself begins again: what it has shown so far is void.
    fn restart(&mut self) {
        if let Some(held) = &mut self.held {
            held.clear();
        }
        self.first = None;
        self.begin();
    }

    fn show(&mut self, event: ModelEvent) {
        let Some(mut partials) = self.partials.take() else {
            return;
        };
        partials.push(event, &mut |event| self.send_partial(event));
        self.partials = Some(partials);
    }

    fn send_partial(&mut self, event: ApiStreamEvent) {
        let envelope = self.cx.shared().envelope();
        self.note_shown(envelope.uuid);
        let event = PartialEvent::new(envelope, event).with_attempt(self.number);
        self.send(SdkMessage::StreamEvent(event));
    }

    fn send(&mut self, message: SdkMessage) {
        match &mut self.held {
            Some(held) => held.push(message),
            None => self.cx.shared().push(message),
        }
    }

    /// The first message of an attempt is what a later one makes void.
    fn note_shown(&mut self, id: Uuid) {
        if self.first.is_none() {
            self.first = Some(id);
            if self.held.is_none() {
                self.cx.set_shown_attempt(id);
            }
        }
    }

    /// Shows what was held back.
    fn release(&mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        for message in held {
            self.cx.shared().push(message);
        }
        if let Some(first) = self.first {
            self.cx.set_shown_attempt(first);
        }
    }
}

/// Streams one answer: events are folded, passed through the hooks' taps and shown.
pub(super) async fn attempt(
    cx: &RunContext,
    model: &dyn Model,
    card: &ModelCard,
    request: &ModelRequest,
    show: bool,
) -> Result<ModelResponse> {
    let shown = show && request.is_visible();
    let mut screen = Screen::new(cx, request, shown);
    let result = stream(cx, model, card, request, &mut screen).await;
    if result.is_ok() {
        screen.release();
    }
    result
}

async fn stream(
    cx: &RunContext,
    model: &dyn Model,
    card: &ModelCard,
    request: &ModelRequest,
    screen: &mut Screen<'_>,
) -> Result<ModelResponse> {
    // What an earlier attempt left is not what an interrupt of this one should keep.
    drop(cx.take_partial());
    let mut taps = request.start_taps();
    let mut kept = Kept {
        cx,
        card,
        fold: ResponseFold::new(),
        done: false,
        visible: request.is_visible(),
    };
    let mut events = model.stream(request.clone()).await?;
    let mut begun = false;
    while let Some(event) = events.next().await {
        let event = event?;
        if !begun {
            begun = true;
            // What an earlier attempt left is void from here on.
            cx.take_partial();
            if request.is_visible() {
                note_first_event(cx);
            }
            screen.begin();
            if !matches!(event, ModelEvent::Start(_)) {
                pass(
                    &mut taps,
                    screen,
                    ModelEvent::Start(Box::<ResponseHead>::default()),
                );
            }
        }
        if matches!(event, ModelEvent::Restart) {
            kept.book();
            taps = request.start_taps();
            screen.restart();
        }
        let is_last = matches!(event, ModelEvent::Stop { .. });
        if screen.partials.is_some() || !taps.is_empty() {
            kept.fold.note(&event);
            pass(&mut taps, screen, event);
        } else {
            kept.fold.push(event);
        }
        if is_last {
            break;
        }
        if screen.partials.is_some() && cx.shared().is_backed_up() {
            cx.shared().drained().await;
        }
    }
    if !kept.fold.is_stopped() {
        // The broken fold stays where it is kept.
        return ResponseFold::new().finish();
    }
    kept.done = true;
    std::mem::take(&mut kept.fold).finish()
}

fn pass(taps: &mut Taps, screen: &mut Screen<'_>, event: ModelEvent) {
    if taps.is_empty() {
        screen.show(event);
    } else {
        taps.feed(event, &mut |event| screen.show(event));
    }
}

fn note_first_event(cx: &RunContext) {
    let mut stats = lock(&cx.shared().stats);
    if stats.time_to_first_token.is_none() {
        stats.time_to_first_token = Some(Instant::now() - cx.started());
    }
}

/// Whether an answer is no answer: neither text nor a call.
pub(super) fn is_empty(response: &ModelResponse) -> bool {
    response.tool_calls().next().is_none() && response.text().trim().is_empty()
}

/// The error of a model that said nothing twice.
pub(super) fn empty_response(model: &str) -> Error {
    Error::new(
        ErrorKind::EmptyResponse,
        format!("the model {model:?} answered with neither text nor a tool call, twice"),
    )
}
