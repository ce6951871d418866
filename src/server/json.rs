//! The bodies of requests.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use crate::tool::near_names;
use crate::util::blocking::blocking_if_large;
use crate::util::text::quoted;
use crate::util::time::later;

use super::app::App;
use super::error::ApiError;
use super::runs::{MAX_WAIT, Space};
use super::uploads::UploadPermit;
use super::users::Caller;

/// The time for a body, in addition to the time for its bytes.
const BODY_TIME: Duration = Duration::from_secs(60);

/// The minimum rate of a body after [`BODY_TIME`], in bytes per second.
const MIN_BYTES_PER_SECOND: usize = 64 * 1024;

/// A JSON body within the size limit of bodies.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

/// A JSON body that the handler parses: its type depends on other parts of the request, or its
/// space is held until a run has the value.
#[derive(Debug)]
pub(super) struct RawBody {
    bytes: Bytes,
    /// The memory that the body takes of what all bodies of the user may take.
    space: Space,
}

impl RawBody {
    /// Returns the value, and the space to hold until a run has it.
    pub(super) fn parse<T: DeserializeOwned>(self, app: &App) -> Result<(T, Space), ApiError> {
        let value = parse(&self.bytes, app.limits.json_depth)?;
        Ok((value, self.space))
    }
}

/// A JSON body within the limits on the size and the number of uploads. The upload is in progress
/// until the permit is dropped.
#[derive(Debug)]
pub(super) struct UploadBody<T>(pub(super) T, pub(super) UploadPermit);

/// An optional JSON body.
#[derive(Debug)]
pub(super) struct OptionalBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        check_type(request.headers())?;
        let (bytes, _space) = read_small_body(request, app).await?;
        parse(&bytes, app.limits.json_depth).map(Self)
    }
}

impl FromRequest<App> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        check_type(request.headers())?;
        let (bytes, space) = read_small_body(request, app).await?;
        Ok(Self { bytes, space })
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for UploadBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        check_type(request.headers())?;
        check_len(request.headers(), app.limits.upload_bytes)?;
        let permit = app.uploads.begin(caller_of(&request)?)?;
        let bytes = read_body(request, app.limits.upload_bytes, app.limits.header_timeout).await?;
        let value = parse_large(bytes, app.limits.json_depth).await?;
        Ok(Self(value, permit))
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let type_check = check_type(request.headers());
        let (bytes, _space) = read_small_body(request, app).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        type_check?;
        parse(&bytes, app.limits.json_depth).map(Self)
    }
}

/// Checks that the body is declared as JSON, which a page of another site cannot send without
/// permission.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok());
    let essence = value
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!("the content type is {essence:?}; send application/json"),
    ))
}

fn caller_of(request: &Request) -> Result<&Caller, ApiError> {
    // Inserted by the guard of all routes.
    let caller = request.extensions().get::<Caller>();
    caller.ok_or_else(ApiError::internal)
}

/// Reads a body that is no upload, once the other bodies of the user leave space for it.
async fn read_small_body(request: Request, app: &App) -> Result<(Bytes, Space), ApiError> {
    let limit = app.limits.body_bytes;
    check_len(request.headers(), limit)?;
    let max_len = request.body().size_hint().upper();
    let max_len = max_len.map_or(limit, |len| {
        usize::try_from(len).unwrap_or(limit).min(limit)
    });
    let quota = app.runs.quota_of(caller_of(&request)?.id());
    let space = timeout(MAX_WAIT, quota.acquire_body_space(max_len));
    let space = space.await.map_err(|_| {
        ApiError::too_many(
            "the bodies of your other requests take the memory that they may use; finish them and \
             try again",
        )
    })?;
    let bytes = read_body(request, limit, app.limits.header_timeout).await?;
    Ok((bytes, space))
}

/// Checks the declared length of a body, before the body waits for anything.
fn check_len(headers: &HeaderMap, limit: usize) -> Result<(), ApiError> {
    let len = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match len {
        Some(len) if len > limit as u64 => Err(too_large(limit)),
        _ => Ok(()),
    }
}

/// Reads a body of at most `limit` bytes. Each piece must arrive within `time`, and the whole
/// within 60 s plus the time that it takes at 64 KiB/s.
async fn read_body(request: Request, limit: usize, time: Duration) -> Result<Bytes, ApiError> {
    let mut stream = Body::into_data_stream(request.into_body());
    let mut body = Vec::new();
    let begin = Instant::now();
    loop {
        let bytes_time = Duration::from_secs((body.len() / MIN_BYTES_PER_SECOND) as u64);
        let deadline = begin + BODY_TIME + bytes_time;
        let piece_deadline = later(Instant::now(), time);
        let next_piece = timeout_at(deadline.min(piece_deadline), stream.next())
            .await
            .map_err(|_| {
                let text = if piece_deadline <= deadline {
                    format!("no part of the body arrived within {} s", time.as_secs())
                } else {
                    "the body arrived too slowly; send it faster, or a smaller one".to_owned()
                };
                ApiError::new(StatusCode::REQUEST_TIMEOUT, text)
            })?;
        let Some(piece) = next_piece else {
            return Ok(body.into());
        };
        let piece = piece.map_err(|error| {
            ApiError::bad_request(format!("the body could not be read: {error}"))
        })?;
        if body.len() + piece.len() > limit {
            return Err(too_large(limit));
        }
        body.extend_from_slice(&piece);
    }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {limit} bytes, which is the limit"),
    )
}

/// Like [`parse`], on a thread for blocking work if the text is long.
async fn parse_large<T>(bytes: Bytes, max_depth: usize) -> Result<T, ApiError>
where
    T: DeserializeOwned + Send + 'static,
{
    blocking_if_large(bytes.len(), move || parse(&bytes, max_depth)).await?
}

/// Parses JSON that is nested at most `max_depth` deep.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], max_depth: usize) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        ApiError::bad_request(format!("the body is not UTF-8 at byte {offset}"))
    })?;
    if is_deeper_than(text, max_depth) {
        let text = format!(
            "the body is nested deeper than {max_depth} levels, which is the limit; send fewer levels"
        );
        return Err(ApiError::bad_request(text));
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner().to_string();
        if let Some(text) = unknown_key(&path, &cause) {
            return ApiError::bad_request(text);
        }
        ApiError::bad_request(match path.as_str() {
            "." => format!("the body is invalid: {cause}"),
            _ => format!("the body is invalid at {path:?}: {cause}"),
        })
    })?;
    deserializer
        .end()
        .map_err(|error| ApiError::bad_request(format!("the body is invalid: {error}")))?;
    Ok(value)
}

/// Returns the text about an unknown key, which suggests the likely one, or `None` if `cause` is
/// another error. The keys of the body are known only from serde's text, between backticks.
fn unknown_key(path: &str, cause: &str) -> Option<String> {
    let (key, expected) = cause.strip_prefix("unknown field `")?.split_once("`, ")?;
    let keys: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let place = match path.rsplit_once('.') {
        Some((parent, _)) => format!(" at {}", quoted(parent)),
        None => String::new(),
    };
    let hint = match near_names(key, &keys).first() {
        Some(near) => format!("did you mean {near:?}?"),
        None if keys.is_empty() => "it takes no keys".to_owned(),
        None => format!("use one of: {}", keys.join(", ")),
    };
    Some(format!(
        "the body has the unknown key {}{place}; {hint}",
        quoted(key)
    ))
}

/// Returns `true` if JSON text is nested deeper than `limit`. Exact for valid text.
fn is_deeper_than(text: &str, limit: usize) -> bool {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        if is_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};

    use serde_json::Value;
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn depth_is_that_of_brackets_outside_strings() {
        assert!(!is_deeper_than("[[1]]", 2));
        assert!(is_deeper_than("[[[1]]]", 2));
        assert!(!is_deeper_than(r#"["[[[\"[[["]"#, 1));
        assert!(!is_deeper_than("[1],[1],[1]", 1));
    }

    /// Returns the outcome of reading a body whose pieces arrive every 5 seconds.
    async fn read_slowly(pieces: usize, size: usize) -> Result<usize, ApiError> {
        let pieces = futures::stream::iter(0..pieces).then(move |_| async move {
            sleep(Duration::from_secs(5)).await;
            Ok::<_, std::io::Error>(vec![b' '; size])
        });
        let request = Request::new(Body::from_stream(pieces));
        let bytes = read_body(request, 32 * 1024 * 1024, Duration::from_secs(10)).await?;
        Ok(bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_is_slow_for_too_long_is_a_408() {
        assert_eq!(read_slowly(11, 1).await.unwrap(), 11);
        let error = read_slowly(13, 1).await.unwrap_err();
        assert_eq!(error.status(), StatusCode::REQUEST_TIMEOUT);
        assert!(error.to_string().contains("too slowly"), "{error}");
        let size = 5 * MIN_BYTES_PER_SECOND;
        assert_eq!(read_slowly(100, size).await.unwrap(), 100 * size);
    }

    #[tokio::test]
    async fn long_upload_is_parsed_on_a_thread_for_blocking_work() {
        struct ParsedOn(ThreadId);
        impl<'de> serde::Deserialize<'de> for ParsedOn {
            fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
                serde::de::IgnoredAny::deserialize(json)?;
                Ok(Self(thread::current().id()))
            }
        }
        for (len, is_here) in [(10, true), (1024 * 1024, false)] {
            let json = format!("\"{}\"", "x".repeat(len));
            let parsed: ParsedOn = parse_large(json.into(), 8).await.unwrap();
            assert_eq!(parsed.0 == thread::current().id(), is_here, "{len}");
        }
    }

    #[test]
    fn errors_name_the_place() {
        #[derive(Debug, serde::Deserialize)]
        struct Body {
            #[allow(dead_code, reason = "only read from JSON")]
            list: Vec<u8>,
        }
        let error = parse::<Body>(br#"{"list": [1, "x"]}"#, 8).unwrap_err();
        assert!(error.to_string().contains(r#"at "list[1]""#), "{error}");
        let error = parse::<Value>(b"{} {}", 8).unwrap_err();
        assert!(error.to_string().contains("trailing"), "{error}");
        let error = parse::<Value>(b"\"\xff\"", 8).unwrap_err();
        assert_eq!(error.to_string(), "the body is not UTF-8 at byte 1");
    }

    #[test]
    fn unknown_key_is_an_error_that_names_the_near_one_or_all() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only read from JSON")]
        struct Body {
            thread_id: Option<String>,
            messages: Option<Value>,
            decisions: Option<Vec<Body>>,
        }
        let cases = [
            (
                r#"{"threadId": "t"}"#,
                r#"the body has the unknown key "threadId"; did you mean "thread_id"?"#,
            ),
            (
                r#"{"message": "hi"}"#,
                r#"the body has the unknown key "message"; did you mean "messages"?"#,
            ),
            (
                r#"{"config": {"x": 1}}"#,
                r#"the body has the unknown key "config"; use one of: thread_id, messages, decisions"#,
            ),
            (
                r#"{"decisions": [{}, {"threadid": 1}]}"#,
                r#"the body has the unknown key "threadid" at "decisions[1]"; did you mean "thread_id"?"#,
            ),
        ];
        for (body, text) in cases {
            let error = parse::<Body>(body.as_bytes(), 8).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
        let body = r#"{"messages": {"anything": 1}}"#;
        parse::<Body>(body.as_bytes(), 8).unwrap();

        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NoKeys {}
        let error = parse::<NoKeys>(br#"{"reason": "x"}"#, 8).unwrap_err();
        let text = r#"the body has the unknown key "reason"; it takes no keys"#;
        assert_eq!(error.to_string(), text);
    }
}
