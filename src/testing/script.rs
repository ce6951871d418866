//! One step of a [`ScriptedModel`](super::ScriptedModel).

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::message::{Part, ProviderBlock, ToolCall};
use crate::model::{ModelEvent, ResponseHead, StopReason};
use crate::usage::Usage;

use super::events;

/// The behavior of a scripted model in one call.
///
/// ```
/// use agentcore::Usage;
/// use agentcore::testing::{ScriptedModel, Step};
/// use serde_json::json;
///
/// let step = Step::text("Let me look.")
///     .and_call("read_file", json!({"path": "notes.txt"}))
///     .usage(Usage::new(100, 20));
/// let model = ScriptedModel::new().step(step);
/// # model.allow_unused();
/// ```
#[derive(Debug, Default)]
pub struct Step {
    answer: ScriptedAnswer,
    stop: Option<StopReason>,
    pub(super) usage: Option<Usage>,
    pub(super) delay: Duration,
    pub(super) hangs: bool,
}

#[derive(Debug)]
enum ScriptedAnswer {
    /// The call fails before the stream begins.
    Failure(Error),
    /// The events of the stream, as they are.
    Exact(Vec<Result<ModelEvent>>),
    /// The parts of the answer, from which the events are made.
    Pieces(Vec<Piece>),
}

impl Default for ScriptedAnswer {
    fn default() -> Self {
        Self::Pieces(Vec::new())
    }
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// A call that gets the next id of the model.
    Call {
        name: Arc<str>,
        raw: String,
    },
    /// A call with its own id.
    Whole(ToolCall),
    Event(ModelEvent),
}

impl Step {
    /// Creates an empty answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a step with this text, streamed word by word.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().piece(Piece::Text(text.into()))
    }

    /// Creates a step with this tool call.
    pub fn call(name: impl Into<Arc<str>>, args: impl Into<Value>) -> Self {
        Self::new().and_call(name, args)
    }

    /// Creates a step whose call fails before the stream begins. Parts of an answer, a usage and a
    /// stop reason have no effect on it.
    pub fn fail(error: Error) -> Self {
        Self {
            answer: ScriptedAnswer::Failure(error),
            ..Self::new()
        }
    }

    /// Creates a step of exactly these events. No `Start`, no `Stop` and no id is added. Parts of
    /// an answer, a usage and a stop reason have no effect on it.
    pub fn exactly(events: Vec<Result<ModelEvent>>) -> Self {
        Self {
            answer: ScriptedAnswer::Exact(events),
            ..Self::new()
        }
    }

    /// Adds text.
    #[must_use]
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.piece(Piece::Text(text.into()))
    }

    /// Adds a tool call with the model's next id, `call_N`.
    #[must_use]
    pub fn and_call(self, name: impl Into<Arc<str>>, args: impl Into<Value>) -> Self {
        let args: Value = args.into();
        self.and_call_raw(name, args.to_string())
    }

    /// Like [`and_call`](Self::and_call), with the arguments as the model would write them: not
    /// necessarily JSON.
    #[must_use]
    pub fn and_call_raw(self, name: impl Into<Arc<str>>, raw: impl Into<String>) -> Self {
        let (name, raw) = (name.into(), raw.into());
        self.piece(Piece::Call { name, raw })
    }

    /// Adds a tool call with its own id.
    #[must_use]
    pub fn and_tool_call(self, call: ToolCall) -> Self {
        self.piece(Piece::Whole(call))
    }

    /// Adds reasoning, which is emitted as `shown` and stored as `block`.
    #[must_use]
    pub fn and_thinking(self, shown: impl Into<String>, block: ProviderBlock) -> Self {
        self.piece(Piece::Event(ModelEvent::Thinking(shown.into())))
            .piece(Piece::Event(ModelEvent::Part(Part::Thinking(block))))
    }

    /// Adds an event.
    #[must_use]
    pub fn and_event(self, event: ModelEvent) -> Self {
        self.piece(Piece::Event(event))
    }

    /// Sets the usage.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the stop reason. Defaults to `ToolUse` if there are calls, otherwise to `EndTurn`.
    #[must_use]
    pub fn stop(mut self, reason: StopReason) -> Self {
        self.stop = Some(reason);
        self
    }

    /// Sets the time to wait before the step, on tokio's clock.
    #[must_use]
    pub fn delayed(mut self, wait: Duration) -> Self {
        self.delay = wait;
        self
    }

    /// Makes the stream never end after its events. A `Stop` is omitted, except from the events of
    /// [`exactly`](Self::exactly). It has no effect on a step that fails.
    #[must_use]
    pub fn then_hang(mut self) -> Self {
        self.hangs = true;
        self
    }

    /// Adds a piece of the answer; a failure and exact events have none.
    fn piece(mut self, piece: Piece) -> Self {
        if let ScriptedAnswer::Pieces(pieces) = &mut self.answer {
            pieces.push(piece);
        }
        self
    }

    /// Returns the events of this step as the `number`th call of its model.
    ///
    /// # Errors
    ///
    /// Returns the failure that the step was built with.
    pub(super) fn play(
        self,
        number: usize,
        mut next_id: impl FnMut() -> Arc<str>,
    ) -> Result<Vec<Result<ModelEvent>>> {
        let pieces = match self.answer {
            ScriptedAnswer::Failure(error) => return Err(error),
            ScriptedAnswer::Exact(events) => return Ok(events),
            ScriptedAnswer::Pieces(pieces) => pieces,
        };

        let mut out = Vec::new();
        let mut index = 0;
        for piece in pieces {
            let call = match piece {
                Piece::Text(text) => {
                    out.extend(events::words(&text).map(ModelEvent::Text));
                    continue;
                }
                Piece::Event(event) => {
                    out.push(event);
                    continue;
                }
                Piece::Call { name, raw } => ToolCall::from_raw(next_id(), name, raw),
                Piece::Whole(call) => call,
            };

            out.extend(events::call(index, call));
            index += 1;
        }

        let stop = out
            .iter()
            .position(|e| matches!(e, ModelEvent::Stop { .. }));
        if let Some(usage) = self.usage {
            out.insert(stop.unwrap_or(out.len()), ModelEvent::Usage(usage));
        }

        if let (None, Some(reason)) = (stop, self.stop) {
            out.push(ModelEvent::stop(reason));
        }

        let head = ResponseHead::new(format!("response_{number}"), "scripted");
        let mut out = events::complete(out.into_iter().map(Ok).collect(), head);
        if self.hangs {
            out.retain(|event| !matches!(event, Ok(ModelEvent::Stop { .. })));
        }

        Ok(out)
    }
}

impl From<Vec<ModelEvent>> for Step {
    /// Creates a step of these events, with `Start` and `Stop` added where they are missing.
    fn from(events: Vec<ModelEvent>) -> Self {
        events.into_iter().fold(Self::new(), Self::and_event)
    }
}

impl From<&str> for Step {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
