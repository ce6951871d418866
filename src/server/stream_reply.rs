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
    // JSON lines have no comments.
    let comment = match format {
        StreamFormat::Ndjson => None,
        _ => Some(COMMENT),
    };
    let pieces = stream::unfold(reader, move |mut reader| {
        let comment = comment.clone();
        async move {
            loop {
                match timeout(keep_alive, reader.next()).await {
                    Ok(bytes) => return bytes.map(|bytes| (bytes, reader)),
                    Err(_) if comment.is_none() => {}
                    Err(_) => return comment.map(|bytes| (bytes, reader)),
                }
            }
        }
    });
    let mut response = response(format, pieces);
    if let Ok(thread_id) = thread_id {
        response.headers_mut().insert(THREAD_ID, thread_id);
    }
    response
}

/// Returns the response with a stream of encoded server-sent events.
pub(super) fn of_events(
    pieces: impl Stream<Item = Bytes> + Send + 'static,
    keep_alive: Duration,
) -> Response {
    let pieces = stream::unfold(Box::pin(pieces), move |mut pieces| async move {
        match timeout(keep_alive, pieces.next()).await {
            Ok(bytes) => bytes.map(|bytes| (bytes, pieces)),
            Err(_) => Some((COMMENT, pieces)),
        }
    });
    response(StreamFormat::Events, pieces)
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
