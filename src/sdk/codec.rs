//! The JSON of a message: its serialization and deserialization.

use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::block::one_line;
use super::envelope::Envelope;
use super::fields::{Fields, read, with_extra};
use super::message::{SdkMessage, UnknownMessage};
use super::{assistant, partial, progress, result, system, user};

impl Serialize for SdkMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Unknown(message) = self {
            return one_line(&message.raw).serialize(serializer);
        }

        let mut fields = Fields::new(serializer.serialize_map(None)?, &self.envelope().extra);
        match self {
            Self::System(event) => event.write(&mut fields)?,
            Self::Assistant(event) => event.write(&mut fields)?,
            Self::User(event) => event.write(&mut fields)?,
            Self::Result(message) => message.write(&mut fields)?,
            Self::Partial(event) => event.write(&mut fields)?,
            Self::ToolProgress(event) => event.write(&mut fields)?,
            Self::PermissionRequest(request) => request.write(&mut fields)?,
            Self::Unknown(_) => {}
        }

        fields.end()
    }
}

/// Reads from JSON text; other formats cannot keep a block as it was written.
impl<'de> Deserialize<'de> for SdkMessage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        message(raw).map_err(D::Error::custom)
    }
}

#[derive(serde::Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
}

fn message(raw: Box<RawValue>) -> serde_json::Result<SdkMessage> {
    let text = raw.get();
    let Head { kind } = read(text)?;
    let message = match &*kind {
        "system" => SdkMessage::System(system::read_event(text)?),
        "assistant" => assistant::AssistantEvent::read(text)?.into(),
        "user" => user::UserEvent::read(text)?.into(),
        "result" => result::ResultMessage::read(text)?.into(),
        "stream_event" => partial::PartialEvent::read(text)?.into(),
        "tool_progress" => progress::ToolProgress::read(text)?.into(),
        "permission_request" => progress::PermissionRequest::read(text)?.into(),
        _ => {
            return Ok(SdkMessage::Unknown(Box::new(UnknownMessage {
                envelope: read::<Envelope>(text).unwrap_or_default(),
                kind: kind.into(),
                raw: Arc::from(raw),
            })));
        }
    };

    let mut message = with_extra(text, message, |message| &mut message.envelope_mut().extra)?;
    if let SdkMessage::Result(result) = &mut message {
        result.remove_emitter_fields();
    }

    Ok(message)
}
