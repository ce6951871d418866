//! The repair of a history, except for the order of its roles.
//!
//! All passes address messages by their index in the history before the repair. A message is copied
//! when a pass changes it for the first time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::message::Message;
use super::order::order;
use super::part::{Part, ToolCall};
use super::repair::Repair;
use super::result::{NO_OUTPUT, ToolResult};
use super::role::Role;

/// The result for a call that has none.
const INTERRUPTED: &str = "Error: interrupted before a result was recorded; the call may have run";

/// Returns the repaired history and, in no particular order, the changes.
pub(super) fn repair_messages(
    messages: &[Arc<Message>],
    pending: &[Arc<str>],
) -> (Vec<Arc<Message>>, Vec<Repair>) {
    let mut repairer = Repairer {
        messages: messages.to_vec(),
        pending: pending.iter().map(|id| &**id).collect(),
        slots: Vec::new(),
        slot_of_result: vec![None; messages.len()],
        ids_with_result: HashSet::new(),
        changes: Vec::new(),
    };

    // The order matters. Parts that no provider accepts are removed first, so that slots are
    // counted once. Results find their calls by id, then by position. Only then is it known which
    // calls without whole arguments have no result and are dropped. Ids are made unique last,
    // because a new id must not match a result.
    repairer.drop_unusable_parts();
    repairer.collect_slots();
    repairer.match_results_to_earlier_calls();
    repairer.match_results_to_later_calls();
    repairer.match_results_by_position();
    repairer.drop_cut_off_calls();
    repairer.assign_unique_ids();
    repairer.rewrite_calls();
    let paired_messages = repairer.pair_results();
    let ordered_messages = order(paired_messages, &mut repairer.changes);
    (ordered_messages, repairer.changes)
}

/// A call, its result and its repair.
pub(super) struct Slot {
    /// The calling message.
    pub(super) message: usize,
    /// The index of the part.
    pub(super) part: usize,
    pub(super) call: ToolCall,
    /// The message that is its result.
    pub(super) result: Option<usize>,
    pub(super) repair: SlotRepair,
}

/// The outcome of the repair for a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotRepair {
    Kept,
    Rekeyed,
    Dropped,
}

pub(super) struct Repairer<'a> {
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) pending: HashSet<&'a str>,
    /// All calls in order.
    pub(super) slots: Vec<Slot>,
    /// For each message, the slot that it is the result of.
    pub(super) slot_of_result: Vec<Option<usize>>,
    /// The original ids of calls that have a result.
    pub(super) ids_with_result: HashSet<Arc<str>>,
    pub(super) changes: Vec<Repair>,
}

impl Repairer<'_> {
    pub(super) fn is_pending(&self, call: &ToolCall) -> bool {
        self.pending.contains(&*call.id)
    }

    pub(super) fn role(&self, index: usize) -> Option<Role> {
        self.messages.get(index).map(|message| message.role())
    }

    /// Drops empty texts, calls without a name and calls that are not the assistant's.
    fn drop_unusable_parts(&mut self) {
        for index in 0..self.messages.len() {
            let is_assistant = self.role(index) == Some(Role::Assistant);
            let is_unusable = |part: &Part| match part {
                Part::Text(text) => text.is_empty(),
                Part::ToolCall(call) => {
                    !is_assistant || (call.name.is_empty() && !self.pending.contains(&*call.id))
                }
                _ => false,
            };

            let parts = self.messages[index].content().parts();
            if !parts.iter().any(is_unusable) {
                continue;
            }

            let mut has_empty_text = false;
            for part in parts.iter().filter(|part| is_unusable(part)) {
                match part {
                    Part::ToolCall(call) => self.changes.push(dropped_call(index, call)),
                    _ => has_empty_text = true,
                }
            }

            if has_empty_text {
                self.changes.push(Repair::DroppedText { index });
            }

            let usable_parts = parts
                .iter()
                .filter(|part| !is_unusable(part))
                .cloned()
                .collect();
            *Arc::make_mut(&mut self.messages[index])
                .content_mut()
                .parts_mut() = usable_parts;
        }
    }

    fn collect_slots(&mut self) {
        for (index, message) in self.messages.iter().enumerate() {
            for (part, content) in message.content().parts().iter().enumerate() {
                if let Some(call) = content.as_tool_call() {
                    self.slots.push(Slot {
                        message: index,
                        part,
                        call: call.clone(),
                        result: None,
                        repair: SlotRepair::Kept,
                    });
                }
            }
        }
    }

    pub(super) fn assign_result(&mut self, slot: usize, result: usize) {
        self.slots[slot].result = Some(result);
        self.slot_of_result[result] = Some(slot);
        self.ids_with_result
            .insert(self.slots[slot].call.id.clone());
    }

    /// Marks calls with incomplete arguments as dropped, unless they are pending or have a result:
    /// the error result that they got when they arrived.
    fn drop_cut_off_calls(&mut self) {
        for slot in 0..self.slots.len() {
            let Slot {
                message,
                call,
                result,
                ..
            } = &self.slots[slot];
            if result.is_none() && !self.is_pending(call) && !is_whole(call) {
                self.changes.push(dropped_call(*message, call));
                self.slots[slot].repair = SlotRepair::Dropped;
            }
        }
    }

    /// Gives a new id to each call that has no id or an id that was used before.
    fn assign_unique_ids(&mut self) {
        let is_kept = |slot: &&Slot| slot.repair != SlotRepair::Dropped;

        // Ids of later calls are reserved as well, so that a new id never conflicts with one of
        // them.
        let mut ids: HashSet<Arc<str>> = self
            .slots
            .iter()
            .filter(is_kept)
            .map(|slot| slot.call.id.clone())
            .collect();
        let mut used_ids: HashSet<Arc<str>> = HashSet::new();
        let mut counts: HashMap<Arc<str>, usize> = HashMap::new();
        for slot in &mut self.slots {
            let old_id = slot.call.id.clone();
            if slot.repair == SlotRepair::Dropped
                || self.pending.contains(&*old_id)
                || (!old_id.is_empty() && used_ids.insert(old_id.clone()))
            {
                continue;
            }

            let base: Arc<str> = match &*old_id {
                "" => format!("call_{}_{}", slot.message, slot.part).into(),
                _ => old_id.clone(),
            };

            // The first new id is `base` for an empty id, and `base_2` for a repeated one.
            let count = counts
                .entry(base.clone())
                .or_insert(usize::from(!old_id.is_empty()));
            let new_id = insert_free_id(&mut ids, &base, count);
            used_ids.insert(new_id.clone());
            slot.call.id = new_id.clone();
            slot.repair = SlotRepair::Rekeyed;
            self.changes.push(Repair::Rekeyed {
                index: slot.message,
                from: old_id,
                to: new_id,
            });
        }
    }

    /// Applies the repairs of the calls to their messages.
    fn rewrite_calls(&mut self) {
        for slots in self.slots.chunk_by(|a, b| a.message == b.message) {
            if slots.iter().all(|slot| slot.repair == SlotRepair::Kept) {
                continue;
            }

            let message = Arc::make_mut(&mut self.messages[slots[0].message]);
            let parts = message.content_mut().parts_mut();

            let mut slots = slots.iter().peekable();
            let mut position = 0;
            parts.retain_mut(|part| {
                let slot = slots.next_if(|slot| slot.part == position);
                position += 1;
                if let Some(slot) = slot.filter(|slot| slot.repair == SlotRepair::Rekeyed) {
                    *part = Part::ToolCall(slot.call.clone());
                }
                slot.is_none_or(|slot| slot.repair != SlotRepair::Dropped)
            });
        }
    }

    /// Returns the messages that have content, each call followed by its result.
    fn pair_results(&mut self) -> Vec<(usize, Arc<Message>)> {
        let mut paired_messages = Vec::with_capacity(self.messages.len());
        let mut slots = 0..0;
        for index in 0..self.messages.len() {
            let message = self.messages[index].clone();
            if let Some(result) = message.as_tool_result() {
                if self.slot_of_result[index].is_none() {
                    let id = result.tool_call_id.clone();
                    self.changes.push(Repair::DroppedResult {
                        index,
                        duplicate: !id.is_empty() && self.ids_with_result.contains(&id),
                        id,
                    });
                }

                continue;
            }

            let call_count = self.slots[slots.end..]
                .iter()
                .take_while(|slot| slot.message == index)
                .count();
            slots = slots.end..slots.end + call_count;
            if message.content().is_blank() {
                let role = message.role();
                self.changes.push(Repair::DroppedMessage { index, role });
                continue;
            }

            paired_messages.push((index, message));
            self.push_results(index, slots.clone(), &mut paired_messages);
        }

        paired_messages
    }

    /// Adds the results of a message to `paired`, in the order of its calls.
    fn push_results(
        &mut self,
        index: usize,
        slots: std::ops::Range<usize>,
        paired: &mut Vec<(usize, Arc<Message>)>,
    ) {
        let mut place = index + 1;
        while self.role(place) == Some(Role::Tool) {
            place += 1;
        }

        let following_results = index + 1..place;
        let mut last = index;
        for slot in slots {
            let Slot {
                call,
                result,
                repair,
                ..
            } = &self.slots[slot];
            match *result {
                Some(result) => {
                    let is_in_place = following_results.contains(&result) && result >= last;
                    if is_in_place {
                        last = result;
                    } else {
                        let id = call.id.clone();
                        self.changes.push(Repair::MovedResult { index: result, id });
                    }

                    paired.push((result, self.result_for(slot, result)));
                }
                None if *repair == SlotRepair::Dropped || self.is_pending(call) => {}
                None => {
                    paired.push((
                        index,
                        Arc::new(ToolResult::failed(call, INTERRUPTED).into()),
                    ));
                    self.changes.push(Repair::AddedResult {
                        index,
                        id: call.id.clone(),
                        name: call.name.clone(),
                    });
                }
            }
        }
    }

    /// Returns the result at `index`, with id and name of its call, and never empty.
    fn result_for(&mut self, slot: usize, index: usize) -> Arc<Message> {
        let Slot { call, repair, .. } = &self.slots[slot];
        let message = &mut self.messages[index];
        let is_empty = message.content().is_blank();
        let (has_other_id, lacks_name) = match message.as_tool_result() {
            Some(result) => (
                result.tool_call_id != call.id,
                result.name.is_empty() && !call.name.is_empty(),
            ),
            None => (false, false),
        };

        if !(is_empty || has_other_id || lacks_name) {
            return message.clone();
        }

        if let Message::Tool(result) = Arc::make_mut(message) {
            result.tool_call_id = call.id.clone();
            if lacks_name {
                result.name = call.name.clone();
            }

            if is_empty {
                result.content = NO_OUTPUT.into();
            }
        }

        if lacks_name || (has_other_id && *repair != SlotRepair::Rekeyed) {
            let id = call.id.clone();
            self.changes.push(Repair::CompletedResult { index, id });
        }

        if is_empty {
            self.changes.push(Repair::FilledResult { index });
        }

        message.clone()
    }
}

/// Inserts the first free id of `base`, `base_2`, `base_3` and so on, and returns it. `count`
/// is the number of these ids that were tried before; each try increases it.
fn insert_free_id(ids: &mut HashSet<Arc<str>>, base: &Arc<str>, count: &mut usize) -> Arc<str> {
    loop {
        *count += 1;
        let id: Arc<str> = match *count {
            1 => base.clone(),
            count => format!("{base}_{count}").into(),
        };

        if ids.insert(id.clone()) {
            return id;
        }
    }
}

fn dropped_call(index: usize, call: &ToolCall) -> Repair {
    Repair::DroppedCall {
        index,
        id: call.id.clone(),
        name: call.name.clone(),
    }
}

pub(super) fn same_tool(result: &ToolResult, call: &ToolCall) -> bool {
    result.name.is_empty() || result.name == call.name
}

/// Returns `true` if the arguments are an object, parsed or as the text the model wrote.
fn is_whole(call: &ToolCall) -> bool {
    call.args.is_object()
        || call.raw_args.as_deref().is_some_and(|raw| {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(raw).is_ok()
        })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::messages::Messages;
    use super::*;

    /// Would take minutes if each dropped call moved the texts after it.
    #[test]
    fn many_dropped_calls_before_many_texts_are_repaired() {
        const COUNT: usize = 150_000;
        let call = Part::ToolCall(ToolCall::new("a", "b", Value::Null));
        let mut parts = vec![call; COUNT];
        parts.resize(2 * COUNT, Part::Text("x".into()));
        let mut messages = Messages::from("q");
        messages.push(Message::ai(parts));
        messages.push(Message::human("q"));
        let repairs = messages.repair();
        assert_eq!(repairs.len(), COUNT);
        assert_eq!(messages.as_slice()[1].content().parts().len(), COUNT);
    }
}
