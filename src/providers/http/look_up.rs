//! Small requests to a server whose replies are not streamed.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use reqwest::StatusCode;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::util::http_client::Scheme;
use crate::util::json::{MAX_VALUES, has_more_values};

use super::client;
use super::endpoint::{Endpoint, parse_url};
use super::failure;

/// The maximum length of a reply, in bytes.
const MAX_REPLY: usize = 4 * 1024 * 1024;
/// The time limit of a request.
const TIME_LIMIT: Duration = Duration::from_secs(10);

impl Endpoint {
    /// Requests JSON from another address of the server, with the same headers; with POST if there
    /// is a body. Returns `None` if the reply is no JSON or too long, or its status is no success.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] for a mistake in the endpoint or the address, and an error if
    /// the connection fails, if the server does not reply in time, or if its status is 401 or 403.
    pub(crate) async fn look_up(
        &self,
        address: &str,
        body: Option<Bytes>,
    ) -> Result<Option<Value>> {
        let is_missing =
            |status| !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        self.request_json(address, body, is_missing).await
    }

    /// Like [`look_up`](Self::look_up), but of the statuses that are no success, only those of a
    /// server that does not have the address give `None`: 404, 405 and 501.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] for a mistake in the endpoint or the address, and an error if
    /// the connection fails, if the server does not reply in time, or if it replies with another
    /// status that is no success.
    pub(crate) async fn ask_json(&self, address: &str, body: Bytes) -> Result<Option<Value>> {
        let is_missing = |status| {
            matches!(
                status,
                StatusCode::NOT_FOUND
                    | StatusCode::METHOD_NOT_ALLOWED
                    | StatusCode::NOT_IMPLEMENTED
            )
        };
        self.request_json(address, Some(body), is_missing).await
    }

    /// Requests JSON within the time limit.
    async fn request_json(
        &self,
        address: &str,
        body: Option<Bytes>,
        is_missing: fn(StatusCode) -> bool,
    ) -> Result<Option<Value>> {
        let limit = self.idle_timeout.min(TIME_LIMIT);
        let reading = self.read_reply(address, body, is_missing).boxed();
        let outcome = tokio::time::timeout(limit, reading).await;
        let answer = outcome.unwrap_or_else(|_| Err(no_reply(limit)));
        answer.map_err(|error| error.context(&self.provider))
    }

    async fn read_reply(
        &self,
        address: &str,
        body: Option<Bytes>,
        is_missing: fn(StatusCode) -> bool,
    ) -> Result<Option<Value>> {
        // Reports a mistake in a setting, such as a header.
        self.url()?;
        let url = parse_url(address).map_err(|text| Error::new(ErrorKind::Config, text))?;
        let client = client::client(Scheme::of(&url), self.connect_timeout)
            .map_err(|reason| Error::new(ErrorKind::Config, reason))?;
        let request = match body {
            Some(body) => client.post(url).body(body),
            None => client.get(url),
        };

        let response = request
            .headers(self.headers.clone())
            .send()
            .await
            .map_err(|error| failure::sending(error, &self.secrets))?;
        match response.status() {
            status if status.is_success() => {}
            status if is_missing(status) => return Ok(None),
            _ => return Err(self.refusal(response).await),
        }

        let mut json = Vec::new();
        let mut chunks = pin!(response.bytes_stream());
        while let Some(chunk) = chunks.next().await {
            json.extend_from_slice(&chunk.map_err(|error| failure::reading(error, &self.secrets))?);
            if json.len() > MAX_REPLY {
                return Ok(None);
            }
        }

        if has_more_values(&json, MAX_VALUES) {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&json).ok())
    }
}

/// Returns the error of a request that took longer than its time limit.
fn no_reply(limit: Duration) -> Error {
    let text = format!("the server did not reply within {limit:?}");
    Error::new(ErrorKind::Timeout, text)
}
