//! The tool `message`.

use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{FuncTool, SideEffect, ToolContext, ToolError, ToolOutput};
use crate::util::text::quoted;

use super::super::chat_turn::ChatTurn;
use super::super::message::OutboundMessage;

pub(in crate::gateway) const NAME: &str = "message";

/// Creates the tool `message { content, channel?, chat_id? }`, which sends a message to a chat, by
/// default to the chat of the conversation.
///
/// The result is `Message sent to CHANNEL:CHAT_ID`, and is not shown to the user. The gateway sends
/// no reply in a turn in which the tool was used (see [`reply_after_message_elsewhere`]).
/// The message has the id `INPUT:CALL`, so that a call that is repeated after an interruption sends
/// it once; in a session other than the conversation's, such as a subagent's, the id is
/// `INPUT:SESSION:CALL`. The tool writes to the channel of the conversation, to channels in which a
/// person wrote, and to [`GatewayBuilder::channels`](super::super::GatewayBuilder::channels). A
/// gateway adds this tool to its agents. Outside the runs of a gateway, each call fails.
///
/// [`reply_after_message_elsewhere`]: super::super::GatewayBuilder::reply_after_message_elsewhere
pub fn message() -> FuncTool {
    let description = "Sends a message to the user in a chat. Use it to report in the middle of \
        longer work, or to write to another chat; otherwise answer without it.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "content": {"type": "string", "description": "The message"},
            "channel": {"type": "string", "description": "The channel, such as telegram. Defaults to that of this conversation"},
            "chat_id": {"type": "string", "description": "The chat in the channel. Defaults to this one"}
        }
    });
    FuncTool::new(NAME, description, parameters, send_message)
        .side_effect(SideEffect::Network)
        .idempotent()
}

async fn send_message(cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
    let text = |name: &str| args[name].as_str().filter(|text| !text.is_empty());
    let content = text("content").ok_or_else(|| ToolError::new("content is required"))?;
    let turn = ChatTurn::of_call(&cx);
    let own = turn.as_deref();
    let channel = text("channel").or(own.map(|turn| &*turn.channel));
    let chat_id = text("chat_id").or(own.map(|turn| &*turn.chat_id));
    let (Some(channel), Some(chat_id)) = (channel, chat_id) else {
        return Err(ToolError::new("No target channel/chat specified").into());
    };
    let Some(turn) = &turn else {
        return Err(ToolError::new("Message sending not configured").into());
    };

    let known_channels = &turn.shared.channels;
    if *channel != *turn.channel && !known_channels.contains(channel) {
        let (channel, list) = (quoted(channel), known_channels.list());
        let text = format!("unknown channel {channel}. Available channels: [{list}]");
        return Err(ToolError::new(text).into());
    }

    let message =
        OutboundMessage::new(channel, chat_id, content).with_derived_id(message_id(turn, &cx));
    let publish = turn.shared.bus.publish_outbound(message).await;
    publish.map_err(|error| ToolError::new(format!("sending message: {error}")))?;
    turn.mark_sent(channel, chat_id);
    Ok(ToolOutput::new(sent_text(channel, chat_id)).silent())
}

/// Returns the id of the message of a call, the same when the call is repeated. The ids of calls
/// are unique in their session only.
fn message_id(turn: &ChatTurn, cx: &ToolContext) -> String {
    let (input_id, session_id, call_id) = (&turn.input_id, cx.session_id(), cx.call_id());
    if *session_id == *turn.session_key && !input_id.is_empty() {
        format!("{input_id}:{call_id}")
    } else {
        format!("{input_id}:{session_id}:{call_id}")
    }
}

/// Returns the result of a call that sent a message.
pub(in crate::gateway) fn sent_text(channel: &str, chat_id: &str) -> String {
    format!("Message sent to {channel}:{chat_id}")
}
