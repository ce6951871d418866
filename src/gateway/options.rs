//! The choices of a gateway.

/// The use of the result of a task that [`spawn`](super::spawn) started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryPolicy {
    /// The result is sent to the chat, unless the task has sent a message itself.
    #[default]
    Notify,
    /// The result is an input of the conversation that started the task, and the agent answers it.
    /// While the conversation waits for the answer to a question, which an input would close, the
    /// result is sent to the chat instead. The result of a task of a turn without history is an
    /// input of the session of the chat, `CHANNEL:CHAT_ID`.
    HandToAgent,
}

/// The use of a message to a session whose run is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// The message waits for the end of the run.
    #[default]
    Queue,
    /// The message is sent to the run, whose model reads it before its next turn, if the run
    /// answers a message of the same person in the same chat and no other message of the session
    /// waits for its own run. If the run ends before that, the message begins its own run.
    Steer,
}
