//! The model.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;

use crate::error::Result;
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};
use crate::util::Secret;

use super::super::ask::{Asking, ask};
use super::super::builder::connection_methods;
use super::super::connection::Connection;
use super::super::decode::{Framing, Wanted, recorded};
use super::super::env;
use super::super::hosted::left_out;
use super::PROVIDER;
use super::body::body;
use super::decode::MessagesDecoder;
use super::profile::profile;

const BASE_URL: &str = "https://api.anthropic.com";
const PATH: &str = "/v1/messages";
const VERSION: &str = "2023-06-01";

/// The longest body that the API takes, in bytes.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// A model behind the Messages API (`POST {base}/v1/messages`, version 2023-06-01), always
/// streamed.
///
/// Prompt-cache breakpoints are set unless
/// [`ModelSettings::prompt_cache`](crate::model::ModelSettings::prompt_cache) is false. With a
/// thinking budget or adaptive thinking, temperature and `top_k` are left out; with a forced tool,
/// thinking is: the API refuses these combinations. What the model thinks counts in `max_tokens`: a
/// budget that leaves no room for the answer becomes half of it, and without room for the least
/// budget (1,024 tokens) the model does not think. A clone is cheap.
#[derive(Clone, Debug)]
pub struct Anthropic {
    connection: Connection,
}

impl Anthropic {
    /// The model of this name, asked with this key.
    pub fn new(model: impl Into<Arc<str>>, key: impl Into<Secret>) -> Self {
        let connection = Connection::new(PROVIDER, model.into(), BASE_URL, PATH);
        let mut connection = connection.key("x-api-key", "", &key.into());
        connection.profile = profile(&connection.model);
        Self { connection }.header("anthropic-version", VERSION)
    }

    /// The model of this name, with the key in `ANTHROPIC_API_KEY` and, if it is set, the address
    /// in `ANTHROPIC_BASE_URL`.
    ///
    /// # Errors
    ///
    /// [`Auth`](crate::ErrorKind::Auth) without a key, [`Config`](crate::ErrorKind::Config) for an
    /// address that cannot be used.
    pub fn from_env(model: impl Into<Arc<str>>) -> Result<Self> {
        let mut made = Self::new(model, env::key(PROVIDER, "ANTHROPIC_API_KEY")?);
        if let Some(url) = env::var("ANTHROPIC_BASE_URL") {
            made = made.base_url(url);
        }
        made.connection.endpoint.check()?;
        Ok(made)
    }

    /// The same model at another address: what stands before `/v1/messages`. A wrong one is a
    /// [`Config`](crate::ErrorKind::Config) error of the first request.
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Self {
        let url = url.as_ref().trim_end_matches('/');
        let base_url = url.strip_suffix("/v1").unwrap_or(url);
        self.connection = self.connection.base_url(base_url);
        self
    }

    /// The same model with a beta feature switched on, besides those that are.
    #[must_use]
    pub fn beta(self, feature: impl AsRef<str>) -> Self {
        const NAME: &str = "anthropic-beta";
        let feature = feature.as_ref();
        let all = match self.connection.endpoint.header_value(NAME) {
            Some(others) => format!("{others},{feature}"),
            None => feature.to_owned(),
        };
        self.header(NAME, all)
    }
}

connection_methods!(Anthropic);

impl Model for Anthropic {
    fn id(&self) -> &str {
        &self.connection.id
    }

    fn profile(&self) -> &ModelProfile {
        &self.connection.profile
    }

    // Written by hand, so that what waits for the answer does not keep the request.
    fn stream<'a: 'b, 'b>(&'a self, request: ModelRequest) -> BoxFuture<'b, Result<ModelStream>>
    where
        Self: 'b,
    {
        let other = request
            .model
            .as_deref()
            .filter(|name| *name != &*self.connection.model);
        let encoded = match other {
            Some(name) => body(&request, name, &profile(name)),
            None => body(&request, &self.connection.model, &self.connection.profile),
        };

        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(error) => return Box::pin(ready(Err(error))),
        };

        let asking = Asking {
            endpoint: &self.connection.endpoint,
            body: encoded.body,
            framing: Framing::Sse,
            wanted: Wanted::of(&request),
            warnings: left_out(&request.hosted_tools, "").into_iter().collect(),
            max_body: MAX_BODY,
            remedy: None,
        };
        ask(asking, MessagesDecoder::new)
    }
}

/// The events of a recorded answer: the body of a `/v1/messages` response, streamed or not, in
/// pieces cut anywhere.
///
/// To be polled inside a tokio runtime if `body` is ever pending.
///
/// ```
/// use agentcore::model::ModelEvent;
/// use agentcore::providers::anthropic;
/// use futures::{FutureExt, StreamExt, stream};
///
/// let recording = concat!(
///     "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\"}}\n\n",
///     "data: {\"type\":\"content_block_start\",\"index\":0,",
///     "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
///     "data: {\"type\":\"content_block_delta\",\"index\":0,",
///     "\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n",
///     "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
///     "data: {\"type\":\"message_stop\"}\n\n",
/// );
/// let body = stream::iter([Ok(recording.into())]);
/// let events: Vec<_> = anthropic::decode(body).collect().now_or_never().unwrap();
/// assert!(matches!(events[1], Ok(ModelEvent::Text(ref text)) if text == "Hello"));
/// ```
pub fn decode(body: impl Stream<Item = Result<Bytes>> + Send + 'static) -> ModelStream {
    recorded(PROVIDER, Framing::Sse, body, |secrets| {
        MessagesDecoder::new(None, secrets)
    })
}
