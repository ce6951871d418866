//! The model.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;

use crate::error::Result;
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};
use crate::util::Secret;

use super::super::ask::ask;
use super::super::decode::{Framing, Wanted, recorded};
use super::super::env;
use super::super::http::Endpoint;
use super::PROVIDER;
use super::body::body;
use super::decode::MessagesDecoder;
use super::profile::profile;

const BASE_URL: &str = "https://api.anthropic.com";
const PATH: &str = "/v1/messages";
const VERSION: &str = "2023-06-01";

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
    id: Arc<str>,
    model: Arc<str>,
    profile: ModelProfile,
    endpoint: Endpoint,
}

impl Anthropic {
    /// The model of this name, asked with this key.
    pub fn new(model: impl Into<Arc<str>>, key: impl Into<Secret>) -> Self {
        let model = model.into();
        let endpoint = Endpoint::new(PROVIDER, BASE_URL, PATH)
            .header("anthropic-version", VERSION)
            .secret_header("x-api-key", "", &key.into());
        Self {
            id: format!("{PROVIDER}:{model}").into(),
            profile: profile(&model),
            model,
            endpoint,
        }
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
        made.endpoint.check()?;
        Ok(made)
    }

    /// The same model at another address: what stands before `/v1/messages`. A wrong one is a
    /// [`Config`](crate::ErrorKind::Config) error of the first request.
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Self {
        let url = url.as_ref().trim_end_matches('/');
        self.endpoint = self
            .endpoint
            .base_url(url.strip_suffix("/v1").unwrap_or(url));
        self
    }

    /// The same model with a header on every request, in place of one with the same name.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.endpoint = self.endpoint.header(name.as_ref(), value.as_ref());
        self
    }

    /// The same model with a beta feature switched on, besides those that are.
    #[must_use]
    pub fn beta(self, feature: impl AsRef<str>) -> Self {
        const NAME: &str = "anthropic-beta";
        let feature = feature.as_ref();
        let all = match self.endpoint.header_value(NAME) {
            Some(others) => format!("{others},{feature}"),
            None => feature.to_owned(),
        };
        self.header(NAME, all)
    }

    /// The same model with another limit for making a connection (10 seconds).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.connect_timeout(timeout);
        self
    }

    /// The same model with another limit for the time in which no byte arrives (300 seconds). How
    /// long an answer takes in all is not limited.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.idle_timeout(timeout);
        self
    }

    /// The same model with other limits, prices and abilities than are known of its name.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// The same model with the context window that its server really has, in tokens. It is not sent;
    /// histories are shortened for it, and no answer is taken to be longer.
    #[must_use]
    pub fn context_window(mut self, tokens: u64) -> Self {
        self.profile = self.profile.within(tokens);
        self
    }

    /// The same model with another limit for the tokens of one answer, for requests that do not
    /// set one.
    #[must_use]
    pub fn max_output_tokens(mut self, max_tokens: u32) -> Self {
        self.profile.max_output_tokens = max_tokens;
        self
    }
}

impl Model for Anthropic {
    fn id(&self) -> &str {
        &self.id
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    // Written by hand, so that what waits for the answer does not keep the request.
    fn stream<'a: 'b, 'b>(&'a self, request: ModelRequest) -> BoxFuture<'b, Result<ModelStream>>
    where
        Self: 'b,
    {
        let other = request
            .model
            .as_deref()
            .filter(|name| *name != &*self.model);
        let body = match other {
            Some(name) => body(&request, name, &profile(name)),
            None => body(&request, &self.model, &self.profile),
        };

        let body = match body {
            Ok(body) => body,
            Err(error) => return Box::pin(ready(Err(error))),
        };

        let wanted = Wanted::of(&request);
        ask(
            &self.endpoint,
            body,
            Framing::Sse,
            wanted,
            MessagesDecoder::new,
        )
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
