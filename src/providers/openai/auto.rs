//! The choice between OpenAI's two APIs.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{ErrorKind, Result};
use crate::message::{Part, Role};
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};

use super::super::responses::{OpenAiResponses, PROVIDER as RESPONSES};
use super::family::{ReasoningMode, family_of, requested_effort};
use super::model::OpenAi;

/// OpenAI's model of this name, on the API that each request needs.
///
/// A request for a model of OpenAI goes to the Responses API if one of these is true:
///
/// * Chat Completions does not have the model.
/// * The request has a hosted tool, the effort `max`, or media that only the Responses API takes.
/// * The model reasons, and the request has function tools: Chat Completions refuses these for
///   newer models.
/// * The model reasons, and the previous answer came from the Responses API.
///
/// All other requests go to Chat Completions.
///
/// ```
/// use agentcore::Model;
/// use agentcore::providers::{OpenAi, OpenAiAuto, OpenAiResponses};
///
/// let key = "sk-...";
/// let model = OpenAiAuto::new(
///     OpenAi::new("gpt-6-luna", key),
///     OpenAiResponses::new("gpt-6-luna", key),
/// );
/// assert_eq!(model.id(), "openai:gpt-6-luna");
/// ```
#[derive(Clone, Debug)]
pub struct OpenAiAuto {
    chat: OpenAi,
    responses: OpenAiResponses,
}

impl OpenAiAuto {
    /// Creates a model from its two forms, which have the same name and server.
    pub fn new(chat: OpenAi, responses: OpenAiResponses) -> Self {
        Self { chat, responses }
    }

    /// Creates the model of this name, with the key in `OPENAI_API_KEY` and the address in
    /// `OPENAI_BASE_URL`, if it is set. Only OpenAI's own server needs a key.
    ///
    /// # Errors
    ///
    /// Returns [`Auth`](crate::ErrorKind::Auth) if there is no key, and
    /// [`Config`](crate::ErrorKind::Config) if the address cannot be used.
    pub fn from_env(model: impl Into<Arc<str>>) -> Result<Self> {
        let model = model.into();
        let chat = OpenAi::from_env(model.clone())?;
        Ok(Self::new(chat, OpenAiResponses::from_env(model)?))
    }

    /// Returns the model on Chat Completions.
    pub fn chat(&self) -> &OpenAi {
        &self.chat
    }

    /// Returns the model on the Responses API.
    pub fn responses(&self) -> &OpenAiResponses {
        &self.responses
    }

    fn needs_responses(&self, request: &ModelRequest) -> bool {
        let name = request.model.as_deref().unwrap_or(self.chat.name());
        let Some(family) = family_of(name) else {
            return false;
        };

        let effort = requested_effort(request);
        let has_hosted_tools = request
            .hosted_tools
            .iter()
            .any(|tool| &*tool.provider == RESPONSES);
        let reasons_with_tools =
            family.tools_need_responses && !request.tools.is_empty() && family.reasons_with(effort);
        let continues_reasoning = family.reasons != ReasoningMode::Never
            && is_last_answer_of(request, self.responses.tag());
        !family.has_chat
            || has_hosted_tools
            || effort == Some("max")
            || reasons_with_tools
            || continues_reasoning
            || self.has_media_of_responses(request)
    }

    /// Returns `true` if the request has media that Chat Completions has no form for, and the
    /// Responses API has.
    fn has_media_of_responses(&self, request: &ModelRequest) -> bool {
        let messages = request.messages.as_slice().iter();
        let mut parts = messages.flat_map(|message| message.content().parts());
        parts.any(|part| {
            matches!(part, Part::Image(_) | Part::Document(_))
                && self.responses.takes(part)
                && !self.chat.has_form_for(part)
        })
    }
}

/// Returns `true` if the last answer has reasoning or items that only the Responses API takes back.
fn is_last_answer_of(request: &ModelRequest, tag: &str) -> bool {
    let mut messages = request.messages.as_slice().iter().rev();
    let answer = messages.find(|message| message.role() == Role::Assistant);
    let parts = answer
        .into_iter()
        .flat_map(|answer| answer.content().parts());
    parts.into_iter().any(|part| match part {
        Part::Thinking(block) | Part::Opaque(block) => block.provider.as_deref() == Some(tag),
        _ => false,
    })
}

#[async_trait]
impl Model for OpenAiAuto {
    fn id(&self) -> &str {
        self.chat.id()
    }

    fn profile(&self) -> &ModelProfile {
        self.chat.profile()
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        if !self.needs_responses(&request) {
            return self.chat.stream(request).await;
        }

        let answer = self.responses.stream(request).await;
        answer.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let name = self.chat.name();
                error.with_hint(format_args!(
                    "if the server has no Responses API, use `openai-chat:{name}`"
                ))
            }
            _ => error,
        })
    }

    async fn count_tokens(&self, request: ModelRequest) -> Result<Option<u64>> {
        if self.needs_responses(&request) {
            self.responses.count_tokens(request).await
        } else {
            self.chat.count_tokens(request).await
        }
    }
}
