//! Closures that watch and change a model's stream on its way out.

use std::sync::Arc;

use super::event::ModelEvent;

/// The next receiver of an event; see
/// [`ModelRequest::pipe_events`](super::ModelRequest::pipe_events).
pub struct EventSink<'a>(&'a mut dyn FnMut(ModelEvent));

impl EventSink<'_> {
    /// Passes `event` on.
    pub fn push(&mut self, event: ModelEvent) {
        (self.0)(event);
    }
}

impl std::fmt::Debug for EventSink<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSink").finish_non_exhaustive()
    }
}

type Mapper = Box<dyn FnMut(ModelEvent, &mut dyn FnMut(ModelEvent)) + Send>;

/// A closure kept as a prototype: every attempt starts with a fresh clone of it.
pub(super) type Tap = Arc<dyn Fn() -> Mapper + Send + Sync>;

pub(super) fn mapping<F, I>(prototype: F) -> Tap
where
    F: FnMut(ModelEvent) -> I + Clone + Send + Sync + 'static,
    I: IntoIterator<Item = ModelEvent>,
{
    Arc::new(move || {
        let mut map = prototype.clone();
        Box::new(move |event, out| map(event).into_iter().for_each(out))
    })
}

pub(super) fn piping<F>(prototype: F) -> Tap
where
    F: FnMut(ModelEvent, &mut EventSink<'_>) + Clone + Send + Sync + 'static,
{
    Arc::new(move || {
        let mut pipe = prototype.clone();
        Box::new(move |event, out| pipe(event, &mut EventSink(out)))
    })
}

/// The mappers of one attempt, outermost hook first.
pub(crate) struct Taps(Vec<Mapper>);

impl Taps {
    pub(super) fn start(taps: &[Tap]) -> Self {
        Self(taps.iter().map(|tap| tap()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends `event` through all mappers. The innermost sees it first, so with the hooks `[A, B]`
    /// an event `x` leaves as `A(B(x))`.
    pub(crate) fn feed(&mut self, event: ModelEvent, out: &mut dyn FnMut(ModelEvent)) {
        fn go(taps: &mut [Mapper], event: ModelEvent, out: &mut dyn FnMut(ModelEvent)) {
            match taps.split_last_mut() {
                None => out(event),
                Some((innermost, outer)) => innermost(event, &mut |event| go(outer, event, out)),
            }
        }
        go(&mut self.0, event, out);
    }
}
