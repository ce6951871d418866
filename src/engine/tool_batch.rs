//! The tool calls of one response: run concurrently or alone, with their results in the order of
//! the calls.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures::stream::FuturesUnordered;
use futures::{StreamExt, poll};
use tokio::sync::Mutex;
use tokio::task::yield_now;

use crate::error::Result;
use crate::message::{Message, Part, ToolCall, ToolResult};
use crate::run::ExitReason;
use crate::session::{PendingCall, Record};
use crate::tool::{Comparisons, Concurrency, Tool};
use crate::util::byte_pool::PoolShare;
use crate::util::json::text_len;
use crate::util::{Pace, panic};

use super::active_run::ActiveRun;
use super::call_starts::{CallStart, CallStarts};
use super::repeats::{Repeated, STOP, WARNING};
use super::result_limits::limit_result;
use super::run_input::add_input_prompt;
use super::sanitize;
use super::tool_call::{CallOutcome, CallRunner, Halt};

/// One call of a batch and its outcome.
struct CallSlot {
    call: ToolCall,
    start: CallStart,
    outcome: Option<CallOutcome>,
    /// The memory of the result, until the result is part of the history.
    share: Option<PoolShare>,
}

impl CallSlot {
    fn new(call: ToolCall, start: CallStart) -> Self {
        Self {
            call,
            start,
            outcome: None,
            share: None,
        }
    }
}

impl ActiveRun {
    /// Returns the ids of the calls of a response whose starts are stored with the response. These
    /// calls begin at once: no hook, gate or question can intervene. Read-only calls have no stored
    /// start.
    pub(super) async fn certain_starts(&self, calls: &[ToolCall]) -> Vec<Arc<str>> {
        let runner = self.call_runner(calls.len());
        let group_len = runner
            .group_len(calls.iter())
            .min(self.config.limits.parallel_tools);
        let mut call_ids = Vec::new();
        let mut pace = Pace::default();
        for call in &calls[..group_len.min(calls.len())] {
            pace.step(text_len(&call.args)).await;
            let is_certain = panic::catch(|| runner.has_certain_start(call));
            if is_certain.unwrap_or(false) {
                call_ids.push(call.id.clone());
            }
        }
        call_ids
    }

    /// Runs the calls of a response and stores their results. `stored_starts` are the ids of the
    /// calls whose starts are stored, and `note` is added to the last result. Returns the exit
    /// reason if the run ends with the calls.
    pub(super) async fn run_calls(
        &mut self,
        calls: Vec<ToolCall>,
        stored_starts: &[Arc<str>],
        note: Option<String>,
    ) -> Result<Option<ExitReason>> {
        let cx = self.cx.clone();

        // The reader receives the calls before they run.
        cx.shared().drained().await;
        let mut batch = ToolBatch::new(self.call_runner(calls.len()), calls, stored_starts);
        let run_outcome = cx.shared().unless_stopped(batch.run()).await;
        let is_stopped = run_outcome.is_none();
        let FinishedBatch {
            mut results,
            pending_calls,
            shares,
            is_interrupted,
        } = batch.finish();
        cx.discard_child_texts();
        let mut exit = is_interrupted.then_some(ExitReason::Interrupted);
        if is_stopped {
            self.outcome.was_stopped_in_tools = true;
            exit = Some(self.outcome.record_stop(cx.shared().stop()));
        }

        let loop_exit = self.count_repeats(&mut results);
        if let (Some((_, result)), Some(note)) = (results.last_mut(), note) {
            result.content.parts_mut().push(Part::Text(note));
        }

        let results = results.into_iter().map(|(_, result)| result).collect();
        self.history.store_results(results).await?;
        drop(shares);
        if pending_calls.is_empty() {
            return Ok(exit.or(loop_exit));
        }

        self.store_pending(pending_calls).await?;
        let exit = exit.or_else(|| self.check_stop());
        Ok(exit.or(Some(ExitReason::AwaitingApproval)))
    }

    /// Stores the pending calls.
    async fn store_pending(&self, mut calls: Vec<PendingCall>) -> Result<()> {
        add_input_prompt(&self.cx, &mut calls);
        self.cx.state(|state| state.pending.extend(calls));

        // Saved before the run ends, because hooks may forward the questions as soon as they see
        // them.
        self.history.save().await
    }

    /// Creates a runner for `call_count` calls, whose results stay in memory until the last call
    /// ends.
    pub(super) fn call_runner(&self, call_count: usize) -> CallRunner<'_> {
        CallRunner {
            config: &self.config,
            cx: &self.cx,
            writer: &self.history.writer,
            starts: CallStarts::new(call_count),
            byte_size: &self.history.byte_size,
            max_result_bytes: self.history.byte_size.max_result_bytes(call_count),
            halt: Halt::default(),
            decision_pace: Mutex::default(),
            comparisons: Comparisons::default(),
        }
    }

    /// Counts equal calls with equal results. Adds a warning for the model to the result of a call
    /// that repeats, and returns the exit reason if the run ends because of one.
    fn count_repeats(&mut self, results: &mut [(ToolCall, ToolResult)]) -> Option<ExitReason> {
        if !self.config.limits.loop_detection {
            return None;
        }

        let mut exit = None;
        let repeats = self.repeats.record(results);
        for ((call, result), repeat) in results.iter_mut().zip(repeats) {
            match repeat {
                Repeated::No => {}
                Repeated::Warn => {
                    result.content.parts_mut().push(Part::Text(WARNING.into()));
                }
                Repeated::Stop => {
                    self.outcome.add_error_text(format!(
                        "the model repeated one call of tool {:?} with the same result {STOP} \
                         times (loop_detection)",
                        call.name
                    ));
                    exit = Some(ExitReason::LoopDetected);
                }
            }
        }

        exit
    }
}

/// The calls of one response.
struct ToolBatch<'a> {
    runner: CallRunner<'a>,
    slots: Vec<CallSlot>,
}

/// The outcomes of a batch, in the order of its calls.
struct FinishedBatch {
    results: Vec<(ToolCall, ToolResult)>,
    pending_calls: Vec<PendingCall>,
    shares: Vec<PoolShare>,
    /// True if a permission gate requires the run to end.
    is_interrupted: bool,
}

impl<'a> ToolBatch<'a> {
    fn new(runner: CallRunner<'a>, calls: Vec<ToolCall>, stored_starts: &[Arc<str>]) -> Self {
        // The ids are in the order of the calls.
        let mut stored_starts = stored_starts.iter().peekable();
        let slots = calls.into_iter().map(|call| {
            let is_stored = stored_starts.next_if(|id| **id == call.id).is_some();
            let start = if is_stored {
                CallStart::stored()
            } else {
                CallStart::default()
            };
            CallSlot::new(call, start)
        });
        Self {
            slots: slots.collect(),
            runner,
        }
    }

    /// Returns the outcomes of the calls. A call without an outcome, or that did not begin, was
    /// cancelled.
    fn finish(self) -> FinishedBatch {
        let mut batch = FinishedBatch {
            results: Vec::with_capacity(self.slots.len()),
            pending_calls: Vec::new(),
            shares: Vec::new(),
            is_interrupted: self.runner.halt.is_interrupted(),
        };

        for slot in self.slots {
            batch.shares.extend(slot.share);
            let result = match slot.outcome {
                Some(CallOutcome::Done(result)) => result,
                Some(CallOutcome::Pending(pending)) => {
                    batch.pending_calls.push(pending);
                    continue;
                }
                Some(CallOutcome::NotBegun) | None => {
                    let has_begun = slot.start.has_begun();
                    let mut result = self.runner.cancelled_result(&slot.call, has_begun);
                    let share = self.runner.byte_size.hold_result(&mut result, &slot.call);
                    batch.shares.push(share);
                    result
                }
            };

            batch.results.push((slot.call, result));
        }

        batch
    }

    /// Runs the calls in order; consecutive calls run concurrently if they allow it.
    async fn run(&mut self) {
        let Self { runner, slots } = self;
        let runner = &*runner;
        let mut pace = Pace::default();
        let mut remaining = &mut slots[..];
        while !remaining.is_empty() {
            let group_len = runner.group_len(remaining.iter().map(|slot| &slot.call));
            let (group, tail) = remaining.split_at_mut(group_len);
            remaining = tail;
            let unstored_slots = runner.run_group(group, &mut pace).await;

            // The results of the last group are stored with the turn.
            if !remaining.is_empty() {
                runner
                    .store_ended(runner.ended_records(&unstored_slots))
                    .await;
                runner.yield_between_calls(&mut pace).await;
            }
        }
    }
}

impl CallRunner<'_> {
    /// Runs a group of calls concurrently, and stores the results of calls that end while others
    /// still run. Returns the slots whose results are not stored yet.
    async fn run_group<'s>(
        &self,
        group: &'s mut [CallSlot],
        pace: &mut Pace,
    ) -> Vec<&'s mut CallSlot> {
        let mut queue = group.iter_mut();
        let mut running_calls = FuturesUnordered::new();
        let mut ended_slots = Vec::new();
        // The allocation of a call that has ended, for the next one: the future of a call is large.
        let mut ended_call = None;
        let max_parallel = self.config.limits.parallel_tools;
        loop {
            // First, start calls while there is room. Most end in their first poll: only the others
            // are added to the set, which costs more than such a call. After `max_parallel` starts,
            // the calls in the set are polled, so that they do not wait for the whole queue.
            let mut start_count = 0;
            while running_calls.len() < max_parallel
                && start_count < max_parallel
                && let Some(slot) = queue.next()
            {
                start_count += 1;
                let mut call = boxed_in(ended_call.take(), self.run_slot(slot));
                match poll!(&mut call) {
                    Poll::Ready(slot) => {
                        ended_slots.push(slot);
                        ended_call = Some(call);
                        self.yield_between_calls(pace).await;
                    }
                    Poll::Pending => running_calls.push(call),
                }
            }

            // Next, collect the calls that have ended; each makes room for another.
            match poll!(running_calls.next()) {
                Poll::Ready(Some(slot)) => {
                    ended_slots.push(slot);
                    self.yield_between_calls(pace).await;
                    continue;
                }
                Poll::Ready(None) if queue.len() == 0 => return ended_slots,
                _ if running_calls.len() < max_parallel && queue.len() > 0 => continue,
                _ => {}
            }

            // Then, while the others wait, store the results so far. The calls are polled next to
            // the write: one of them may hold what the store waits for.
            let mut write_future = pin!(self.store_ended(self.ended_records(&ended_slots)));
            ended_slots.clear();
            let mut is_written = false;
            while !is_written || ended_slots.is_empty() {
                tokio::select! {
                    biased;
                    () = &mut write_future, if !is_written => is_written = true,
                    slot = running_calls.next(), if !running_calls.is_empty() => {
                        ended_slots.extend(slot);
                        let next_slot = queue.next();
                        running_calls.extend(next_slot.map(|slot| Box::pin(self.run_slot(slot))));
                    }
                    else => break,
                }
            }
        }
    }

    /// Yields from time to time, and always if the run is stopped, so that the stop takes effect
    /// before the next call begins.
    async fn yield_between_calls(&self, pace: &mut Pace) {
        pace.step(0).await;
        if self.cx.shared().is_stopped() {
            yield_now().await;
        }
    }

    /// Returns the records of results that are added to the history later, together with those of
    /// other calls.
    fn ended_records(&self, slots: &[&mut CallSlot]) -> Vec<Record> {
        if !self.writer.is_storing() {
            return Vec::new();
        }
        slots
            .iter()
            .filter_map(|slot| match &slot.outcome {
                Some(CallOutcome::Done(result)) if self.has_stored_start(slot) => {
                    Some(result.clone())
                }
                _ => None,
            })
            .map(|mut result| {
                sanitize::result(&mut result);
                let result = Arc::new(Message::Tool(result));
                Record::ToolEnded { result }
            })
            .collect()
    }

    /// Stores the results of calls that have ended while others still run: their effects are real,
    /// so a process that ends here must not lose them.
    async fn store_ended(&self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        if let Err(error) = self.writer.append_with_state(self.cx, records).await {
            // These results were not emitted yet. They are stored again with the turn, where an
            // error ends the run.
            self.cx.warn(format!(
                "results of finished calls were not stored: {error}"
            ));
        }
    }

    /// Returns `true` if the start of this slot's call was stored.
    fn has_stored_start(&self, slot: &CallSlot) -> bool {
        let has_effect = |tool: Arc<dyn Tool>| {
            panic::catch(|| !tool.side_effect().is_read_only()).unwrap_or(true)
        };
        slot.start.has_begun() && self.cx.tool(&slot.call.name).is_some_and(has_effect)
    }

    /// Returns the number of calls in the first group, whose calls run concurrently. A call that
    /// has to run alone is a group.
    fn group_len<'c>(&self, calls: impl Iterator<Item = &'c ToolCall>) -> usize {
        calls
            .take_while(|call| self.is_parallel(call))
            .count()
            .max(1)
    }

    fn is_parallel(&self, call: &ToolCall) -> bool {
        let is_tool_parallel = |tool: Arc<dyn Tool>| {
            panic::catch(|| tool.concurrency() == Concurrency::Parallel).unwrap_or(false)
        };
        self.cx.tool(&call.name).is_none_or(is_tool_parallel)
    }

    /// Returns the result of a call that was cancelled, with the texts of the child runs that were
    /// stopped with it.
    pub(super) fn cancelled_result(&self, call: &ToolCall, has_started: bool) -> ToolResult {
        let text = if has_started {
            "cancelled: the run was stopped while this call was running; it may have had an effect"
        } else {
            "cancelled: the run was stopped before this call began; it did not run"
        };
        let mut result = ToolResult::failed(call, text);
        if let Some(child_text) = self.cx.take_child_text(&call.id) {
            result.content.push_text(&format!("\n\n{child_text}"));
            limit_result(&mut result, call, self.max_result_bytes);
        }
        result
    }

    /// Runs the slot's call and sets its outcome.
    async fn run_slot<'s>(&self, slot: &'s mut CallSlot) -> &'s mut CallSlot {
        let call_future = panic::catch_async(self.run(&slot.call, &slot.start));
        let mut outcome = call_future.await.unwrap_or_else(|text| {
            let text = format!("the call of tool {:?} panicked: {text}", slot.call.name);
            CallOutcome::Done(self.limited(ToolResult::failed(&slot.call, text), &slot.call))
        });
        if let CallOutcome::Done(result) = &mut outcome {
            slot.share = Some(self.byte_size.hold_result(result, &slot.call));
        }
        slot.outcome = Some(outcome);
        slot
    }
}

/// Boxes a future, in the allocation of an earlier one if there is one.
fn boxed_in<F: Future>(allocation: Option<Pin<Box<F>>>, future: F) -> Pin<Box<F>> {
    match allocation {
        Some(mut boxed) => {
            boxed.set(future);
            boxed
        }
        None => Box::pin(future),
    }
}
