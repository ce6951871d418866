//! [`Anthropic`], a model called through the Messages API.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;

use crate::error::Result;
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};
use crate::util::Secret;

use super::super::builder::connection_methods;
use super::super::connection::Connection;
use super::super::decode::{EventOptions, Framing, recorded};
use super::super::encode::Encoded;
use super::super::env;
use super::super::http::is_path_segment;
use super::super::send::{ProviderRequest, send_request};
use super::super::token_count::count_tokens;
use super::body::{Options, body};
use super::capabilities::{reported_family, reported_profile};
use super::decode::MessagesDecoder;
use super::family::{Family, family_of};
use super::profile::profile;
use super::remedy::remedy;
use super::{COMPATIBLE, PROVIDER};

const BASE_URL: &str = "https://api.anthropic.com";
const PATH: &str = "/v1/messages";
const VERSION: &str = "2023-06-01";

/// The maximum length of a body, in bytes.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// The fields of a body from which the server counts its tokens.
const COUNTED_FIELDS: &[&str] = &[
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
];

/// A model called through the Messages API (`POST {base}/v1/messages`, version 2023-06-01), always
/// streamed.
///
/// Prompt-cache breakpoints are set unless
/// [`ModelSettings::prompt_cache`](crate::model::ModelSettings::prompt_cache) is false.
///
/// [`ThinkingMode`](crate::model::ThinkingMode) and forced tools are sent in the form that the
/// model takes, which is known from its name; an unknown `claude-` model is treated as the newest
/// known ones. A mode, an effort or a forced tool that it refuses is a
/// [`Config`](crate::ErrorKind::Config) error that names the alternative:
///
/// * Models up to 4.6 take a [budget](crate::model::ThinkingMode::Budget), which is within
///   `max_tokens`. A budget that leaves no room for the answer becomes half of `max_tokens`, and
///   without room for 1,024 tokens the model does not think. The budget is omitted with a forced
///   tool, and after calls that were made without thinking.
/// * Models from 4.6 on take [`Adaptive`](crate::model::ThinkingMode::Adaptive) and
///   [`Effort`](crate::model::ThinkingMode::Effort), and Claude Opus 4.5 efforts alone.
/// * Models from 4.7 on take no sampling settings: they are omitted, with a warning. For all other
///   models, temperature, `top_k` and a `top_p` below 0.95 are omitted while thinking is on.
///
/// Names that are not Claude's belong to compatible servers, whose settings are not checked. A
/// budget is within `max_tokens` there, too, and a forced tool turns a budget and adaptive thinking
/// off. Thinking of compatible servers is sent back only to such servers, and thinking of Claude
/// only to Claude, on all of its platforms. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Anthropic {
    connection: Connection,
    /// The family of the connection's model; `None` for models that are not Claude.
    family: Option<Family>,
    /// True if the server runs tools itself.
    has_hosted_tools: bool,
}

impl Anthropic {
    /// Creates the model of this name, with this key.
    pub fn new(model: impl Into<Arc<str>>, key: impl Into<Secret>) -> Self {
        let connection = Connection::new(PROVIDER, model.into(), BASE_URL, PATH);
        let mut connection = connection.key("x-api-key", "", &key.into());
        connection.profile = profile(&connection.model);
        let family = family_of(&connection.model);
        let model = Self {
            connection,
            family,
            has_hosted_tools: true,
        };
        model.header("anthropic-version", VERSION)
    }

    /// Creates the model of this name, with the key in `ANTHROPIC_API_KEY` and, if it is set, the
    /// address in `ANTHROPIC_BASE_URL`.
    ///
    /// # Errors
    ///
    /// Returns [`Auth`](crate::ErrorKind::Auth) if there is no key, and
    /// [`Config`](crate::ErrorKind::Config) if the address cannot be used.
    pub fn from_env(model: impl Into<Arc<str>>) -> Result<Self> {
        let mut model = Self::new(model, env::key(PROVIDER, "ANTHROPIC_API_KEY")?);
        if let Some(url) = env::var("ANTHROPIC_BASE_URL") {
            model = model.base_url(url);
        }
        model.connection.endpoint.check()?;
        Ok(model)
    }

    /// Checks the address and the headers. Returns a mistake in them as the error.
    pub(in crate::providers) fn check(&self) -> Result<()> {
        self.connection.endpoint.check()
    }

    /// Sets the address in front of `/v1/messages`. A wrong one is a
    /// [`Config`](crate::ErrorKind::Config) error of the first request.
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Self {
        let url = url.as_ref().trim_end_matches('/');
        let base_url = url.strip_suffix("/v1").unwrap_or(url);
        self.connection = self.connection.base_url(base_url);
        self
    }

    /// Sets whether the server runs hosted tools. Defaults to `true`; Bedrock has none. With
    /// `false`, hosted tools are omitted with a warning, and so are their calls, results and
    /// citations in earlier answers of Anthropic's own server.
    #[must_use]
    pub fn hosted_tools(mut self, available: bool) -> Self {
        self.has_hosted_tools = available;
        self
    }

    /// Sends the key as a bearer token in `authorization`, instead of `x-api-key`: Bedrock takes
    /// its keys in this way.
    #[must_use]
    pub fn bearer(mut self, token: impl Into<Secret>) -> Self {
        self.connection = self.connection.bearer(&token.into());
        self.connection.endpoint = self.connection.endpoint.without_header("x-api-key");
        self
    }

    /// Enables a beta feature, in addition to the features that are enabled already.
    #[must_use]
    pub fn beta(self, feature: impl AsRef<str>) -> Self {
        const NAME: &str = "anthropic-beta";
        let feature = feature.as_ref();
        let features = match self.connection.endpoint.header_value(NAME) {
            Some(others) => format!("{others},{feature}"),
            None => feature.to_owned(),
        };
        self.header(NAME, features)
    }

    /// Requests the capabilities of the Claude model from the server, within ten seconds. They
    /// replace the capabilities that are known for its name: modes of thinking, efforts, structured
    /// output, limits, images and the day of its end. Capabilities that the server does not report
    /// are unchanged. A model that is not Claude is returned unchanged, without a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached, does not answer in time, or refuses the
    /// key.
    ///
    /// ```no_run
    /// use agentcore::providers::Anthropic;
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// let model = Anthropic::from_env("claude-sonnet-5")?.read_capabilities().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_capabilities(mut self) -> Result<Self> {
        let name = &self.connection.model;
        let is_path = name.split([':', '@']).all(is_path_segment);
        let Some(family) = self.family.take_if(|_| is_path) else {
            return Ok(self);
        };

        let endpoint = &self.connection.endpoint;
        let url = format!("{}/v1/models/{name}", endpoint.base());
        let model = endpoint.look_up(&url, None).await?.unwrap_or_default();
        self.family = Some(reported_family(family, &model));
        self.connection.profile = reported_profile(self.connection.profile, &model);
        Ok(self)
    }

    /// Returns the number of tokens of `request`, as the server counts them.
    async fn count(&self, request: ModelRequest) -> Result<Option<u64>> {
        let body = self.encode(&request)?.encoded.body;
        drop(request);
        let endpoint = &self.connection.endpoint;
        let url = format!("{}{PATH}/count_tokens", endpoint.base());
        count_tokens(endpoint, &url, body, COUNTED_FIELDS).await
    }

    fn encode(&self, request: &ModelRequest) -> Result<EncodedRequest> {
        let default_model = &*self.connection.model;
        let encode = |model: &str, family: Option<&Family>, profile: &ModelProfile| {
            let tag = tag_of(family);
            let options = Options {
                model,
                kept_body: &self.connection.kept_body,
                family,
                tag,
                profile,
                has_hosted_tools: self.has_hosted_tools,
            };
            body(request, &options).map(|(encoded, warnings)| EncodedRequest {
                encoded,
                warnings,
                tag,
            })
        };
        match request
            .model
            .as_deref()
            .filter(|name| *name != default_model)
        {
            Some(name) => encode(name, family_of(name).as_ref(), &profile(name)),
            None => encode(
                default_model,
                self.family.as_ref(),
                &self.connection.profile,
            ),
        }
    }
}

connection_methods!(Anthropic);

/// An encoded request.
struct EncodedRequest {
    encoded: Encoded,
    warnings: Vec<String>,
    /// The tag of the blocks of the model that the request is for.
    tag: &'static str,
}

/// Returns the tag of the blocks of a model. One without a family is not Claude.
fn tag_of(family: Option<&Family>) -> &'static str {
    match family {
        Some(_) => PROVIDER,
        None => COMPATIBLE,
    }
}

impl Model for Anthropic {
    fn id(&self) -> &str {
        &self.connection.id
    }

    fn profile(&self) -> &ModelProfile {
        &self.connection.profile
    }

    // Written by hand, so that the future does not hold the request.
    fn stream<'a: 'b, 'b>(&'a self, request: ModelRequest) -> BoxFuture<'b, Result<ModelStream>>
    where
        Self: 'b,
    {
        let EncodedRequest {
            encoded,
            warnings,
            tag,
        } = match self.encode(&request) {
            Ok(encoded_request) => encoded_request,
            Err(error) => return Box::pin(ready(Err(error))),
        };

        let reasoning = encoded.reasoning;
        let provider_request = ProviderRequest {
            endpoint: &self.connection.endpoint,
            body: encoded.body,
            framing: Framing::Sse,
            event_options: EventOptions::of(&request),
            warnings,
            max_body: MAX_BODY,
            remedy: Some(Box::new(move |error, body| remedy(error, body, &reasoning))),
        };
        send_request(provider_request, move |id, secrets| {
            MessagesDecoder::new(tag, id, secrets)
        })
    }

    fn count_tokens<'a: 'b, 'b>(
        &'a self,
        request: ModelRequest,
    ) -> BoxFuture<'b, Result<Option<u64>>>
    where
        Self: 'b,
    {
        Box::pin(self.count(request))
    }
}

/// Returns the events of a recorded answer: the body of a `/v1/messages` response, streamed or not,
/// in pieces cut anywhere.
///
/// If `body` may be pending, the stream must be polled inside a tokio runtime.
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
        MessagesDecoder::new(PROVIDER, None, secrets)
    })
}
