//! The tool calls of one answer: run concurrently or alone, with their results in the order of the
//! calls.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::stream::FuturesUnordered;
use futures::{StreamExt, poll};
use serde_json::{Map, Value};
use tokio::task::yield_now;
use uuid::Uuid;

use crate::error::Result;
use crate::message::{Message, Part, ToolCall, ToolResult};
use crate::run::{ExitReason, Stop};
use crate::sdk::{SdkMessage, UserEvent};
use crate::session::Record;
use crate::tool::{Concurrency, Tool};
use crate::util::{Pace, panic};

use super::active_run::Driver;
use super::repeats::{Repeated, WARNING};
use super::sanitize;
use super::tool_call::{Calls, Outcome};

/// One call of a turn and its outcome.
struct Slot {
    call: ToolCall,
    started: AtomicBool,
    outcome: Option<Outcome>,
}

impl Driver {
    /// Runs the calls of an answer and stores their results; why the run ends, if it does.
    pub(super) async fn run_calls(&mut self, calls: Vec<ToolCall>) -> Result<Option<ExitReason>> {
        let mut slots: Vec<_> = calls.into_iter().map(Slot::new).collect();
        let shared = self.cx.clone();
        // Nothing is run before the reader had a chance to see what will be.
        shared.shared().drained().await;
        let finished = shared
            .shared()
            .unless_stopped(self.run_slots(&mut slots))
            .await;
        let stopped = match finished {
            Some(outcome) => {
                outcome?;
                None
            }
            None => Some(self.stopped()),
        };
        let mut results = Vec::with_capacity(slots.len());
        let mut exit = stopped;
        let mut parked = Vec::new();
        for slot in slots {
            match slot.outcome {
                Some(Outcome::Done(result)) => results.push((slot.call, result)),
                Some(Outcome::Parked(pending)) => parked.push(pending),
                Some(Outcome::Interrupt(result)) => {
                    exit = exit.or(Some(ExitReason::Interrupted));
                    results.push((slot.call, result));
                }
                None => {
                    let result = cancelled(&slot.call, slot.started.load(Ordering::Acquire));
                    results.push((slot.call, result));
                }
            }
        }
        if stopped.is_some() {
            self.stopped_in_tools = true;
            self.note_stop();
        }
        let looping = self.note_repeats(&mut results);
        self.keep_results(results).await?;
        if !parked.is_empty() {
            let state = self.cx.state(|state| {
                state.pending.extend(parked);
                state.clone()
            });
            // Hooks may send the questions on as soon as they see them.
            self.save(&state).await?;
            let exit = exit.or_else(|| self.halted());
            return Ok(exit.or(Some(ExitReason::AwaitingApproval)));
        }
        Ok(exit.or(looping))
    }

    /// Runs the slots in order; neighbours that allow it run concurrently.
    async fn run_slots(&self, slots: &mut [Slot]) -> Result<()> {
        let halt = AtomicBool::new(false);
        let calls = self.calls(&halt)?;
        let limit = self.config.limits.parallel_tools;
        let mut rest = slots;
        let mut pace = Pace::default();
        while !rest.is_empty() {
            let together = rest
                .iter()
                .take_while(|slot| self.is_parallel(&slot.call))
                .count();
            let (group, later) = rest.split_at_mut(together.max(1));
            rest = later;
            let mut waiting = group.iter_mut();
            let first = waiting.by_ref().take(limit);
            let mut running: FuturesUnordered<_> = first.map(|slot| calls.run_slot(slot)).collect();
            let mut ended = Vec::new();
            loop {
                match poll!(running.next()) {
                    Poll::Ready(Some(slot)) => {
                        ended.push(slot);
                        self.end_step(&mut pace).await;
                        running.extend(waiting.next().map(|slot| calls.run_slot(slot)));
                        continue;
                    }
                    Poll::Ready(None) => break,
                    Poll::Pending => {}
                }
                let mut writing = pin!(self.keep_ended(self.ended(&ended)));
                ended.clear();
                let mut is_written = false;
                // Side by side: what the store waits for may be held by one of the calls.
                while !is_written || ended.is_empty() {
                    tokio::select! {
                        biased;
                        () = &mut writing, if !is_written => is_written = true,
                        slot = running.next(), if !running.is_empty() => {
                            ended.extend(slot);
                            running.extend(waiting.next().map(|slot| calls.run_slot(slot)));
                        }
                        else => break,
                    }
                }
            }
            if !rest.is_empty() {
                self.keep_ended(self.ended(&ended)).await;
                self.end_step(&mut pace).await;
            }
        }
        Ok(())
    }

    /// Calls may all be ready at once: a stop of the run takes effect here, before the next begins.
    async fn end_step(&self, pace: &mut Pace) {
        pace.step(0).await;
        if self.cx.shared().stop() != Stop::None {
            yield_now().await;
        }
    }

    /// The results that wait for other calls before they join the history.
    fn ended(&self, slots: &[&mut Slot]) -> Vec<Record> {
        let results = slots.iter().filter_map(|slot| match &slot.outcome {
            Some(Outcome::Done(result)) if self.is_recorded(slot) => Some(result.clone()),
            _ => None,
        });
        results
            .map(|mut result| {
                sanitize::result(&mut result);
                let result = Arc::new(Message::Tool(result));
                Record::ToolEnded { result }
            })
            .collect()
    }

    /// Stores the results of completed calls when the turn is interrupted, because their effects
    /// are real.
    async fn keep_ended(&self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let stored = match self.keeper() {
            Ok(keeper) => keeper.append_with(&self.cx, records).await,
            Err(error) => Err(error),
        };
        if let Err(error) = stored {
            // Nobody has been shown these results. They are stored again with their turn's, and
            // what fails then ends the run.
            self.cx.warn(format!(
                "results of finished calls were not stored: {error}"
            ));
        }
    }

    /// Returns `true` if the start of this slot's call was stored.
    fn is_recorded(&self, slot: &Slot) -> bool {
        let changes = |tool: Arc<dyn Tool>| {
            panic::contained(|| !tool.side_effect().is_read_only()).unwrap_or(true)
        };
        slot.started.load(Ordering::Acquire) && self.cx.tool(&slot.call.name).is_some_and(changes)
    }

    /// The context of the calls; `halt` is shared by those of one turn.
    pub(super) fn calls<'a>(&'a self, halt: &'a AtomicBool) -> Result<Calls<'a>> {
        Ok(Calls {
            config: &self.config,
            cx: &self.cx,
            keeper: self.keeper()?,
            halt,
        })
    }

    fn is_parallel(&self, call: &ToolCall) -> bool {
        let parallel = |tool: Arc<dyn Tool>| {
            panic::contained(|| tool.concurrency() == Concurrency::Parallel).unwrap_or(false)
        };
        self.cx.tool(&call.name).is_none_or(parallel)
    }

    /// Counts equal calls with equal results; the model is warned first, then the run ends.
    fn note_repeats(&mut self, results: &mut [(ToolCall, ToolResult)]) -> Option<ExitReason> {
        let mut exit = None;
        if !self.config.limits.loop_detection {
            return exit;
        }
        let repeated = self.repeats.note(results);
        for ((call, result), repeated) in results.iter_mut().zip(repeated) {
            match repeated {
                Repeated::No => {}
                Repeated::Warn => {
                    result.content.parts_mut().push(Part::Text(WARNING.into()));
                }
                Repeated::Stop => {
                    self.notes.push(format!(
                        "the model made the same call of tool {:?} with the same result again \
                         and again",
                        call.name
                    ));
                    exit = Some(ExitReason::LoopDetected);
                }
            }
        }
        exit
    }

    /// Stores results in the order of their calls, then shows them as one user message.
    async fn keep_results(&mut self, results: Vec<(ToolCall, ToolResult)>) -> Result<()> {
        if results.is_empty() {
            return Ok(());
        }
        let for_programs = for_programs(results.iter().map(|(_, result)| result));
        let messages: Vec<_> = results
            .into_iter()
            .map(|(_, mut result)| {
                sanitize::result(&mut result);
                Arc::new(Message::Tool(result))
            })
            .collect();
        if let Err(error) = self.append(messages.clone(), None).await {
            // The tools have run: what is saved at the run's end must not say otherwise.
            self.cx.state(|state| state.messages.extend(messages));
            return Err(error);
        }
        let count = messages.len();
        let id = self.show_results(messages, for_programs);
        self.note_shown(count, id);
        Ok(())
    }

    pub(super) fn show_results(
        &self,
        messages: Vec<Arc<Message>>,
        for_programs: Option<Value>,
    ) -> Uuid {
        let envelope = self.cx.shared().envelope();
        let id = envelope.uuid;
        let mut event = UserEvent::new(envelope, messages);
        event.tool_use_result = for_programs;
        self.cx.shared().push(SdkMessage::User(Box::new(event)));
        id
    }
}

impl Calls<'_> {
    /// Runs the slot's call and stores its outcome.
    async fn run_slot<'s>(&self, slot: &'s mut Slot) -> &'s mut Slot {
        let running = panic::caught(self.run(slot.call.clone(), &slot.started));
        let outcome = running.await.unwrap_or_else(|text| {
            let text = format!("the call of tool {:?} panicked: {text}", slot.call.name);
            Some(Outcome::Done(ToolResult::failed(&slot.call, text)))
        });
        slot.outcome = outcome;
        slot
    }
}

impl Slot {
    fn new(call: ToolCall) -> Self {
        Self {
            call,
            started: AtomicBool::new(false),
            outcome: None,
        }
    }
}

pub(super) fn cancelled(call: &ToolCall, started: bool) -> ToolResult {
    let text = if started {
        "cancelled: the run was stopped while this call was going on; it may have had an effect"
    } else {
        "cancelled: the run was stopped before this call began; it did not run"
    };
    ToolResult::failed(call, text)
}

/// The parts of the results for programs, by call; `None` when there are none.
pub(super) fn for_programs<'a>(
    results: impl ExactSizeIterator<Item = &'a ToolResult>,
) -> Option<Value> {
    let count = results.len();
    let entries: Vec<Value> = results
        .filter_map(|result| {
            let mut entry = Map::new();
            let mut put = |key: &str, value: Value| entry.insert(key.into(), value);
            if let Some(details) = &result.details {
                put("details", details.clone());
            }
            if let Some(display) = &result.display {
                put("display", display.as_str().into());
            }
            if result.silent {
                put("silent", true.into());
            }
            if result.is_async {
                put("is_async", true.into());
            }
            if entry.is_empty() {
                return None;
            }
            entry.insert("tool_use_id".into(), Value::from(&*result.tool_call_id));
            Some(Value::Object(entry))
        })
        .collect();
    match entries.len() {
        0 => None,
        1 if count == 1 => entries.into_iter().next(),
        _ => Some(Value::Array(entries)),
    }
}
