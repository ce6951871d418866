//! The responses of the model.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::block::{self, Blocks};
use super::envelope::Envelope;
use super::fields::{Fields, read, with_extra, words};
use crate::message::{Message, ToolCall};
use crate::usage::Usage;

words! {
    /// The reason a response failed.
    AssistantErrorKind {
        /// The key is missing or was refused.
        AuthenticationFailed = "authentication_failed",
        /// The organization does not allow this sign-in.
        OauthOrgNotAllowed = "oauth_org_not_allowed",
        /// The account is on hold.
        AccountOnHold = "account_on_hold",
        /// The account must be verified.
        VerificationRequired = "verification_required",
        /// Credit or a spend limit is used up.
        BillingError = "billing_error",
        /// Too many requests.
        RateLimit = "rate_limit",
        /// The provider is overloaded.
        Overloaded = "overloaded",
        /// The provider refused the request as malformed.
        InvalidRequest = "invalid_request",
        /// The model does not exist.
        ModelNotFound = "model_not_found",
        /// The provider failed.
        ServerError = "server_error",
        /// The response was truncated: the model reached its output limit.
        MaxOutputTokens = "max_output_tokens",
        /// The cloud's credential was refused.
        CloudCredentialError = "cloud_credential_error",
        /// Any other error.
        Unknown = "unknown",
    }
}

/// A response of the model, complete. Type `assistant`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssistantEvent {
    /// The common fields of every message.
    pub envelope: Envelope,
    /// The response.
    pub message: ApiMessage,
    /// The reason of the failure, for a response that represents one.
    pub error: Option<AssistantErrorKind>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The superseded messages, which this one replaces.
    pub supersedes: Vec<Uuid>,
    /// True if the response is incomplete because its run was stopped or because it exceeded a
    /// limit on its size.
    pub aborted: bool,
}

#[derive(serde::Deserialize)]
struct Wire {
    message: ApiMessage,
    error: Option<AssistantErrorKind>,
    request_id: Option<String>,
    supersedes: Option<Vec<Uuid>>,
    aborted: Option<bool>,
}

impl AssistantEvent {
    /// Creates a response.
    pub fn new(envelope: Envelope, message: ApiMessage) -> Self {
        Self {
            envelope,
            message,
            error: None,
            request_id: None,
            supersedes: Vec::new(),
            aborted: false,
        }
    }

    /// Returns the text of the response.
    pub fn text(&self) -> Cow<'_, str> {
        self.message.message.text()
    }

    /// Returns the tool calls of the response, in order.
    ///
    /// ```
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{Agent, SdkMessage};
    /// use serde_json::json;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let model = ScriptedModel::new().call("clock", json!({})).say("No clock here.");
    /// let mut run = Agent::builder(model).build()?.run("What time is it?");
    /// let mut names = Vec::new();
    /// while let Some(message) = run.next().await {
    ///     if let SdkMessage::Assistant(response) = message {
    ///         names.extend(response.tool_calls().map(|call| call.name.to_string()));
    ///     }
    /// }
    /// assert_eq!(names, ["clock"]);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.message.message.tool_calls()
    }

    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let wire: Wire = read(text)?;
        Ok(Self {
            envelope: read(text)?,
            message: wire.message,
            error: wire.error,
            request_id: wire.request_id,
            supersedes: wire.supersedes.unwrap_or_default(),
            aborted: wire.aborted.unwrap_or_default(),
        })
    }

    pub(super) fn write<M: SerializeMap>(&self, to: &mut Fields<'_, M>) -> Result<(), M::Error> {
        to.put("type", "assistant")?;
        to.put("message", &self.message)?;
        to.maybe("error", &self.error)?;
        to.maybe("request_id", &self.request_id)?;
        to.list("supersedes", &self.supersedes)?;
        to.flag("aborted", self.aborted)?;
        self.envelope.write(to, true)
    }
}

/// A message of the Messages API: the model's output and its metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApiMessage {
    /// The provider's id of the message.
    pub id: Arc<str>,
    /// The model that responded.
    pub model: Arc<str>,
    /// The output, shared with the history.
    pub message: Arc<Message>,
    /// The reason it stopped; `None` while it is streaming.
    pub stop_reason: Option<Arc<str>>,
    /// The stop sequence that was met.
    pub stop_sequence: Option<Arc<str>>,
    /// The tokens of this call.
    pub usage: Usage,
    /// Fields this crate does not interpret.
    pub extra: Map<String, Value>,
}

#[derive(serde::Deserialize)]
struct ApiWire {
    #[serde(default)]
    id: Arc<str>,
    #[serde(default)]
    model: Arc<str>,
    content: Box<RawValue>,
    stop_reason: Option<Arc<str>>,
    stop_sequence: Option<Arc<str>>,
    #[serde(default)]
    usage: Option<Usage>,
}

impl ApiMessage {
    /// Creates a message of `model`.
    pub fn new(
        id: impl Into<Arc<str>>,
        model: impl Into<Arc<str>>,
        message: impl Into<Arc<Message>>,
    ) -> Self {
        Self {
            id: id.into(),
            model: model.into(),
            message: message.into(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage::default(),
            extra: Map::new(),
        }
    }

    /// Sets the usage.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}

impl Serialize for ApiMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields::new(serializer.serialize_map(None)?, &self.extra);
        fields.put("id", &*self.id)?;
        fields.put("type", "message")?;
        fields.put("role", "assistant")?;
        fields.put("model", &*self.model)?;
        fields.put("content", &Blocks(self.message.content().parts()))?;
        fields.put("stop_reason", &self.stop_reason)?;
        fields.put("stop_sequence", &self.stop_sequence)?;
        fields.put("usage", &self.usage)?;
        fields.end()
    }
}

/// Reads from JSON text only, as [`SdkMessage`](super::SdkMessage) does.
impl<'de> Deserialize<'de> for ApiMessage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        api_message(raw.get()).map_err(D::Error::custom)
    }
}

fn api_message(text: &str) -> serde_json::Result<ApiMessage> {
    let wire: ApiWire = read(text)?;
    let message = ApiMessage {
        id: wire.id,
        model: wire.model,
        message: Arc::new(Message::ai(block::content(&wire.content)?)),
        stop_reason: wire.stop_reason,
        stop_sequence: wire.stop_sequence,
        usage: wire.usage.unwrap_or_default(),
        extra: Map::new(),
    };
    with_extra(text, message, |message| &mut message.extra)
}
