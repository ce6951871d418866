//! The matching of results with their calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::part::ToolCall;
use super::repairer::{Repairer, Slot, same_tool};
use super::role::Role;

/// Calls that wait for a result, in order: all calls, and the calls of each tool.
#[derive(Default)]
struct Queues {
    all: VecDeque<usize>,
    of_tools: HashMap<Arc<str>, VecDeque<usize>>,
}

impl Queues {
    fn push(&mut self, slot: usize, call: &ToolCall) {
        self.all.push_back(slot);
        let of_tool = self.of_tools.entry(call.name.clone());
        of_tool.or_default().push_back(slot);
    }

    /// Returns the first open call of the tool `name`, or of any tool if the name is empty.
    fn first(&mut self, name: &str, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let queue = match name {
            "" => &mut self.all,
            name => self.of_tools.get_mut(name)?,
        };
        while queue.front().is_some_and(|slot| !is_open(*slot)) {
            queue.pop_front();
        }
        queue.front().copied()
    }
}

/// Calls that wait for a result: all calls, and the calls without an id.
#[derive(Default)]
struct OpenCalls {
    all: Queues,
    without_id: Queues,
}

impl Repairer<'_> {
    /// Gives each result to the nearest call before it that has its id and no result yet.
    pub(super) fn match_results_to_earlier_calls(&mut self) {
        let mut open_slots: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
        let mut next = 0;
        for index in 0..self.messages.len() {
            let message = self.messages[index].clone();
            let first = next;
            while next < self.slots.len() && self.slots[next].message == index {
                next += 1;
            }

            // In reverse, so that calls with the same id get their results in call order.
            for slot in (first..next).rev() {
                let id = self.slots[slot].call.id.clone();
                open_slots.entry(id).or_default().push(slot);
            }

            if let Some(result) = message.as_tool_result()
                && !result.tool_call_id.is_empty()
                && let Some(slot) = open_slots.get_mut(&result.tool_call_id).and_then(Vec::pop)
            {
                self.assign_result(slot, index);
            }
        }
    }

    /// Gives each remaining result to the first call after it that has its id and no result yet, if
    /// the call is for the same tool.
    pub(super) fn match_results_to_later_calls(&mut self) {
        let mut later_slots: HashMap<Arc<str>, VecDeque<usize>> = HashMap::new();
        for (slot, entry) in self.slots.iter().enumerate() {
            if entry.result.is_none() {
                later_slots
                    .entry(entry.call.id.clone())
                    .or_default()
                    .push_back(slot);
            }
        }

        for index in 0..self.messages.len() {
            let message = self.messages[index].clone();
            let Some(result) = message.as_tool_result() else {
                continue;
            };

            if self.slot_of_result[index].is_some() || result.tool_call_id.is_empty() {
                continue;
            }

            if let Some(slots) = later_slots.get_mut(&result.tool_call_id)
                && let Some(&slot) = slots.front()
                && same_tool(result, &self.slots[slot].call)
            {
                slots.pop_front();
                self.assign_result(slot, index);
            }
        }
    }

    /// Matches results by position where the id of the call or of the result is missing: with the
    /// first call without a result of the last assistant message before the result, if it is for
    /// the same tool.
    pub(super) fn match_results_by_position(&mut self) {
        let mut slots = 0..0;
        let mut open_calls: Option<OpenCalls> = None;
        for index in 0..self.messages.len() {
            let message = self.messages[index].clone();
            let Some(result) = message.as_tool_result() else {
                if message.role() == Role::Assistant {
                    slots = slots.end..slots.end + message.tool_calls().count();
                    open_calls = None;
                }

                continue;
            };

            if self.slot_of_result[index].is_some() {
                continue;
            }

            let open_calls = open_calls.get_or_insert_with(|| self.open_calls(slots.clone()));
            let queues = match &*result.tool_call_id {
                "" => &mut open_calls.all,
                _ => &mut open_calls.without_id,
            };

            let is_open = |slot: usize| self.slots[slot].result.is_none();
            if let Some(slot) = queues.first(&result.name, is_open) {
                self.assign_result(slot, index);
            }
        }
    }

    /// Returns the calls among these that have no result.
    fn open_calls(&self, slots: std::ops::Range<usize>) -> OpenCalls {
        let mut open_calls = OpenCalls::default();
        for slot in slots {
            let Slot { call, result, .. } = &self.slots[slot];
            if result.is_some() || self.is_pending(call) {
                continue;
            }

            open_calls.all.push(slot, call);
            if call.id.is_empty() {
                open_calls.without_id.push(slot, call);
            }
        }

        open_calls
    }
}
