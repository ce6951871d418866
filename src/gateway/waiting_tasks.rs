//! The tasks of `spawn` that wait for the answer to a question.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::agent::{Decision, Session};
use crate::session::PendingCall;
use crate::util::sync::lock;

use super::answers::late_decision;
use super::chat_turn::ChatTurn;
use super::process_options::ProcessOptions;
use super::task_slot::TaskSlot;

/// A task of `spawn`: a subagent in its own session, for a conversation.
pub(super) struct SpawnedTask {
    pub(super) turn: Arc<ChatTurn>,
    pub(super) id: Arc<str>,
    pub(super) label: String,
    /// The session of the subagent, as a child of the run that spawned it.
    pub(super) session: Session,
    /// Keeps the session of a turn without history.
    pub(super) once_slot: Option<TaskSlot>,
}

/// The tasks whose runs ended with a question that was not answered in time, the oldest first.
#[derive(Default)]
pub(super) struct WaitingTasks(Mutex<VecDeque<WaitingTask>>);

struct WaitingTask {
    task: SpawnedTask,
    call: PendingCall,
}

impl WaitingTask {
    /// Returns `true` if the input is from the person who was asked, in the chat of the task, and
    /// was written after the question.
    fn is_asked(&self, options: &ProcessOptions) -> bool {
        let turn = &self.task.turn;
        turn.session_key == options.session_key
            && turn.channel == options.channel
            && turn.chat_id == options.chat_id
            && turn.sender_id == options.sender_id
            && options.can_answer(&self.call)
    }
}

impl WaitingTasks {
    /// Adds a task. Returns the oldest one if there are more than `limit`.
    pub(super) fn add(
        &self,
        task: SpawnedTask,
        call: PendingCall,
        limit: usize,
    ) -> Option<SpawnedTask> {
        let mut tasks = lock(&self.0);
        tasks.push_back(WaitingTask { task, call });
        let oldest = if tasks.len() > limit {
            tasks.pop_front()
        } else {
            None
        };
        oldest.map(|waiting| waiting.task)
    }

    /// Returns `true` if a task waits for an answer of the sender of this input.
    pub(super) fn is_asking(&self, options: &ProcessOptions) -> bool {
        let tasks = lock(&self.0);
        tasks.iter().any(|waiting| waiting.is_asked(options))
    }

    /// Takes the oldest task that waits for an answer of the sender of this input, with the
    /// decision in its text.
    pub(super) fn take(&self, options: &ProcessOptions) -> Option<(SpawnedTask, Decision)> {
        let mut tasks = lock(&self.0);
        let index = tasks.iter().position(|waiting| waiting.is_asked(options))?;
        let WaitingTask { task, call } = tasks.remove(index)?;
        Some((task, late_decision(&call, &options.user_message)))
    }

    /// Drops all tasks.
    pub(super) fn clear(&self) {
        // Dropped after the lock is released, because a task may be the last owner of others.
        let tasks = std::mem::take(&mut *lock(&self.0));
        drop(tasks);
    }
}
