//! The form in which a provider takes messages.

use std::sync::Arc;

use crate::error::Result;
use crate::message::Message;
use crate::model::{SystemPrompt, ToolDefinition};

/// The form of an API's messages, tools and system prompt. A value with other options is another
/// wire: it does not continue the bodies of the first.
pub(in crate::providers) trait Wire:
    Clone + PartialEq + Send + 'static
{
    /// The field with the list of messages, which `extra` may replace as a whole.
    const LIST: &'static str = "messages";

    /// The text that ends the prefix that a prompt cache stores.
    const BREAKPOINT: &'static str = "";

    /// Returns `true` if both messages become parts of one wire message.
    fn joins(&self, before: &Message, after: &Message) -> bool;

    /// Appends the wire messages, separated by commas, of messages that join. Returns the place in
    /// `out` for a breakpoint after them.
    fn message(
        &self,
        group: &[Arc<Message>],
        place: GroupPlace<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>>;

    /// Returns `true` if the form of the group depends on the messages of the group after it.
    fn depends_on_next(&self, _group: &[Arc<Message>]) -> bool {
        false
    }

    /// Returns `true` if the group is written in another way when others follow it. Such a group
    /// takes no tail.
    fn depends_on_place(&self, _group: &[Arc<Message>]) -> bool {
        false
    }

    /// Returns `true` if volatile system text is sent after the history, where it changes no
    /// prefix, as [`GroupPlace::tail`]. [`system`](Self::system) then writes the stable text only.
    fn has_tail(&self) -> bool {
        false
    }

    /// Returns `true` if the tail may stand after a group that follows these messages.
    fn allows_tail(&self, _before: &[Arc<Message>]) -> bool {
        true
    }

    /// Returns `true` if the server takes the reasoning of an answer only after the very prefix to
    /// which the answer was made.
    fn binds_reasoning(&self) -> bool {
        false
    }

    /// Appends the system prompt, or nothing without one. The messages in `lifted` belong to it:
    /// the system messages at the beginning of the request.
    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()>;

    /// Appends the tools. There is at least one.
    fn tools(&self, tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()>;
}

/// The place of a group among the wire messages.
#[derive(Clone, Copy, Debug)]
pub(in crate::providers) struct GroupPlace<'a> {
    /// The message before the group.
    pub(in crate::providers) before: Option<&'a Message>,
    /// All messages after the group.
    pub(in crate::providers) after: &'a [Arc<Message>],
    /// True for the first group of the history.
    pub(in crate::providers) is_first: bool,
    /// True for the last group. It is written in every request, so it may have parts that others
    /// must not have.
    pub(in crate::providers) is_last: bool,
    /// True if the group's reasoning may be sent.
    pub(in crate::providers) has_reasoning: bool,
    /// The text that stands after the last group.
    pub(in crate::providers) tail: Option<&'a str>,
}

/// The encoded parts of a body, messages aside.
pub(in crate::providers) struct Sections<'a> {
    /// The output of [`Wire::system`].
    pub(in crate::providers) system: &'a [u8],
    /// The output of [`Wire::tools`]; empty without tools.
    pub(in crate::providers) tools: &'a [u8],
}
