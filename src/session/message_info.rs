//! The metadata of responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::model::{ModelResponse, StopReason};
use crate::usage::Usage;
use crate::util::lenient::or_default;

/// The metadata of an assistant message: how it was produced. It is stored next to the message and
/// never sent to a model.
///
/// JSON: `uuid, id?, model?, usage, stop_reason?, aborted?`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageInfo {
    /// The `uuid` under which the run emitted the response. If several responses were joined, it is
    /// the `uuid` of the last one.
    #[serde(default)]
    pub uuid: Uuid,
    /// The provider's id of the response; may be empty.
    #[serde(default = "empty", skip_serializing_if = "str::is_empty")]
    pub id: Arc<str>,
    /// The model that responded; may be empty.
    #[serde(default = "empty", skip_serializing_if = "str::is_empty")]
    pub model: Arc<str>,
    /// The tokens of the model call. If several responses were joined, the tokens of all of them.
    #[serde(default, deserialize_with = "or_default")]
    pub usage: Usage,
    /// The reason the model stopped, if it was reported.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_reason",
        deserialize_with = "read_reason"
    )]
    pub stop_reason: Option<StopReason>,
    /// True if the response is incomplete because its run was stopped or because it exceeded a
    /// limit on its size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
}

fn empty() -> Arc<str> {
    Arc::from("")
}

fn write_reason<S: Serializer>(reason: &Option<StopReason>, to: S) -> Result<S::Ok, S::Error> {
    reason.as_ref().map(StopReason::as_str).serialize(to)
}

fn read_reason<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StopReason>, D::Error> {
    let label = Option::<String>::deserialize(from)?;
    Ok(label.map(|label| StopReason::from(&*label)))
}

impl MessageInfo {
    /// Creates the metadata of the message of this response, emitted under this `uuid`.
    pub fn of(response: &ModelResponse, uuid: Uuid) -> Self {
        Self {
            uuid,
            id: response.id.clone(),
            model: response.model.clone(),
            usage: response.usage,
            stop_reason: response.stop_reason.clone(),
            aborted: false,
        }
    }

    /// Returns `true` if the message is only a part of the model's response.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.aborted || self.stop_reason == Some(StopReason::PauseTurn)
    }
}

/// The metadata of the assistant messages of a history, by position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Infos(Option<Arc<BTreeMap<usize, Arc<MessageInfo>>>>);

impl Infos {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|infos| infos.is_empty())
    }

    pub(crate) fn get(&self, message: usize) -> Option<&Arc<MessageInfo>> {
        self.0.as_ref()?.get(&message)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Arc<MessageInfo>)> {
        self.0
            .iter()
            .flat_map(|infos| infos.iter())
            .map(|(message, info)| (*message, info))
    }

    /// Returns the metadata of the messages after the first `len`.
    pub(crate) fn after(&self, len: usize) -> impl Iterator<Item = &MessageInfo> {
        self.0
            .iter()
            .flat_map(move |infos| infos.range(len..))
            .map(|(_, info)| &**info)
    }

    pub(crate) fn put(&mut self, message: usize, info: Arc<MessageInfo>) {
        Arc::make_mut(self.0.get_or_insert_default()).insert(message, info);
    }

    /// Adds the metadata in `earlier` of the first `shared_len` messages.
    pub(crate) fn prepend(&mut self, earlier: &Self, shared_len: usize) {
        for (message, info) in earlier
            .iter()
            .take_while(|(message, _)| *message < shared_len)
        {
            if self.get(message).is_none() {
                self.put(message, info.clone());
            }
        }
    }

    /// Keeps the metadata of the first `len` messages and drops all other.
    pub(crate) fn keep(&mut self, len: usize) {
        let last = self.iter().next_back();
        if last.is_some_and(|(message, _)| message >= len)
            && let Some(infos) = &mut self.0
        {
            Arc::make_mut(infos).split_off(&len);
        }
    }

    /// Keeps the metadata of messages at these positions.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        if self.iter().all(|(message, _)| is_kept(message)) {
            return;
        }
        if let Some(infos) = &mut self.0 {
            Arc::make_mut(infos).retain(|message, _| is_kept(*message));
        }
    }

    /// Returns the position of the first message whose metadata differs from that in `other`.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<usize> {
        let differs = |at: &usize| match (self.get(*at), other.get(*at)) {
            (Some(a), Some(b)) => !Arc::ptr_eq(a, b) && a != b,
            _ => true,
        };
        self.iter()
            .chain(other.iter())
            .map(|(message, _)| message)
            .filter(differs)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, Messages, ToolCall};
    use crate::session::AgentState;

    #[test]
    fn repair_removes_infos_of_moved_messages() {
        let info = |model: &str| {
            let mut response = ModelResponse::new("");
            response.model = model.into();
            Arc::new(MessageInfo::of(&response, Uuid::nil()))
        };

        let call = ToolCall::new("c", "look", serde_json::json!({}));
        let mut state = AgentState::new("s");
        state.messages = Messages::from("Hi").with(Message::ai_calling("", [call]));
        state.set_last_info(info("first"));
        state.messages = state.messages.clone().human("And?").ai("Well.");
        state.set_last_info(info("second"));
        assert!(!state.repair().is_empty());
        assert_eq!(state.messages.len(), 5, "the result was put in between");
        let infos: Vec<_> = state.message_infos().collect();
        assert_eq!(infos.len(), 1);
        assert_eq!((infos[0].0, &*infos[0].1.model), (1, "first"));
    }
}
