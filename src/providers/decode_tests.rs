//! Answers that share the memory for what has not arrived whole.

use bytes::Bytes;
use futures::{StreamExt, stream};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelStream, ResponseLimits};
use crate::util::byte_pool::BytePool;

use super::decode::{Decoder, Framing, Reading, Wanted, decode};
use super::events::Events;
use super::http::Secrets;

/// Expects nothing.
struct Ignoring;

impl Decoder for Ignoring {
    fn event(&mut self, _: &str, _: &str, _: &mut Events) -> Result<()> {
        Ok(())
    }

    fn document(&mut self, _: &str, _: &mut Events) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self, _: &mut Events) -> Result<()> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// An answer that begins with `start`, and then stays open.
fn answer(start: String, framing: Framing, buffers: &BytePool) -> ModelStream {
    let body = stream::iter([Ok(Bytes::from(start))]).chain(stream::pending());
    let reading = Reading {
        provider: "test".into(),
        framing,
        wanted: Wanted::new(false, ResponseLimits::default(), Some(buffers.clone())),
        secrets: Secrets::default(),
    };
    decode(body.boxed(), Ignoring, reading)
}

async fn failure(answer: &mut ModelStream) -> Option<Error> {
    match futures::poll!(answer.next()) {
        std::task::Poll::Ready(Some(Err(error))) => Some(error),
        std::task::Poll::Ready(event) => panic!("{event:?}"),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn unfinished_events_of_all_answers_share_their_memory() {
    let text = "x".repeat(60);
    for (start, framing) in [
        (format!("data: {text}"), Framing::Sse),
        (format!("{{\"a\": \"{text}"), Framing::Sse),
        (text.clone(), Framing::Lines),
    ] {
        let buffers = BytePool::new(100);
        let mut first = answer(start.clone(), framing, &buffers);
        let mut second = answer(start.clone(), framing, &buffers);
        assert!(failure(&mut first).await.is_none());
        let error = failure(&mut second).await.expect("too much");
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
        assert!(error.text().contains("100 bytes together"), "{error}");

        drop((first, second));
        assert_eq!(buffers.used(), 0);
        let mut third = answer(start.clone(), framing, &buffers);
        assert!(failure(&mut third).await.is_none());
    }
}

#[tokio::test]
async fn finished_events_return_their_memory() {
    let buffers = BytePool::new(100);
    let event = format!("data: {}\n\n", "x".repeat(60));
    let mut first = answer(event.repeat(10), Framing::Sse, &buffers);
    assert!(failure(&mut first).await.is_none());
    assert_eq!(buffers.used(), 0);
}
