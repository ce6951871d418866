//! A request to a model.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::message::{Messages, TokenCounter};
use crate::usage::total;
use crate::util::byte_pool::BytePool;

use super::event::ModelEvent;
use super::hosted::HostedTool;
use super::limits::ResponseLimits;
use super::provider_cache::ProviderCache;
use super::settings::{ModelSettings, ResponseFormat, ToolChoice};
use super::system_prompt::SystemPrompt;
use super::taps::{self, EventSink, Tap, Taps};

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The name the model calls.
    pub name: Arc<str>,
    /// The description of the tool and its use.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments, an object schema.
    pub parameters: Arc<Value>,
}

impl ToolDefinition {
    /// Creates a definition; `parameters` is an object schema.
    pub fn new(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        parameters: impl Into<Arc<Value>>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: parameters.into(),
        }
    }
}

/// One request to a model.
///
/// A clone is cheap: messages, tools and system prompt are shared.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ModelRequest {
    /// A model of the same provider to use instead of the model that receives the request.
    pub model: Option<Arc<str>>,
    /// Instructions, outside the history.
    pub system: SystemPrompt,
    /// The history. Must pass [`Messages::validate_for_model`].
    pub messages: Messages,
    /// The tools the model may call.
    pub tools: Arc<[ToolDefinition]>,
    /// The tools that the provider runs itself. Tools of other providers are omitted, with a
    /// warning.
    pub hosted_tools: Arc<[HostedTool]>,
    /// The maximum number of tokens to generate. With `None`, the profile's limit is sent to
    /// Anthropic's API, and to OpenAI's own server for models whose limit is in the built-in table.
    /// Other servers use their own limit, unless the model's builder sets one.
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature; `None` means the provider's default.
    pub temperature: Option<f64>,
    /// Sequences that end the generation.
    pub stop: Arc<[String]>,
    /// The tools the model may or must call.
    pub tool_choice: ToolChoice,
    /// The form of the response.
    pub response_format: Option<ResponseFormat>,
    /// The settings that not every model supports.
    pub settings: ModelSettings,
    /// Further fields for the provider's body, merged in last.
    pub extra: Map<String, Value>,
    taps: Vec<Tap>,
    visibility: ResponseVisibility,
    /// True if the reader receives no events, independent of the visibility.
    is_muted: bool,
    /// True if the events of an attempt are emitted only after it has succeeded.
    is_held: bool,
    /// The limits on the size of the response; `None` means the agent's.
    limits: Option<ResponseLimits>,
    provider_cache: ProviderCache,
    /// The memory for events that have not arrived whole, which the runs of a tree share.
    event_buffers: Option<BytePool>,
}

/// The form in which the reader of a run receives the response to a request.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum ResponseVisibility {
    /// The reader does not receive it, because it does not belong to the conversation. The text of
    /// a partial response is dropped.
    #[default]
    Hidden,
    /// The reader receives the whole response. The text of a partial response is kept.
    Whole,
    /// The reader also receives single events.
    Events,
}

impl ModelRequest {
    /// Creates a request that does not belong to the conversation of a run, such as one for a
    /// summary: the reader of the run receives neither its events nor its response.
    pub fn new(messages: impl Into<Messages>) -> Self {
        Self {
            messages: messages.into(),
            ..Self::default()
        }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<SystemPrompt>) -> Self {
        self.system = system.into();
        self
    }

    /// Sets the tools that the model may call.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = ToolDefinition>) -> Self {
        self.tools = tools.into_iter().collect();
        self
    }

    /// Sets the maximum number of tokens to generate.
    #[must_use]
    pub fn with_max_output_tokens(mut self, max_tokens: u32) -> Self {
        self.max_output_tokens = Some(max_tokens);
        self
    }

    /// Sets separate limits on the size of the response, instead of the agent's or the default
    /// ones.
    #[must_use]
    pub fn with_response_limits(mut self, limits: ResponseLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Maps the token stream: `f` receives every event and returns the events to emit instead, as
    /// an `Option`, an array or a `Vec`.
    ///
    /// `f` is cloned for every attempt, so its captured state starts over on a retry. If you buffer
    /// events, emit them when `Stop` arrives; an attempt that fails has no `Stop`. The response
    /// that is stored is made of the events before any `f`: a hook that redacts must also edit the
    /// [`ModelResponse`](super::ModelResponse).
    #[must_use]
    pub fn map_events<F, I>(mut self, f: F) -> Self
    where
        F: FnMut(ModelEvent) -> I + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = ModelEvent> + 'static,
    {
        self.taps.push(taps::mapping(f));
        self
    }

    /// Like [`map_events`](Self::map_events), for branches of different shape: push none, one or
    /// many events into the sink.
    #[must_use]
    pub fn pipe_events<F>(mut self, f: F) -> Self
    where
        F: FnMut(ModelEvent, &mut EventSink<'_>) + Clone + Send + Sync + 'static,
    {
        self.taps.push(taps::piping(f));
        self
    }

    /// Emits the events of an attempt only after it has succeeded, all at once.
    #[must_use]
    pub fn hold_events(mut self) -> Self {
        self.is_held = true;
        self
    }

    /// Emits no events to the reader. The functions given to [`map_events`](Self::map_events) still
    /// run; the text of a partial response does not stay in the history.
    ///
    /// The response counts as one of the run. For a question of a hook's own, use
    /// [`new`](Self::new).
    #[must_use]
    pub fn mute_events(mut self) -> Self {
        self.is_muted = true;
        self
    }

    /// Returns `true` if the reader or a hook receives single events. Otherwise a provider may join
    /// consecutive text events that arrived together, and leave out the pieces of a call that
    /// arrived whole.
    pub fn has_event_observers(&self) -> bool {
        let has_reader = self.visibility == ResponseVisibility::Events && !self.is_muted;
        has_reader || !self.taps.is_empty()
    }

    /// Returns the limits on the size of the response. The loop and
    /// [`Model::call`](super::Model::call) enforce them for every model. A provider that buffers
    /// data before it emits an event must enforce them on that data.
    pub fn response_limits(&self) -> ResponseLimits {
        self.limits.unwrap_or_default()
    }

    /// Returns the number of tokens of the prompt, as `counter` counts: messages, instructions and
    /// tools.
    pub fn count_tokens(&self, counter: &dyn TokenCounter) -> u64 {
        let messages = counter.count_messages(&self.messages);
        messages.saturating_add(self.overhead(counter))
    }

    /// Returns the number of tokens of the request without its messages.
    pub(crate) fn overhead(&self, counter: &dyn TokenCounter) -> u64 {
        request_overhead(counter, &self.system, &self.tools, &self.hosted_tools)
    }

    /// Returns the cache for the requests that the provider has encoded in this run.
    pub fn provider_cache(&self) -> &ProviderCache {
        &self.provider_cache
    }

    /// Sets the form in which the reader receives the response. Defaults to hidden.
    pub(crate) fn with_visibility(mut self, visibility: ResponseVisibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// Sets the limits on the response unless the request has its own.
    pub(crate) fn or_response_limits(mut self, limits: ResponseLimits) -> Self {
        self.limits.get_or_insert(limits);
        self
    }

    #[cfg_attr(not(feature = "http"), expect(dead_code))]
    pub(crate) fn event_buffers(&self) -> Option<&BytePool> {
        self.event_buffers.as_ref()
    }

    pub(crate) fn with_event_buffers(mut self, buffers: BytePool) -> Self {
        self.event_buffers = Some(buffers);
        self
    }

    pub(crate) fn with_provider_cache(mut self, cache: ProviderCache) -> Self {
        self.provider_cache = cache;
        self
    }

    /// Returns `true` if the response belongs to the conversation: it is added to a history.
    pub(crate) fn is_of_conversation(&self) -> bool {
        self.visibility != ResponseVisibility::Hidden
    }

    /// Returns `true` if the response is shown while it arrives: the reader may receive its events,
    /// and its text is kept if it is partial.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_of_conversation() && !self.is_muted
    }

    /// Returns `true` if the events of an attempt are emitted only after it has succeeded.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Creates the mappers of one attempt, with fresh state.
    pub(crate) fn start_taps(&self) -> Taps {
        Taps::start(&self.taps)
    }
}

/// Returns the number of tokens of a request without its messages.
pub(crate) fn request_overhead(
    counter: &dyn TokenCounter,
    system: &SystemPrompt,
    tools: &[ToolDefinition],
    hosted_tools: &[HostedTool],
) -> u64 {
    let system = system
        .sections()
        .map(|section| counter.count_text(&section.text));
    let tools = tools.iter().flat_map(|tool| {
        let parameters = tool.parameters.to_string();
        [
            counter.count_text(&tool.description),
            counter.count_text(&parameters),
        ]
    });
    let hosted_tools = hosted_tools
        .iter()
        .map(|tool| counter.count_text(&tool.raw.to_string()));
    total(system.chain(tools).chain(hosted_tools))
}

impl From<Messages> for ModelRequest {
    fn from(messages: Messages) -> Self {
        Self::new(messages)
    }
}

impl fmt::Debug for ModelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest")
            .field("model", &self.model)
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .field("max_output_tokens", &self.max_output_tokens)
            .field("taps", &self.taps.len())
            .finish_non_exhaustive()
    }
}
