//! The assembly of tool calls from pieces, and the ids of calls.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{ProviderBlock, ToolCall};
use crate::model::{ModelEvent, check_call};
use crate::util::secret::redacted;
use crate::util::unique_names::UniqueNames;

use super::encode::EncodedCalls;
use super::events::Events;
use super::wholeness::Wholeness;

/// The number of characters of a response's id in a generated call id, which stays below the 40
/// characters that OpenAI allows.
const RESPONSE_LEN: usize = 24;

/// The number of calls up to which they are searched one by one.
const MAX_LISTED: usize = 16;

/// Assigns every call of one response an id that is unique in the history.
///
/// Some servers send no ids, some the same ids in every response. A generated id depends only on
/// the request and the response, so a replayed stream yields the same ids.
pub(super) struct CallIds {
    encoded_calls: EncodedCalls,
    /// The beginning of the provider's id of the response, which may be empty.
    response: String,
    used: BTreeSet<Arc<str>>,
    unique_names: UniqueNames,
}

impl CallIds {
    pub(super) fn new(encoded_calls: EncodedCalls) -> Self {
        Self {
            encoded_calls,
            response: String::new(),
            used: BTreeSet::new(),
            unique_names: UniqueNames::default(),
        }
    }

    /// Sets the id of the response, once it is known. A secret in it is redacted before its
    /// characters are selected, because a part of a secret cannot be found.
    pub(super) fn set_response(&mut self, id: &str) {
        let is_allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
        self.response = redacted(id)
            .chars()
            .filter(is_allowed)
            .take(RESPONSE_LEN)
            .collect();
    }

    /// Returns the id for a call: its `provider_id`, or `call_{response}_{index}` if that is empty.
    /// `_2`, `_3`, ... are appended to an id that is taken.
    pub(super) fn assign(&mut self, provider_id: &str, index: usize) -> Arc<str> {
        let base: Cow<'_, str> = match provider_id {
            "" => self.generated(index).into(),
            provider_id => provider_id.into(),
        };
        let (used, encoded_calls) = (&self.used, &self.encoded_calls);
        let id = self
            .unique_names
            .free(&base, |id| used.contains(id) || encoded_calls.has_id(id));
        self.used.insert(id.clone());
        id
    }

    fn generated(&self, index: usize) -> String {
        match &*self.response {
            // The length of the history identifies the response.
            "" => format!("call_{}_{index}", self.encoded_calls.message_count()),
            response => format!("call_{response}_{index}"),
        }
    }
}

/// The calls of one response while they stream.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<StreamedCall>,
    /// The positions of the calls, once there are more than [`MAX_LISTED`].
    positions: Option<Box<Positions>>,
}

/// The positions of many calls.
#[derive(Default)]
struct Positions {
    /// The position of the last call of each index.
    of_index: BTreeMap<u64, usize>,
    /// The position of the last call of each of the provider's ids.
    of_id: BTreeMap<String, usize>,
}

impl Positions {
    fn of(calls: &[StreamedCall]) -> Self {
        let mut positions = Self::default();
        for (position, call) in calls.iter().enumerate() {
            positions.add_index(call.index, position);
            positions.add_id(&call.provider_id, position);
        }
        positions
    }

    fn add_index(&mut self, index: Option<u64>, position: usize) {
        if let Some(index) = index {
            self.of_index.insert(index, position);
        }
    }

    fn add_id(&mut self, id: &str, position: usize) {
        if !id.is_empty() {
            let last = self.of_id.entry(id.to_owned()).or_insert(position);
            *last = position.max(*last);
        }
    }
}

/// A call while its pieces arrive.
#[derive(Default)]
struct StreamedCall {
    /// The index of its first piece.
    index: Option<u64>,
    /// The provider's id, which may be empty.
    provider_id: String,
    name: String,
    args: String,
    wholeness: Wholeness,
    fields: Option<ProviderBlock>,
    /// The id emitted with `ToolCallStart`.
    id: Option<Arc<str>>,
}

impl StreamedCall {
    fn is_whole(&mut self, max_values: usize) -> bool {
        self.wholeness.check(&self.args, max_values)
    }

    /// Emits the beginning of the call, or the next piece of its arguments, `args`.
    ///
    /// A call cannot be emitted without its name, which may arrive after the first arguments. Its
    /// id is fixed once it has been emitted.
    fn emit(&mut self, position: usize, args: &str, ids: &mut CallIds, out: &mut Events) {
        if self.name.is_empty() || self.args.is_empty() {
            return;
        }

        let index = position as u32;
        if self.id.is_some() {
            if !args.is_empty() {
                out.push(delta(index, args));
            }
            return;
        }

        let id = ids.assign(&self.provider_id, position);
        self.id = Some(id.clone());
        out.push(ModelEvent::ToolCallStart {
            index,
            id,
            name: self.name.as_str().into(),
        });
        out.push(delta(index, &self.args));
    }
}

/// A piece of a call as it arrived. Missing fields are `None` or empty.
pub(super) struct CallPiece<'a> {
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
        piece: CallPiece<'_>,
        ids: &mut CallIds,
        out: &mut Events,
    ) -> Result<()> {
        // Either may arrive after the call has begun.
        check_call(piece.id, piece.name)?;
        let position = match self.find(&piece, out.max_values()) {
            Some(position) => position,
            None => {
                out.collect_call(piece.id, piece.name)?;
                self.begin(piece.index)
            }
        };

        out.collect_bytes(piece.args.len())?;
        if let Some(fields) = &piece.fields {
            out.collect_json(&fields.raw)?;
        }

        let args = piece.args;
        self.add(position, piece);
        self.calls[position].emit(position, args, ids, out);
        Ok(())
    }

    /// Begins a call and returns its position.
    fn begin(&mut self, index: Option<u64>) -> usize {
        let position = self.calls.len();
        self.calls.push(StreamedCall {
            index,
            ..StreamedCall::default()
        });
        match &mut self.positions {
            Some(positions) => positions.add_index(index, position),
            None if position < MAX_LISTED => {}
            None => self.positions = Some(Box::new(Positions::of(&self.calls))),
        }

        position
    }

    /// Adds a piece to the call at `position`.
    fn add(&mut self, position: usize, piece: CallPiece<'_>) {
        let streamed = &mut self.calls[position];
        streamed.fields = piece.fields.or(streamed.fields.take());
        if streamed.provider_id.is_empty() && !piece.id.is_empty() {
            streamed.provider_id.push_str(piece.id);
            if let Some(positions) = &mut self.positions {
                positions.add_id(piece.id, position);
            }
        }

        if streamed.name.is_empty() {
            streamed.name.push_str(piece.name);
        }

        streamed.args.push_str(piece.args);
    }

    /// Returns the position of the last call with this index.
    fn position_of_index(&self, index: u64) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions.of_index.get(&index).copied(),
            None => self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index)),
        }
    }

    /// Returns the position of the last call with this id of the provider, which is not empty.
    fn position_of_id(&self, id: &str) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions.of_id.get(id).copied(),
            None => self.calls.iter().rposition(|call| call.provider_id == id),
        }
    }

    /// Returns the call that a piece belongs to; `None` if it begins a new call.
    fn find(&mut self, piece: &CallPiece<'_>, max_values: usize) -> Option<usize> {
        let CallPiece {
            index, id, name, ..
        } = *piece;
        if let Some(index) = index {
            let position = self.position_of_index(index)?;
            let streamed = &mut self.calls[position];

            // Some servers number every call 0 and distinguish them only by their ids.
            let has_other_id =
                !id.is_empty() && !streamed.provider_id.is_empty() && streamed.provider_id != id;
            let is_new = has_other_id && (!name.is_empty() || streamed.is_whole(max_values));
            return (!is_new).then_some(position);
        }

        if !id.is_empty()
            && let Some(position) = self.position_of_id(id)
        {
            return Some(position);
        }

        let position = self.calls.len().checked_sub(1)?;
        let streamed = &mut self.calls[position];
        let has_other_id = !id.is_empty() && !streamed.provider_id.is_empty();
        let is_other_call = !name.is_empty()
            && !streamed.name.is_empty()
            && (streamed.name != name || streamed.is_whole(max_values));
        (!has_other_id && !is_other_call).then_some(position)
    }

    /// Emits the complete calls. In an answer that `is_cut_off`, because it reached its limit, a
    /// call with incomplete arguments only begins: it must not run.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Protocol`] for a call that never got a name, and
    /// [`ErrorKind::ResponseTooLarge`] for arguments with too many values.
    pub(super) fn finish(
        &mut self,
        is_cut_off: bool,
        ids: &mut CallIds,
        out: &mut Events,
    ) -> Result<()> {
        for (position, streamed) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            out.collect_values(&streamed.args)?;
            if streamed.name.is_empty() {
                if is_cut_off {
                    continue;
                }

                return Err(Error::new(
                    ErrorKind::Protocol,
                    format!("the tool call {position} has no name"),
                ));
            }

            let id = match streamed.id {
                Some(id) => id,
                None => {
                    let id = ids.assign(&streamed.provider_id, position);
                    out.push(ModelEvent::ToolCallStart {
                        index: position as u32,
                        id: id.clone(),
                        name: streamed.name.as_str().into(),
                    });

                    id
                }
            };

            if is_cut_off && serde_json::from_str::<IgnoredAny>(&streamed.args).is_err() {
                continue;
            }

            let mut call = ToolCall::from_raw(id, streamed.name, streamed.args);
            call.extra = streamed.fields.map(Arc::new);
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
