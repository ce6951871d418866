//! The reasons why a model stops.

use std::fmt;
use std::sync::Arc;

/// The reason the model stopped generating. The loop runs the tool calls of a response regardless
/// of this reason.
///
/// | `StopReason` | Anthropic | OpenAI and compatible | Ollama |
/// |---|---|---|---|
/// | `EndTurn` | `end_turn` | `stop`, `eos` | `stop` |
/// | `ToolUse` | `tool_use` | `tool_calls`, `function_call` | |
/// | `MaxTokens` | `max_tokens` | `length` | `length` |
/// | `StopSequence` | `stop_sequence` | | |
/// | `Refusal` | `refusal` | `content_filter` | |
/// | `PauseTurn` | `pause_turn` | | |
/// | `ContextWindow` | `model_context_window_exceeded` | `model_length` | |
///
/// Gemini and OpenAI's Responses API have other words, which their providers convert: the reason of
/// a filtered response (such as `SAFETY`) becomes `Refusal`, the reason of a response that reached
/// the output limit `MaxTokens`, and the reason of a complete response with calls `ToolUse`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The response is complete.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// A stop sequence was generated.
    StopSequence,
    /// The model, or a filter before it, refused.
    Refusal,
    /// A long turn was paused; sending the history back continues it.
    PauseTurn,
    /// The context window is full.
    ContextWindow,
    /// An unknown reason, as the provider spelled it.
    Other(Arc<str>),
}

impl StopReason {
    /// Returns the reason in the Messages API's spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::PauseTurn => "pause_turn",
            Self::ContextWindow => "model_context_window_exceeded",
            Self::Other(other) => other,
        }
    }
}

impl From<&str> for StopReason {
    /// Reads any of the spellings in the table above, in upper or lower case.
    fn from(label: &str) -> Self {
        match &*label.to_ascii_lowercase() {
            "end_turn" | "stop" | "eos" => Self::EndTurn,
            "tool_use" | "tool_calls" | "function_call" => Self::ToolUse,
            "max_tokens" | "length" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "refusal" | "content_filter" => Self::Refusal,
            "pause_turn" => Self::PauseTurn,
            "model_context_window_exceeded" | "model_length" => Self::ContextWindow,
            _ => Self::Other(label.into()),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
