//! An answer's body, guarded by an idle timeout.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::error::{Error, ErrorKind, Result};
use crate::util::time::later;

use super::failure;
use super::secrets::Secrets;

/// Bytes as they come.
pub(crate) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

pin_project! {
    /// A body that fails when nothing arrives for longer than its idle timeout.
    ///
    /// Any byte counts, comments and pings too. The timer runs only while the body has nothing to
    /// give, so chunks that are there already cost nothing.
    pub(crate) struct Body<S> {
        #[pin]
        inner: S,
        #[pin]
        timer: Option<Sleep>,
        waiting: bool,
        idle: Duration,
        secrets: Secrets,
    }
}

impl<S> Body<S> {
    pub(super) fn new(inner: S, idle: Duration, secrets: Secrets) -> Self {
        Self {
            inner,
            timer: None,
            waiting: false,
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
            *this.waiting = false;
            let secrets = &*this.secrets;
            return Poll::Ready(
                chunk.map(|chunk| chunk.map_err(|error| failure::reading(error, secrets))),
            );
        }

        if !*this.waiting {
            *this.waiting = true;
            match this.timer.as_mut().as_pin_mut() {
                Some(timer) => timer.reset(later(Instant::now(), *this.idle)),
                None => this.timer.set(Some(tokio::time::sleep(*this.idle))),
            }
        }

        match this.timer.as_pin_mut().map(|timer| timer.poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Some(Err(idle_error(*this.idle)))),
            _ => Poll::Pending,
        }
    }
}

pub(super) fn idle_error(idle: Duration) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("nothing arrived for {idle:?}, the idle timeout"),
    )
}
