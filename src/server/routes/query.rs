//! The parameters of queries.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::app::App;
use super::super::error::ApiError;
use super::super::stream::StreamFormat;

/// The query of a request. Unknown parameters are ignored.
#[derive(Debug)]
pub(super) struct QueryOf<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<App> for QueryOf<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        let query = Query::try_from_uri(&parts.uri);
        let Query(query) = query
            .map_err(|error| ApiError::bad_request(format!("the query is invalid: {error}")))?;
        Ok(Self(query))
    }
}

#[derive(Debug, Deserialize)]
struct FormatQuery {
    format: Option<String>,
}

/// The stream that a request asks for.
#[derive(Debug)]
pub(super) struct StreamRequest {
    pub(super) format: StreamFormat,
    /// True if the request names a format, or if its header `Accept` names the type of a stream.
    pub(super) is_explicit: bool,
    /// The id of the last event that the reader has received.
    pub(super) last_event_id: Option<String>,
}

impl FromRequestParts<App> for StreamRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let QueryOf(query) = QueryOf::<FormatQuery>::from_request_parts(parts, app).await?;
        let accept = text_of(&parts.headers, &header::ACCEPT);
        let format = StreamFormat::choose(query.format.as_deref(), accept)?;
        let is_accepted = accept.is_some_and(|accept| {
            let accept = accept.to_ascii_lowercase();
            accept.contains("text/event-stream") || accept.contains("application/x-ndjson")
        });
        let last_event_id = parts
            .headers
            .get("last-event-id")
            // A reader that has received no id sends an empty one.
            .filter(|value| !value.is_empty())
            .map(|value| value.to_str().unwrap_or("?").to_owned());
        Ok(Self {
            format,
            is_explicit: query.format.is_some() || is_accepted,
            last_event_id,
        })
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
