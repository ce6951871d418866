//! A history of messages.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use super::content::Content;
use super::message::Message;
use super::part::ToolCall;
use super::role::Role;

/// A history: shared messages in order.
///
/// A clone copies one pointer. A change to a shared history copies the list of pointers, and of the
/// messages only the one that changes.
///
/// ```
/// use agentcore::Messages;
///
/// let history = Messages::new().human("2+2?").ai("4").human("And twice that?");
/// assert_eq!(history.user_messages().count(), 2);
/// assert_eq!(history.last_content(), "And twice that?");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Messages(Arc<Vec<Arc<Message>>>);

impl Default for Messages {
    /// Returns an empty history. All empty histories share one list.
    fn default() -> Self {
        static EMPTY: LazyLock<Messages> = LazyLock::new(|| Messages(Arc::default()));
        EMPTY.clone()
    }
}

/// Iterator over the messages of a [`Messages`].
type Iter<'a> = std::iter::Map<std::slice::Iter<'a, Arc<Message>>, fn(&Arc<Message>) -> &Message>;

impl Messages {
    /// Creates an empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a system message.
    #[must_use]
    pub fn system(self, content: impl Into<Content>) -> Self {
        self.with(Message::system(content))
    }

    /// Adds a user message.
    #[must_use]
    pub fn human(self, content: impl Into<Content>) -> Self {
        self.with(Message::human(content))
    }

    /// Adds an assistant message.
    #[must_use]
    pub fn ai(self, content: impl Into<Content>) -> Self {
        self.with(Message::ai(content))
    }

    /// Adds an assistant message that calls tools.
    #[must_use]
    pub fn ai_calling(
        self,
        text: impl Into<String>,
        calls: impl IntoIterator<Item = ToolCall>,
    ) -> Self {
        self.with(Message::ai_calling(text, calls))
    }

    /// Adds the result of the call `id` of the tool `name`.
    #[must_use]
    pub fn tool(
        self,
        id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        content: impl Into<Content>,
    ) -> Self {
        self.with(Message::tool(id, name, content))
    }

    /// Adds any message.
    #[must_use]
    pub fn with(mut self, message: impl Into<Arc<Message>>) -> Self {
        self.push(message);
        self
    }

    /// Adds any message at the end.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        Arc::make_mut(&mut self.0).push(message.into());
    }

    /// Inserts a message at `index`. The message there and all later messages move by one.
    ///
    /// # Panics
    ///
    /// Panics if `index` is greater than the length, like [`Vec::insert`].
    pub fn insert(&mut self, index: usize, message: impl Into<Arc<Message>>) {
        Arc::make_mut(&mut self.0).insert(index, message.into());
    }

    /// Replaces the message at `index`, which must exist.
    pub(crate) fn replace(&mut self, index: usize, message: Arc<Message>) {
        self.as_mut_vec()[index] = message;
    }

    /// Returns the message at `index`, mutably. A shared message is copied first.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Message> {
        Arc::make_mut(&mut self.0).get_mut(index).map(Arc::make_mut)
    }

    /// Returns the message at `index`.
    pub fn get(&self, index: usize) -> Option<&Message> {
        self.0.get(index).map(|message| &**message)
    }

    /// Returns the shared messages as a slice.
    pub fn as_slice(&self) -> &[Arc<Message>] {
        &self.0
    }

    /// Returns a copy of the list of shared messages.
    pub fn to_vec(&self) -> Vec<Arc<Message>> {
        self.0.to_vec()
    }

    /// Returns the messages in order.
    pub fn iter(&self) -> Iter<'_> {
        self.0.iter().map(|message| &**message)
    }

    /// Returns the last message.
    pub fn last(&self) -> Option<&Message> {
        self.0.last().map(|message| &**message)
    }

    /// Returns the text of the last message, or an empty text if there is none.
    pub fn last_content(&self) -> Cow<'_, str> {
        self.last().map(Message::text).unwrap_or_default()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the messages of one role.
    pub fn by_role(&self, role: Role) -> impl DoubleEndedIterator<Item = &Message> {
        self.iter().filter(move |message| message.role() == role)
    }

    /// Returns the user's messages.
    pub fn user_messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.by_role(Role::User)
    }

    /// Returns the model's messages.
    pub fn assistant_messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.by_role(Role::Assistant)
    }

    /// Returns the tool results.
    pub fn tool_messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.by_role(Role::Tool)
    }

    /// Returns the system messages.
    pub fn system_messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.by_role(Role::System)
    }

    /// Returns the number of leading messages that are identical (by pointer) in `other`.
    pub fn shared_prefix(&self, other: &Self) -> usize {
        if Arc::ptr_eq(&self.0, &other.0) {
            return self.len();
        }
        shared_prefix(&self.0, &other.0)
    }

    /// Adds messages at the end. An empty history shares their list.
    pub(crate) fn append(&mut self, messages: Self) {
        if self.is_empty() {
            *self = messages;
        } else {
            self.extend(messages.as_slice().iter().cloned());
        }
    }

    /// Splits the messages into the text of the leading system messages and the other messages.
    pub(crate) fn split_system(&self) -> (Option<Arc<str>>, Self) {
        let is_system = |message: &&Arc<Message>| message.role() == Role::System;
        let count = self.as_slice().iter().take_while(is_system).count();
        let system = self.as_slice()[..count].iter();
        let texts: Vec<_> = system.map(|message| message.text()).collect();
        let text = (count > 0).then(|| texts.join("\n\n").into());
        (text, self.without_first(count))
    }

    /// Returns the messages after the first `count`, which must exist. If that is 0, the list is
    /// shared.
    pub(crate) fn without_first(&self, count: usize) -> Self {
        match count {
            0 => self.clone(),
            _ => self.as_slice()[count..].iter().cloned().collect(),
        }
    }

    pub(crate) fn as_mut_vec(&mut self) -> &mut Vec<Arc<Message>> {
        Arc::make_mut(&mut self.0)
    }
}

/// Returns the number of leading messages that are identical, by pointer.
pub(crate) fn shared_prefix(a: &[Arc<Message>], b: &[Arc<Message>]) -> usize {
    a.iter()
        .zip(b)
        .take_while(|(a, b)| Arc::ptr_eq(a, b))
        .count()
}

impl FromIterator<Message> for Messages {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        messages.into_iter().map(Arc::new).collect()
    }
}

impl FromIterator<Arc<Message>> for Messages {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        Self(Arc::new(messages.into_iter().collect()))
    }
}

impl Extend<Message> for Messages {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        self.extend(messages.into_iter().map(Arc::new));
    }
}

impl Extend<Arc<Message>> for Messages {
    fn extend<I: IntoIterator<Item = Arc<Message>>>(&mut self, messages: I) {
        self.as_mut_vec().extend(messages);
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a Message;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<&str> for Messages {
    fn from(text: &str) -> Self {
        Self::new().human(text)
    }
}

impl From<&String> for Messages {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Messages {
    fn from(text: String) -> Self {
        Self::new().human(text)
    }
}

impl From<Message> for Messages {
    fn from(message: Message) -> Self {
        Self::new().with(message)
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().collect()
    }
}

impl<const N: usize> From<[Message; N]> for Messages {
    fn from(messages: [Message; N]) -> Self {
        messages.into_iter().collect()
    }
}
