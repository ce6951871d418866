//! Assembling tool calls from pieces, and ids for calls that have none.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{ProviderBlock, ToolCall};
use crate::model::{ModelEvent, check_call};
use crate::util::unique_names::UniqueNames;

use super::encode::History;
use super::events::Events;
use super::wholeness::Wholeness;

/// The number of characters of a response's id in a generated call id, which stays below the 40
/// characters that OpenAI allows.
const RESPONSE_LEN: usize = 24;

/// Assigns every call of one response an id that is unique in the history.
///
/// Some servers send no ids, some the same ids in every response. A generated id depends only on
/// the request and the response, so a replayed stream yields the same ids.
pub(super) struct CallIds {
    history: History,
    /// The provider's id of the response, which may be empty.
    response: String,
    used: BTreeSet<Arc<str>>,
    unique_names: UniqueNames,
}

impl CallIds {
    pub(super) fn new(history: History) -> Self {
        Self {
            history,
            response: String::new(),
            used: BTreeSet::new(),
            unique_names: UniqueNames::default(),
        }
    }

    /// Sets the id of the response, once it is known.
    pub(super) fn set_response(&mut self, id: &str) {
        let legal = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
        self.response = id.chars().filter(legal).take(RESPONSE_LEN).collect();
    }

    /// Returns the id for a call: the provider's `own`, or `call_{response}_{index}`, with `_2`,
    /// `_3`, ... appended if that is taken.
    pub(super) fn assign(&mut self, own: &str, index: usize) -> Arc<str> {
        let base: Cow<'_, str> = match own {
            "" => self.generated(index).into(),
            own => own.into(),
        };
        let (used, history) = (&self.used, &self.history);
        let id = self
            .unique_names
            .free(&base, |id| used.contains(id) || history.has_call(id));
        self.used.insert(id.clone());
        id
    }

    fn generated(&self, index: usize) -> String {
        match &*self.response {
            // The length of the history identifies the response.
            "" => format!("call_{}_{index}", self.history.len()),
            response => format!("call_{response}_{index}"),
        }
    }
}

/// The calls of one response while they stream.
#[derive(Default)]
pub(super) struct Calls {
    slots: Vec<Slot>,
    /// The last slot of each index.
    of_index: BTreeMap<u64, usize>,
    /// The last slot of each of the provider's ids.
    of_id: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Slot {
    /// The provider's id, which may be empty.
    own: String,
    name: String,
    args: String,
    wholeness: Wholeness,
    fields: Option<ProviderBlock>,
    /// The id emitted with `ToolCallStart`.
    id: Option<Arc<str>>,
}

impl Slot {
    fn is_whole(&mut self, max_values: usize) -> bool {
        self.wholeness.check(&self.args, max_values)
    }
}

/// A piece of a call as it arrived. Missing fields are `None` or empty.
pub(super) struct Piece<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    /// The next piece of JSON text.
    pub(super) args: &'a str,
    /// Further fields of the call that its server requires back.
    pub(super) fields: Option<ProviderBlock>,
}

impl Calls {
    /// Adds a piece and emits the events that are complete.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if there are too many calls, or if they are too
    /// large.
    pub(super) fn push(
        &mut self,
        piece: Piece<'_>,
        ids: &mut CallIds,
        out: &mut Events,
    ) -> Result<()> {
        let Piece {
            index,
            id,
            name,
            args,
            ..
        } = piece;

        // Either may arrive after the call has begun.
        check_call(id, name)?;
        let at = match self.find(&piece, out.max_values()) {
            Some(at) => at,
            None => {
                out.collect_call(id, name)?;
                self.begin(index)
            }
        };

        out.collect_bytes(args.len())?;
        if let Some(fields) = &piece.fields {
            out.collect_bytes(fields.raw.get().len())?;
            out.collect_values(fields.raw.get())?;
        }

        let slot = &mut self.slots[at];
        slot.fields = piece.fields.or(slot.fields.take());
        if slot.own.is_empty() && !id.is_empty() {
            slot.own.push_str(id);
            let last = self.of_id.entry(id.to_owned()).or_insert(at);
            *last = at.max(*last);
        }

        if slot.name.is_empty() {
            slot.name.push_str(name);
        }

        slot.args.push_str(args);

        // A call cannot be emitted without its name, which may arrive after the first arguments.
        // The id is fixed once it has been emitted.
        if slot.name.is_empty() || slot.args.is_empty() {
            return Ok(());
        }

        let position = at as u32;
        if slot.id.is_some() {
            if !args.is_empty() {
                out.push(delta(position, args));
            }

            return Ok(());
        }

        let assigned = ids.assign(&slot.own, at);
        slot.id = Some(assigned.clone());
        out.push(ModelEvent::ToolCallStart {
            index: position,
            id: assigned,
            name: slot.name.as_str().into(),
        });

        out.push(delta(position, &slot.args));
        Ok(())
    }

    /// Begins a call and returns its position.
    fn begin(&mut self, index: Option<u64>) -> usize {
        let at = self.slots.len();
        self.slots.push(Slot::default());
        if let Some(index) = index {
            self.of_index.insert(index, at);
        }

        at
    }

    /// Returns the call that a piece belongs to; `None` if it begins a new call.
    fn find(&mut self, piece: &Piece<'_>, max_values: usize) -> Option<usize> {
        let Piece {
            index, id, name, ..
        } = *piece;
        if let Some(index) = index {
            let at = *self.of_index.get(&index)?;
            let slot = &mut self.slots[at];

            // Some servers number every call 0 and distinguish them only by their ids.
            let other_id = !id.is_empty() && !slot.own.is_empty() && slot.own != id;
            let begins = other_id && (!name.is_empty() || slot.is_whole(max_values));
            return (!begins).then_some(at);
        }

        if !id.is_empty()
            && let Some(at) = self.of_id.get(id)
        {
            return Some(*at);
        }

        let at = self.slots.len().checked_sub(1)?;
        let slot = &mut self.slots[at];
        let other_id = !id.is_empty() && !slot.own.is_empty();
        let other_name = !name.is_empty()
            && !slot.name.is_empty()
            && (slot.name != name || slot.is_whole(max_values));
        (!other_id && !other_name).then_some(at)
    }

    /// Emits the complete calls. With `cut_off`, the answer reached its limit, and a call with
    /// incomplete arguments only begins: it must not run.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Protocol`] for a call that never got a name, and
    /// [`ErrorKind::ResponseTooLarge`] for arguments with too many values.
    pub(super) fn finish(
        &mut self,
        cut_off: bool,
        ids: &mut CallIds,
        out: &mut Events,
    ) -> Result<()> {
        for (at, slot) in std::mem::take(&mut self.slots).into_iter().enumerate() {
            out.collect_values(&slot.args)?;
            if slot.name.is_empty() {
                if cut_off {
                    continue;
                }

                return Err(Error::new(
                    ErrorKind::Protocol,
                    format!("the tool call {at} has no name"),
                ));
            }

            let id = match slot.id {
                Some(id) => id,
                None => {
                    let id = ids.assign(&slot.own, at);
                    out.push(ModelEvent::ToolCallStart {
                        index: at as u32,
                        id: id.clone(),
                        name: slot.name.as_str().into(),
                    });

                    id
                }
            };

            if cut_off && serde_json::from_str::<IgnoredAny>(&slot.args).is_err() {
                continue;
            }

            let mut call = ToolCall::from_raw(id, slot.name, slot.args);
            call.extra = slot.fields.map(Arc::new);
            out.push(ModelEvent::ToolCall(call));
        }

        Ok(())
    }
}

fn delta(index: u32, json: &str) -> ModelEvent {
    ModelEvent::ToolCallDelta {
        index,
        json: json.to_owned(),
    }
}
