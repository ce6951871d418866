//! The streams of responses.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use tokio::time::timeout;

use super::runs::Reader;
use super::stream::StreamFormat;

/// A comment, which readers ignore: proxies close connections that are idle for long.
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The header with the id of the thread, which a client needs to stop the run or to reconnect.
pub(super) const THREAD_ID: HeaderName = HeaderName::from_static("x-thread-id");

/// Returns the response with the stream of a run.
pub(super) fn of_run(reader: Reader, format: StreamFormat, keep_alive: Duration) -> Response {
    // Ids chosen by clients are checked, and ids of the server are hexadecimal.
    let thread_id = HeaderValue::from_str(reader.thread_id());
    let pieces = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((bytes, reader))
    });
    let mut response = of_pieces(pieces, format, keep_alive);
    if let Ok(thread_id) = thread_id {
        response.headers_mut().insert(THREAD_ID, thread_id);
    }
    response
}

/// Returns the response with the encoded pieces of a stream, which may pause for long.
pub(super) fn of_pieces(
    pieces: impl Stream<Item = Bytes> + Send + 'static,
    format: StreamFormat,
    keep_alive: Duration,
) -> Response {
    match format {
        // JSON lines have no comments.
        StreamFormat::Ndjson => response(format, pieces),
        _ => response(format, with_comments(pieces, keep_alive)),
    }
}

/// Returns the response with a stream of encoded server-sent events.
pub(super) fn of_events(
    pieces: impl Stream<Item = Bytes> + Send + 'static,
    keep_alive: Duration,
) -> Response {
    of_pieces(pieces, StreamFormat::Events, keep_alive)
}

/// Returns the pieces, with a comment each time that `keep_alive` passes without one. A comment
/// does not restart the wait for a piece, so a stream that waits for its turn keeps it.
fn with_comments(
    pieces: impl Stream<Item = Bytes> + Send + 'static,
    keep_alive: Duration,
) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold(Box::pin(pieces), move |mut pieces| async move {
        match timeout(keep_alive, pieces.next()).await {
            Ok(bytes) => bytes.map(|bytes| (bytes, pieces)),
            Err(_) => Some((COMMENT, pieces)),
        }
    })
}

/// Returns the response with a stream of a format.
pub(super) fn response(
    format: StreamFormat,
    pieces: impl Stream<Item = Bytes> + Send + 'static,
) -> Response {
    let body = Body::from_stream(pieces.map(Ok::<_, Infallible>));
    let mut headers = HeaderMap::new();
    let content_type = HeaderValue::from_static(format.content_type());
    headers.insert(header::CONTENT_TYPE, content_type);
    for (name, value) in format.headers() {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
    (StatusCode::OK, headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stream_that_waits_for_its_turn_keeps_it_across_comments() {
        let space = Arc::new(Semaphore::new(0));
        let wait = |space: Arc<Semaphore>, bytes: &'static [u8]| {
            let wait = async move {
                space.acquire().await.unwrap().forget();
                Bytes::from_static(bytes)
            };
            wait.into_stream()
        };
        let first = wait(space.clone(), b"first");
        let mut first = Box::pin(with_comments(first, Duration::from_secs(30)));
        assert_eq!(first.next().await, Some(COMMENT));

        let mut second = Box::pin(wait(space.clone(), b"second"));
        assert_eq!(second.next().now_or_never(), None);
        assert_eq!(first.next().await, Some(COMMENT));
        space.add_permits(1);
        assert_eq!(second.next().now_or_never(), None);
        assert_eq!(first.next().await, Some(Bytes::from_static(b"first")));
    }
}
