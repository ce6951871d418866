//! Answers that share the memory for what has not arrived whole, and bytes that are ignored.

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{StreamExt, poll, stream};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelEvent, ModelStream, ResponseLimits};
use crate::util::byte_pool::BytePool;

use super::decode::{DecodeOptions, Decoding, EventOptions, Framing, decode};
use super::decoder::Decoder;
use super::events::Events;
use super::http::Secrets;

/// Expects nothing.
struct Ignoring;

impl Decoder for Ignoring {
    fn frame(&mut self, _: &str, _: &str, _: &mut Events) -> Result<()> {
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
    let options = DecodeOptions {
        provider: "test".into(),
        framing,
        event_options: EventOptions::new(false, ResponseLimits::default(), Some(buffers.clone())),
        secrets: Secrets::default(),
    };
    decode(body.boxed(), Ignoring, options)
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

const MIB: usize = 1024 * 1024;

/// Returns the events of an answer of at most 10 bytes: a chunk as often as given, and the end.
async fn events_of(chunk: String, count: usize, framing: Framing) -> Vec<Result<ModelEvent>> {
    let chunks = vec![Bytes::from(chunk); count];
    let options = DecodeOptions {
        provider: "test".into(),
        framing,
        event_options: EventOptions::new(false, ResponseLimits::default().with_max_bytes(10), None),
        secrets: Secrets::default(),
    };
    let body = stream::iter(chunks.into_iter().map(Ok));
    decode(body.boxed(), Ignoring, options).collect().await
}

#[tokio::test]
async fn answer_with_too_many_ignored_bytes_ends_with_an_error() {
    let text = "x".repeat(MIB / 4 - 100);
    let ping = format!("event: ping\ndata: {text}\n\n").repeat(2);
    let comments = format!(": {text}\n\n").repeat(2);
    for (chunk, framing) in [
        (ping + &comments, Framing::Sse),
        (format!("{text}\n").repeat(4), Framing::Lines),
    ] {
        let within = MIB * 64 / chunk.len();
        assert!(events_of(chunk.clone(), within, framing).await.is_empty());
        let events = events_of(chunk, within + 1, framing).await;
        let [Err(error)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
        assert!(error.text().contains("67108864 bytes"), "{error}");
    }
}

/// Is complete after each event, and never done.
struct Complete;

impl Decoder for Complete {
    fn frame(&mut self, _: &str, _: &str, _: &mut Events) -> Result<()> {
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

    fn is_complete(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn complete_answer_sets_a_timer_only_if_no_event_follows() {
    let options = DecodeOptions {
        provider: "test".into(),
        framing: Framing::Sse,
        event_options: EventOptions::new(false, ResponseLimits::default(), None),
        secrets: Secrets::default(),
    };
    let (sender, body) = mpsc::unbounded();
    let mut answer = Decoding::new(body.boxed(), Complete, options);
    for _ in 0..10 {
        let chunk = Bytes::from_static(b"data: {}\n\n");
        sender.unbounded_send(Ok(chunk)).expect("a reader");
        assert!(poll!(answer.next()).is_pending());
        assert!(!answer.has_timer());
    }

    // Comments are no events.
    for _ in 0..2 {
        let chunk = Bytes::from_static(b": ping\n\n");
        sender.unbounded_send(Ok(chunk)).expect("a reader");
        assert!(poll!(answer.next()).is_pending());
    }
    assert!(answer.has_timer());
}
