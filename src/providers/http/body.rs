//! A reply's body, guarded by an idle timeout.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::error::{Error, ErrorKind, Result};
use crate::util::time::later;

use super::failure;
use super::secrets::Secrets;

/// The bytes of a body as they arrive.
pub(crate) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// The timer of a request and of the body of its reply.
pub(super) type IdleTimer = Pin<Box<Sleep>>;

pin_project! {
    /// A body that fails if no byte arrives for longer than its idle timeout.
    ///
    /// Bytes of comments and pings count. The timer is set again only when it fires, because most
    /// bodies end long before.
    pub(crate) struct Body<S> {
        #[pin]
        inner: S,
        timer: IdleTimer,
        // The task that the timer wakes.
        waker: Option<Waker>,
        // The time since when nothing has arrived; `None` after a chunk.
        idle_since: Option<Instant>,
        idle: Duration,
        secrets: Secrets,
    }
}

impl<S> Body<S> {
    /// Creates a body. `timer` fires at the end of the idle timeout or before.
    pub(super) fn new(inner: S, timer: IdleTimer, idle: Duration, secrets: Secrets) -> Self {
        Self {
            inner,
            timer,
            waker: None,
            idle_since: None,
            idle,
            secrets,
        }
    }
}

impl<S: Stream<Item = reqwest::Result<Bytes>>> Stream for Body<S> {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        if let Poll::Ready(chunk) = this.inner.as_mut().poll_next(cx) {
            *this.idle_since = None;
            let secrets = &*this.secrets;
            return Poll::Ready(
                chunk.map(|chunk| chunk.map_err(|error| failure::reading(error, secrets))),
            );
        }

        let now = Instant::now();
        let deadline = later(*this.idle_since.get_or_insert(now), *this.idle);
        let is_known = |waker: &Waker| waker.will_wake(cx.waker());
        let wakes_task = this.waker.as_ref().is_some_and(is_known);
        if wakes_task && this.timer.deadline() > now {
            return Poll::Pending;
        }

        *this.waker = Some(cx.waker().clone());
        while this.timer.as_mut().poll(cx).is_ready() {
            if deadline <= Instant::now() {
                return Poll::Ready(Some(Err(idle_error(*this.idle))));
            }
            this.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

pub(super) fn idle_error(idle: Duration) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("nothing arrived for {idle:?}, the idle timeout"),
    )
}
