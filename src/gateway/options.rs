//! The choices of a gateway.

/// The use of the result of a task that [`spawn`](super::spawn) started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryPolicy {
    /// The result is sent to the chat, unless the task has sent a message itself.
    #[default]
    Notify,
    /// The result is an input of the conversation that started the task, and the agent answers it.
    HandToAgent,
}

/// The use of a message to a session whose run is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// The message waits for the end of the run.
    #[default]
    Queue,
    /// The message is sent to the run, whose model reads it before its next turn. If the run ends
    /// before that, the message begins its own run.
    Steer,
}
