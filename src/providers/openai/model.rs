//! [`OpenAi`], a model called through Chat Completions.

use std::borrow::Cow;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;

use crate::error::Result;
use crate::message::Part;
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};
use crate::util::Secret;

use super::super::builder::{connection_methods, openai_methods};
use super::super::connection::{Connection, KeyFormOrigin, MAX_OPENAI_BODY};
use super::super::decode::{EventOptions, Framing, recorded};
use super::super::encode::{Encoded, EncodedCalls};
use super::super::gemini_family;
use super::super::hosted::left_out_warning;
use super::super::media::{Target, check};
use super::super::send::{ProviderRequest, send_request};
use super::super::token_count::count_tokens;
use super::super::window;
use super::PROVIDER;
use super::body::{Options, body};
use super::decode::ChatDecoder;
use super::dialect::{Dialect, with_key_form_of_address};
use super::family::family_of;
use super::messages::{ChatWire, ReasoningForm};
use super::rules::{OPENAI, SentReasoning, UNKNOWN, WindowReport};
use super::thinking::is_thinking;
use super::user::{has_form, takes};

/// The fields of a body from which a server counts its tokens.
const COUNTED_FIELDS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "chat_template_kwargs",
];

/// A model called through the Chat Completions API (`POST {base}/chat/completions`), always
/// streamed: OpenAI's own, or one of the many servers that speak it.
///
/// A field of the request's `extra` replaces the field of the body, and `null` removes a field that
/// a server refuses. Cheap to clone.
///
/// # Thinking
///
/// * [`ThinkingMode::Effort`](crate::model::ThinkingMode::Effort) becomes `reasoning_effort`.
/// * For OpenAI's models, [`Disabled`](crate::model::ThinkingMode::Disabled) becomes the effort
///   `none`, or the lowest effort of the model.
/// * The API has no counterpart of the other modes, but the [`Dialect`] of a server may have one.
///
/// # Errors
///
/// A request that OpenAI's own server is known to refuse is a
/// [`Config`](crate::ErrorKind::Config) error: tools while a newer model reasons, stop sequences,
/// efforts that a model lacks, and models that only the Responses API has.
///
/// # Examples
///
/// ```
/// use agentcore::Model;
/// use agentcore::providers::OpenAi;
///
/// let hosted = OpenAi::new("gpt-5.4-mini", "sk-...");
/// assert_eq!(hosted.id(), "openai:gpt-5.4-mini");
/// let local = OpenAi::compatible("http://127.0.0.1:8080/v1", "qwen3").provider("llama.cpp");
/// assert_eq!(local.id(), "llama.cpp:qwen3");
/// ```
#[derive(Clone, Debug)]
pub struct OpenAi {
    connection: Connection,
    /// The dialect that was set; otherwise the address chooses it.
    dialect: Option<Dialect>,
    /// The tag of the blocks of an unknown server, if its name was set.
    tag: Option<Arc<str>>,
    max_tokens_field: Option<Arc<str>>,
    resend_reasoning: bool,
}

impl OpenAi {
    /// Sets the provider's name in the id and in error texts, and takes limits and prices from the
    /// table's entry for it, if there is one. It is not sent.
    ///
    /// The reasoning and the signatures of an unknown server go back to a server of the same name
    /// only: their blocks have the tag `NAME-chat`. Unknown servers without a name share one tag.
    #[must_use]
    pub fn provider(mut self, name: impl AsRef<str>) -> Self {
        self.tag = Some(format!("{}-chat", name.as_ref()).into());
        self.connection = self.connection.provider(name.as_ref());
        self
    }

    /// Sets the variant of the API that the server speaks, and with it the header of the key. By
    /// default, the address determines both, as in [`Dialect::of`].
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        let header = dialect.rules().key_header;
        self.connection = self
            .connection
            .with_key_header(header, KeyFormOrigin::Dialect);
        self
    }

    /// Adds a query parameter to every request, such as `api-version`. A key never belongs there.
    #[must_use]
    pub fn query(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let endpoint = self.connection.endpoint;
        self.connection.endpoint = endpoint.query(name.as_ref(), value.as_ref());
        self
    }

    /// Sets the header in which the key is sent, instead of a bearer token.
    #[must_use]
    pub fn key_header(mut self, name: impl AsRef<str>) -> Self {
        let name = Some(name.as_ref());
        self.connection = self.connection.with_key_header(name, KeyFormOrigin::Caller);
        self
    }

    /// Sets the field of the output limit, instead of the dialect's field. By default, OpenAI's own
    /// server gets `max_completion_tokens`, unknown servers get `max_tokens`.
    #[must_use]
    pub fn max_tokens_field(mut self, name: impl Into<Arc<str>>) -> Self {
        self.max_tokens_field = Some(name.into());
        self
    }

    /// Sets whether the model's reasoning is sent back unchanged (`reasoning_content`, `reasoning`,
    /// `reasoning_details`, thinking in the content). Defaults to `true`, because models that think
    /// between tool calls need it. Set it to `false` for a server that refuses reasoning. It is
    /// never sent to OpenAI's own server, which refuses it. Signatures of calls are sent back in
    /// any case.
    #[must_use]
    pub fn resend_reasoning(mut self, resend: bool) -> Self {
        self.resend_reasoning = resend;
        self
    }
}

connection_methods!(OpenAi);
openai_methods!(OpenAi, "/chat/completions");

impl OpenAi {
    /// Requests from the server the context window that it gives the model, in tokens. Returns
    /// `None` if the server does not report it. The model is not changed; set the window with
    /// [`context_window`](Self::context_window).
    ///
    /// llama.cpp (`/props`), vLLM (`/v1/models`) and LM Studio (`/api/v0/models`) report the
    /// window. The [`Dialect`] determines the request. An unknown server receives all three in
    /// turn, until one reports the window, and a hosted server none. Each request takes at most
    /// ten seconds.
    ///
    /// For a model that is not loaded, LM Studio reports only the largest window; the result is
    /// then at most the window of the profile.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached, does not answer in time, or refuses the
    /// key.
    ///
    /// ```no_run
    /// use agentcore::providers::OpenAi;
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// let mut model = OpenAi::compatible("http://127.0.0.1:8080/v1", "qwen3");
    /// if let Some(tokens) = model.read_context_window().await? {
    ///     model = model.context_window(tokens);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_context_window(&self) -> Result<Option<u64>> {
        let Connection {
            endpoint,
            model,
            profile,
            ..
        } = &self.connection;
        let base = endpoint.base();
        let root = base.strip_suffix("/v1").unwrap_or(base);
        for report in self.chosen_dialect().window_reports() {
            let address = match report {
                WindowReport::Props => format!("{root}/props"),
                WindowReport::Models => format!("{base}/models"),
                WindowReport::LmStudio => format!("{root}/api/v0/models"),
            };
            let Some(answer) = endpoint.look_up(&address, None).await? else {
                continue;
            };
            let window = match report {
                WindowReport::Props => window::of_props(&answer),
                WindowReport::Models => window::of_models(&answer, model),
                WindowReport::LmStudio => {
                    window::of_lm_studio(&answer, model, profile.context_window)
                }
            };
            if window.is_some() {
                return Ok(window);
            }
        }

        Ok(None)
    }

    pub(super) fn name(&self) -> &str {
        &self.connection.model
    }

    /// Removes the prices that the built-in table has for the name of the model, and the prompt
    /// cache with its prices.
    pub(in crate::providers) fn without_prices(mut self) -> Self {
        self.connection.profile.prices = None;
        self.connection.profile.prompt_cache = false;
        self
    }

    fn with_connection(connection: Connection) -> Self {
        Self {
            connection,
            dialect: None,
            tag: None,
            max_tokens_field: None,
            resend_reasoning: true,
        }
    }

    /// Returns `true` if both OpenAI's own server and this one have a form for the medium.
    pub(super) fn has_form_for(&self, part: &Part) -> bool {
        has_form(part, &OPENAI) && has_form(part, self.chosen_dialect().rules())
    }

    /// Counts the tokens of `request` at the server. Returns `None` if the server cannot count
    /// them.
    async fn count(&self, request: ModelRequest) -> Result<Option<u64>> {
        if !self.chosen_dialect().rules().counts_tokens {
            return Ok(None);
        }
        let (encoded, _) = self.encode(&request, self.chosen_dialect())?;
        drop(request);
        let endpoint = &self.connection.endpoint;
        let url = format!("{}/chat/completions/input_tokens", endpoint.base());
        count_tokens(endpoint, &url, encoded.body, COUNTED_FIELDS).await
    }

    /// Returns the body of a request, and a warning about settings that it omits.
    fn encode(
        &self,
        request: &ModelRequest,
        dialect: Dialect,
    ) -> Result<(Encoded, Option<String>)> {
        let rules = dialect.rules();
        let model = request.model.as_deref().unwrap_or(self.name());
        // A deployment on Azure may have any name, from which nothing about its model follows.
        let is_unknown = dialect == Dialect::azure() && family_of(model).is_none();
        let wire = ChatWire {
            rules,
            tag: self.tag(dialect),
            reasoning: self.sent_reasoning(request, rules.reasoning),
            signs_calls: rules.signs_calls && gemini_family::family_of(model).is_modern,
            takes_audio: is_unknown || model.contains(rules.audio_models),
            takes_images: self.connection.takes_images(request),
        };
        // Without recordings, it is the model that lacks a form, not the API.
        let api = if wire.takes_audio {
            "Chat Completions"
        } else {
            model
        };
        let target = Target {
            model,
            takes_images: wire.takes_images,
            api,
        };
        check(request, target, |part| takes(part, &wire))?;
        body(
            request,
            &Options {
                model: &self.connection.model,
                kept_body: &self.connection.kept_body,
                max_tokens_field: self
                    .max_tokens_field
                    .as_deref()
                    .unwrap_or(rules.max_tokens_field),
                max_output_tokens: self.connection.max_output_tokens(request),
                dialect,
                wire: &wire,
            },
        )
    }

    /// Returns the tag of the blocks of a server with this dialect.
    fn tag(&self, dialect: Dialect) -> Cow<'static, str> {
        match &self.tag {
            Some(tag) if dialect == Dialect::compatible() => tag.to_string().into(),
            _ => dialect.rules().tag.into(),
        }
    }

    fn chosen_dialect(&self) -> Dialect {
        let of_address = || Dialect::of(self.connection.endpoint.base());
        self.dialect.unwrap_or_else(of_address)
    }

    fn sent_reasoning(&self, request: &ModelRequest, reasoning: SentReasoning) -> ReasoningForm {
        let has_tools = || {
            let mut messages = request.messages.as_slice().iter();
            !request.tools.is_empty()
                || messages.any(|message| message.tool_calls().next().is_some())
        };
        match reasoning {
            _ if !self.resend_reasoning => ReasoningForm::None,
            SentReasoning::Never => ReasoningForm::None,
            SentReasoning::Own => ReasoningForm::Own,
            SentReasoning::Chunks => ReasoningForm::Chunks,
            SentReasoning::OwnOrEmpty if !is_thinking(request) => ReasoningForm::None,
            SentReasoning::OwnOrEmpty if has_tools() => ReasoningForm::OwnOrEmpty,
            SentReasoning::OwnOrEmpty => ReasoningForm::Own,
        }
    }
}

impl Model for OpenAi {
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
        let dialect = self.chosen_dialect();
        let rules = dialect.rules();
        let (encoded, warning) = match self.encode(&request, dialect) {
            Ok(encoded) => encoded,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let hosted_warning = left_out_warning(&request.hosted_tools, None);
        let provider_request = ProviderRequest {
            endpoint: &self.connection.endpoint,
            body: encoded.body,
            framing: Framing::Sse,
            event_options: EventOptions::of(&request),
            warnings: warning.into_iter().chain(hosted_warning).collect(),
            max_body: if dialect.is_openai() {
                MAX_OPENAI_BODY
            } else {
                usize::MAX
            },
            remedy: None,
        };
        let tag = self.tag(dialect);
        let encoded_calls = encoded.calls;
        let decoder = move |id, secrets| ChatDecoder::new(rules, tag, id, encoded_calls, secrets);
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

/// Returns the events of a recorded answer: the body of a `/chat/completions` response, streamed or
/// not, in pieces cut anywhere.
///
/// If `body` may be pending, the stream must be polled inside a tokio runtime.
///
/// ```
/// use agentcore::model::ModelEvent;
/// use agentcore::providers::openai;
/// use futures::{StreamExt, executor::block_on, stream};
///
/// let recording = concat!(
///     "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n",
///     "data: {\"id\":\"1\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
///     "data: [DONE]\n\n",
/// );
/// let body = stream::iter([Ok(recording.into())]);
/// let events: Vec<_> = block_on(openai::decode(body).collect());
/// assert!(matches!(events[1], Ok(ModelEvent::Text(ref text)) if text == "Hello"));
/// ```
pub fn decode(body: impl Stream<Item = Result<Bytes>> + Send + 'static) -> ModelStream {
    recorded(PROVIDER, Framing::Sse, body, |secrets| {
        ChatDecoder::new(
            &UNKNOWN,
            PROVIDER.into(),
            None,
            EncodedCalls::default(),
            secrets,
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;
    use crate::message::{Message, Messages, ProviderBlock};
    use crate::model::ResponseFormat;

    #[test]
    fn reasoning_of_compatible_servers_is_not_sent_to_openai() {
        let fields = r#"{"reasoning_content":"let me see"}"#.to_owned();
        let raw = RawValue::from_string(fields).unwrap();
        let thought = Part::Thinking(ProviderBlock::new(PROVIDER, raw));
        let mut answer = Message::ai("Hello.");
        answer.content_mut().parts_mut().insert(0, thought);
        let mut history = Messages::from("Hi");
        history.push(answer);
        let history = history.human("And you?");
        let body_of = |model: OpenAi| {
            let request = ModelRequest::new(history.clone());
            let (encoded, _) = model.encode(&request, model.chosen_dialect()).unwrap();
            String::from_utf8_lossy(&encoded.body).into_owned()
        };

        let compatible = body_of(OpenAi::compatible("http://127.0.0.1/v1", "m"));
        assert!(compatible.contains("let me see"), "{compatible}");
        let official = body_of(OpenAi::new("m", "key"));
        assert!(!official.contains("reasoning"), "{official}");
    }

    #[test]
    fn request_to_openai_has_the_recorded_bytes() {
        let mut request = ModelRequest::new("Hi").with_system("You help.");
        request.messages.push(Message::ai("Hello."));
        request.messages.push(Message::human("And you?"));
        request.settings.top_k = Some(5);
        let model = OpenAi::new("m", "key").max_output_tokens(100);
        let (encoded, _) = model.encode(&request, model.chosen_dialect()).unwrap();
        let expected = concat!(
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"#,
            r#""max_completion_tokens":100,"messages":["#,
            r#"{"role":"system","content":"You help."},"#,
            r#"{"role":"user","content":"Hi"},"#,
            r#"{"role":"assistant","content":"Hello."},"#,
            r#"{"role":"user","content":"And you?"}]}"#,
        );
        assert_eq!(String::from_utf8_lossy(&encoded.body), expected);
    }

    #[test]
    fn non_object_schema_is_sent_to_openai_as_an_instruction() {
        let mut request = ModelRequest::new("hi");
        request.response_format = Some(ResponseFormat::JsonSchema {
            name: "mood".into(),
            schema: json!({"type": "string", "enum": ["good", "bad"]}).into(),
        });

        let body_of = |model: OpenAi| {
            let (encoded, _) = model.encode(&request, model.chosen_dialect()).unwrap();
            serde_json::from_slice::<serde_json::Value>(&encoded.body).unwrap()
        };

        let compatible = body_of(OpenAi::compatible("http://127.0.0.1/v1", "m"));
        assert_eq!(compatible["messages"].as_array().unwrap().len(), 1);
        assert!(compatible["response_format"].is_object());
        let official = body_of(OpenAi::new("m", "key"));
        assert!(official.get("response_format").is_none());
        let instruction = official["messages"][0]["content"].as_str().unwrap();
        assert!(instruction.contains(r#"["good","bad"]"#), "{instruction}");
    }
}
