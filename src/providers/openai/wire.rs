//! The chunks of a Chat Completions stream, as leniently as its many servers need.
//!
//! Format: the OpenAI API reference, "The chat completion chunk object", and what llama.cpp,
//! vLLM, DeepSeek, OpenRouter and Mistral send in its place.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::usage::Usage;

use super::super::chat::Function;
use super::super::lenient::{Count, Few, List, Object, Text, is_empty_value};
use super::rules::OutputCount;

/// The name of the wire format, and the tag of its blocks.
pub(super) const PROVIDER: &str = "openai";

/// The fields of a chunk that differ from chunk to chunk.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireChunk<'a> {
    /// A list of choices, usually of one.
    #[serde(borrow)]
    pub(super) choices: Option<&'a RawValue>,
    pub(super) usage: Object<WireUsage>,
    #[serde(borrow)]
    pub(super) x_groq: Object<Groq<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// Groq's own part of a chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq<'a> {
    pub(super) usage: Object<WireUsage>,
    /// The reason why the stream ends early.
    #[serde(borrow)]
    pub(super) error: Text<'a>,
}

/// The choices of a chunk.
pub(super) type Choices<'a> = Few<Choice<'a>>;

/// The fields that every chunk repeats. They are read until the answer has begun, and from chunks
/// without choices.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) object: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Option<WireDelta<'a>>,
    /// The whole answer, or all of it so far, instead of a delta or next to it.
    #[serde(borrow)]
    pub(super) message: Option<Box<WireDelta<'a>>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireDelta<'a> {
    #[serde(borrow)]
    pub(super) content: DeltaContent<'a>,
    /// DeepSeek, llama.cpp and vLLM.
    #[serde(borrow)]
    pub(super) reasoning_content: Text<'a>,
    /// OpenRouter, Groq and newer vLLM.
    #[serde(borrow)]
    pub(super) reasoning: Text<'a>,
    /// OpenRouter: a list of reasoning that is sent back unchanged.
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    /// Gemini: the signature of a text.
    #[serde(borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: List<CallDelta<'a>>,
}

impl<'a> WireDelta<'a> {
    /// Returns `true` if the delta has text, reasoning, a refusal or calls.
    pub(super) fn has_answer(&self) -> bool {
        let has_content = match &self.content {
            DeltaContent::Text(text) => !text.is_empty(),
            DeltaContent::Chunks(chunks) => !chunks.is_empty(),
        };
        let texts = [&self.reasoning_content, &self.reasoning, &self.refusal];
        has_content
            || texts.iter().any(|text| !text.is_empty())
            || self
                .reasoning_details
                .is_some_and(|list| !is_empty_value(list))
            || !self.tool_calls.0.is_empty()
    }

    /// Returns the text, if the delta brings nothing else and the text has no escapes.
    fn plain_text(&self) -> Option<&'a str> {
        match self.content {
            DeltaContent::Text(Text(Cow::Borrowed(text)))
                if self.tool_calls.0.is_empty() && !self.has_others() =>
            {
                Some(text)
            }
            _ => None,
        }
    }

    /// Returns the index of a call and the JSON text of a piece of its arguments, if the delta
    /// brings nothing else.
    fn plain_args(&self) -> Option<(Option<u64>, &'a str)> {
        let [call] = &*self.tool_calls.0 else {
            return None;
        };
        let function = call.function.as_ref()?;
        let args = function.arguments?.get();
        let has_text = !matches!(&self.content, DeltaContent::Text(text) if text.is_empty());
        let has_others = has_text
            || self.has_others()
            || call.extra_content.is_some()
            || !call.id.is_empty()
            || !function.name.is_empty();
        (!has_others && args.starts_with('"')).then_some((call.index.0, args))
    }

    /// Returns `true` if the delta has more than content and calls.
    fn has_others(&self) -> bool {
        let texts = [&self.reasoning_content, &self.reasoning, &self.refusal];
        self.reasoning_details.is_some()
            || self.extra_content.is_some()
            || texts.iter().any(|text| !text.is_empty())
    }
}

/// The content of a delta.
pub(super) enum DeltaContent<'a> {
    Text(Text<'a>),
    /// The chunks of a list.
    Chunks(Vec<&'a RawValue>),
}

impl Default for DeltaContent<'_> {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for DeltaContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let content = if raw.starts_with('[') {
            serde_json::from_str(raw).map(Self::Chunks)
        } else {
            serde_json::from_str(raw).map(Self::Text)
        };
        content.map_err(D::Error::custom)
    }
}

/// Returns the text of the first choice, if the choices have nothing else and it has no escapes.
pub(super) fn plain_text<'a>(choices: &Choices<'a>) -> Option<&'a str> {
    only_delta(choices)?.plain_text()
}

/// Returns the index of a call and the JSON text of a piece of its arguments, if the choices have
/// nothing else.
pub(super) fn plain_args<'a>(choices: &Choices<'a>) -> Option<(Option<u64>, &'a str)> {
    only_delta(choices)?.plain_args()
}

/// Returns the delta of the first choice, if the choices have nothing else.
fn only_delta<'c, 'a>(choices: &'c Choices<'a>) -> Option<&'c WireDelta<'a>> {
    let choice = choices.only()?;
    if choice.index.get() != 0 || choice.message.is_some() || !choice.finish_reason.is_empty() {
        return None;
    }
    choice.delta.as_ref()
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
    /// Gemini: the signature of the call.
    #[serde(borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Object<PromptDetails>,
    completion_tokens_details: Object<CompletionDetails>,
    /// DeepSeek's name for the cached part of the prompt.
    prompt_cache_hit_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Count,
}

impl WireUsage {
    /// Returns the usage with all output tokens, of which the server reports the part `output`.
    pub(super) fn count(self, output: OutputCount) -> Usage {
        let details = self.prompt_tokens_details.0.unwrap_or_default();
        let cached = details
            .cached_tokens
            .get()
            .max(self.prompt_cache_hit_tokens.get());
        // The prompt's tokens include the cached and the written ones; `Usage` counts them apart.
        let write_tokens = details.cache_write_tokens.get();
        let prompt = self.prompt_tokens.get();
        let input = prompt.saturating_sub(cached).saturating_sub(write_tokens);
        let completion = self.completion_tokens_details.0.unwrap_or_default();
        let reasoning_tokens = completion.reasoning_tokens.get();
        let output_tokens = match (output, self.completion_tokens.get()) {
            (OutputCount::Whole, tokens) => tokens,
            (OutputCount::WithoutReasoning, tokens) => tokens.saturating_add(reasoning_tokens),
            (OutputCount::Remainder, tokens) => {
                tokens.max(self.total_tokens.get().saturating_sub(prompt))
            }
        };

        let mut usage = Usage::new(input, output_tokens);
        usage = usage.with_cache(cached, write_tokens);
        usage.reasoning_tokens = reasoning_tokens;
        usage
    }
}
