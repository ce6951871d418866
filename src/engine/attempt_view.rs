//! The output of an attempt to stream a response, as readers see it.

use uuid::Uuid;

use crate::model::{ModelEvent, ModelRequest};
use crate::run::RunContext;
use crate::sdk::{ApiStreamEvent, PartialEvent, SdkMessage, SystemKind};

use super::partial_messages::{Partials, join};

/// Emits the events of an attempt, after the hooks' taps have seen them.
pub(super) struct AttemptView<'a> {
    /// `None` when partial messages are off.
    partials: Option<Partials>,
    output: Output<'a>,
}

/// The messages of an attempt: emitted at once, or buffered until the attempt succeeds.
struct Output<'a> {
    cx: &'a RunContext,
    /// The number of the attempt in its turn.
    number: u32,
    /// The messages that are emitted when the attempt succeeds; `None` if each is emitted at once.
    held: Option<Vec<SdkMessage>>,
    /// The id of the attempt's first message.
    first: Option<Uuid>,
}

impl<'a> AttemptView<'a> {
    pub(super) fn new(cx: &'a RunContext, request: &ModelRequest, is_shown: bool) -> Self {
        Self {
            partials: is_shown.then(Partials::new),
            output: Output {
                cx,
                number: 0,
                held: request.is_held().then(Vec::new),
                first: None,
            },
        }
    }

    /// Begins an attempt: the output of an earlier attempt is superseded from here on.
    pub(super) fn begin(&mut self) {
        if self.partials.is_some() {
            self.output.begin();
        }
    }

    /// Handles a restart by the model itself: its output so far is superseded.
    pub(super) fn restart(&mut self) {
        if let Some(messages) = &mut self.output.held {
            messages.clear();
        }
        self.output.first = None;
        self.begin();
    }

    /// Emits or buffers the messages of an event, if partial messages are on.
    pub(super) fn show(&mut self, event: ModelEvent) {
        let Self { partials, output } = self;
        if let Some(partials) = partials {
            partials.push(event, &mut |event| output.send_partial(event));
        }
    }

    /// Returns `true` if the pieces of the response are emitted.
    pub(super) fn is_shown(&self) -> bool {
        self.partials.is_some()
    }

    /// Emits the buffered messages.
    pub(super) fn release(&mut self) {
        self.output.release();
    }
}

impl Output<'_> {
    /// Numbers the attempt, and names the attempt that it supersedes.
    fn begin(&mut self) {
        self.number = self.cx.next_attempt();
        if let Some(first) = self.cx.shown_attempt() {
            self.send(self.cx.system_message(SystemKind::StreamRestart {
                attempt: self.number,
                supersedes: vec![first],
            }));
        }
    }

    fn send_partial(&mut self, event: ApiStreamEvent) {
        let envelope = self.cx.shared().envelope();
        self.record_shown(envelope.uuid);
        let event = PartialEvent::new(envelope, event).with_attempt(self.number);
        self.send(SdkMessage::Partial(event));
    }

    #[inline(always)] // A call would copy the message once more.
    fn send(&mut self, message: SdkMessage) {
        match &mut self.held {
            Some(held) => hold(held, message),
            None => self.cx.shared().push(message),
        }
    }

    /// Records the first message of an attempt; a later attempt names it as superseded.
    fn record_shown(&mut self, id: Uuid) {
        if self.first.is_none() {
            self.first = Some(id);
            if self.held.is_none() {
                self.cx.set_shown_attempt(id);
            }
        }
    }

    fn release(&mut self) {
        let Some(messages) = self.held.take() else {
            return;
        };
        for message in messages {
            self.cx.shared().push(message);
        }
        if let Some(first) = self.first {
            self.cx.set_shown_attempt(first);
        }
    }
}

/// Buffers a message. Adjacent deltas of a block are merged: separately they would take a hundred
/// times the memory of the response.
fn hold(held: &mut Vec<SdkMessage>, message: SdkMessage) {
    match (held.last_mut(), message) {
        (Some(SdkMessage::Partial(last)), SdkMessage::Partial(next)) => {
            if let Some(event) = join(&mut last.event, next.event) {
                held.push(SdkMessage::Partial(PartialEvent { event, ..next }));
            }
        }
        (_, message) => held.push(message),
    }
}
