//! [`OpenAiResponses`], a model called through the Responses API.

use std::future::ready;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::error::Result;
use crate::message::Part;
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};
use crate::util::Secret;

use super::super::builder::{connection_methods, openai_methods};
use super::super::connection::{Connection, KeyFormOrigin, MAX_OPENAI_BODY};
use super::super::decode::{EventOptions, Framing};
use super::super::encode::Encoded;
use super::super::media::{Target, check};
use super::super::openai::family::{ReasoningMode, family_of};
use super::super::openai::with_key_form_of_address;
use super::super::send::{ProviderRequest, send_request};
use super::super::token_count::count_tokens;
use super::body::{Options, body};
use super::content::MediaForms;
use super::decode::ResponsesDecoder;
use super::input::ItemWire;
use super::remedy::{Unencrypted, remedy};

/// The name of blocks of OpenAI's own Responses API.
pub(in crate::providers) const PROVIDER: &str = "openai-responses";

/// The name of blocks of other servers, unless one is set. Their reasoning and the ids of their
/// items mean nothing to OpenAI's own server, and the other way round.
const COMPATIBLE: &str = "compatible-responses";

/// The fields of a body from which the server counts its tokens.
const COUNTED_FIELDS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "reasoning",
    "text",
    "parallel_tool_calls",
];

/// A model called through the Responses API (`POST {base}/responses`), always streamed and never
/// stored: OpenAI's own, or a compatible server.
///
/// The API has no counterpart of `seed` and `top_k`. Stop sequences are an error. A field of the
/// request's `extra` replaces the field of the body, and `null` removes it. Cheap to clone.
///
/// # Thinking
///
/// * [`ThinkingMode::Effort`](crate::model::ThinkingMode::Effort) becomes the effort.
/// * [`Disabled`](crate::model::ThinkingMode::Disabled) becomes the effort `none`.
/// * The API has no counterpart of the other modes.
///
/// The reasoning of earlier answers is sent back to the server in its encrypted form, with the
/// items of those answers unchanged.
///
/// # Examples
///
/// ```
/// use agentcore::Model;
/// use agentcore::providers::OpenAiResponses;
///
/// let hosted = OpenAiResponses::new("gpt-6-luna", "sk-...");
/// assert_eq!(hosted.id(), "openai:gpt-6-luna");
/// let local = OpenAiResponses::compatible("http://127.0.0.1:8080/v1", "qwen3");
/// assert_eq!(local.provider("llama.cpp").id(), "llama.cpp:qwen3");
/// ```
#[derive(Clone, Debug)]
pub struct OpenAiResponses {
    connection: Connection,
    /// The provider's name in blocks, if it was set.
    tag: Option<Arc<str>>,
    has_summaries: bool,
    /// True if the server runs tools itself.
    has_hosted_tools: bool,
    /// The names of the models that refused a request for encrypted reasoning.
    unencrypted: Unencrypted,
}

connection_methods!(OpenAiResponses);
openai_methods!(OpenAiResponses, "/responses");

impl OpenAiResponses {
    fn with_connection(connection: Connection) -> Self {
        Self {
            connection,
            tag: None,
            has_summaries: true,
            has_hosted_tools: true,
            unencrypted: Unencrypted::default(),
        }
    }

    /// Sets the provider's name in the id and in error texts. Reasoning of another provider's
    /// answers is not sent to it. Servers without a name share a name that differs from the name of
    /// OpenAI's own server.
    #[must_use]
    pub fn provider(mut self, name: impl AsRef<str>) -> Self {
        self.tag = Some(format!("{}-responses", name.as_ref()).into());
        self.connection = self.connection.provider(name.as_ref());
        self
    }

    /// Sets whether summaries of the reasoning are requested, which are shown as thinking. Defaults
    /// to `true`.
    #[must_use]
    pub fn summaries(mut self, summaries: bool) -> Self {
        self.has_summaries = summaries;
        self
    }

    /// Sets whether the server runs tools itself. Defaults to `true`; Bedrock has none. To a server
    /// without, hosted tools are not sent, with a warning.
    #[must_use]
    pub fn hosted_tools(mut self, available: bool) -> Self {
        self.has_hosted_tools = available;
        self
    }

    /// Returns `true` for media that the server has a form for, for its model.
    pub(in crate::providers) fn takes(&self, part: &Part) -> bool {
        self.media_of(&self.connection.model).takes(part)
    }

    /// Returns the media that the server takes for a model. The ids of files are OpenAI's, or those
    /// of the server whose name was set.
    fn media_of(&self, model: &str) -> MediaForms {
        let files_of = if self.connection.is_openai() {
            "openai".into()
        } else {
            self.connection.endpoint.provider().clone()
        };
        MediaForms {
            files_of,
            has_openai_images: family_of(model).is_some(),
        }
    }

    /// Returns the provider's name in blocks.
    pub(in crate::providers) fn tag(&self) -> &str {
        match &self.tag {
            Some(tag) => tag,
            None if self.connection.is_openai() => PROVIDER,
            None => COMPATIBLE,
        }
    }

    /// Sets the header in which the key is sent, instead of a bearer token.
    pub(in crate::providers) fn key_header(mut self, name: &str) -> Self {
        let origin = KeyFormOrigin::Dialect;
        self.connection = self.connection.with_key_header(Some(name), origin);
        self
    }

    fn encode(&self, request: &ModelRequest) -> Result<(Encoded, Vec<String>)> {
        let takes_images = self.connection.takes_images(request);
        let model = request.model.as_deref().unwrap_or(&self.connection.model);
        let target = Target {
            model,
            takes_images,
            api: "the Responses API",
        };
        let media = self.media_of(model);
        check(request, target, |part| media.takes(part))?;
        let is_unencrypted = (self.unencrypted).contains(self.connection.endpoint.base(), model);
        let wire = ItemWire {
            media,
            takes_images,
            takes_reasoning: !is_unencrypted
                && family_of(model).is_none_or(|family| family.reasons != ReasoningMode::Never),
            tag: self.tag().into(),
        };
        body(
            request,
            &Options {
                model: &self.connection.model,
                kept_body: &self.connection.kept_body,
                max_output_tokens: self.connection.max_output_tokens(request),
                is_official: self.connection.is_openai(),
                has_summaries: self.has_summaries,
                has_hosted_tools: self.has_hosted_tools,
                has_encrypted: !is_unencrypted,
                wire: &wire,
            },
        )
    }

    /// Returns the number of tokens of `request`, as the server counts them.
    async fn count(&self, request: ModelRequest) -> Result<Option<u64>> {
        let (encoded, _) = self.encode(&request)?;
        drop(request);
        let endpoint = &self.connection.endpoint;
        let url = format!("{}/responses/input_tokens", endpoint.base());
        count_tokens(endpoint, &url, encoded.body, COUNTED_FIELDS).await
    }
}

impl Model for OpenAiResponses {
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
        let (encoded, warnings) = match self.encode(&request) {
            Ok(encoded) => encoded,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let reasoning = encoded.reasoning;
        let model = request.model.as_ref().unwrap_or(&self.connection.model);
        let (model, unencrypted) = (model.clone(), self.unencrypted.clone());
        let base = self.connection.endpoint.base().to_owned();
        let provider_request = ProviderRequest {
            endpoint: &self.connection.endpoint,
            body: encoded.body,
            framing: Framing::Sse,
            event_options: EventOptions::of(&request),
            warnings,
            max_body: MAX_OPENAI_BODY,
            remedy: Some(Box::new(move |error, body| {
                remedy(error, body, &reasoning, || unencrypted.insert(base, model))
            })),
        };
        let tag: Arc<str> = self.tag().into();
        let encoded_calls = encoded.calls;
        let decoder = |id, secrets| ResponsesDecoder::new(tag, id, encoded_calls, secrets);
        send_request(provider_request, decoder)
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
