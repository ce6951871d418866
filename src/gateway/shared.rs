//! The data that the turns of a gateway share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::Result;
use crate::message::Message;
use crate::run::{Responder, RunOutput};
use crate::sdk::{PermissionRequest, SdkMessage, UserEvent};
use crate::tool::{Answer, BackgroundTasks};
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::bus::MessageBus;
use super::channels::KnownChannels;
use super::message::OutboundMessage;
use super::questions::{Questions, permission_text};
use super::served::ServedRun;
use super::turn::{Turn, UNATTENDED};
use super::waiting_tasks::WaitingTasks;

/// The most tasks of `spawn` of a session that have not ended.
pub(super) const MAX_TASKS: usize = 16;

/// A function that sees the messages of all runs.
pub(super) type Observer = Arc<dyn Fn(&SdkMessage) + Send + Sync>;

/// The data that the turns of a gateway share.
pub(super) struct Shared {
    pub(super) bus: Arc<dyn MessageBus>,
    /// The channels that the tool `message` may write to.
    pub(super) channels: KnownChannels,
    pub(super) questions: Questions,
    /// The tasks that `spawn` started.
    pub(super) tasks: BackgroundTasks,
    /// The tasks that `spawn` may start, and their number at the beginning.
    pub(super) task_permits: Arc<Semaphore>,
    pub(super) max_tasks: usize,
    /// The tasks that wait for an answer.
    pub(super) waiting_tasks: WaitingTasks,
    /// The summaries that are being made.
    pub(super) summaries: BackgroundTasks,
    pub(super) observer: Option<Observer>,
    /// The time in which a person answers a question of an interactor.
    pub(super) ask_timeout: Duration,
    /// Cancelled when the gateway is to stop.
    pub(super) stop: Cancellation,
    /// Cancelled when the turns in progress are to end at once.
    pub(super) interrupt: Cancellation,
    spawned: AtomicU64,
    /// The tasks of `spawn` that have not ended, by session.
    open_tasks: Mutex<HashMap<Arc<str>, usize>>,
}

/// The place of a task of `spawn`, until it is dropped.
pub(super) struct TaskPlace {
    shared: Arc<Shared>,
    session_key: Arc<str>,
}

impl TaskPlace {
    /// Takes a place for a task of a session. `None` if the session has too many.
    pub(super) fn take(shared: &Arc<Shared>, session_key: &Arc<str>) -> Option<Self> {
        let mut open_tasks = lock(&shared.open_tasks);
        let own_count = open_tasks.get(session_key).copied().unwrap_or_default();
        if own_count >= MAX_TASKS {
            return None;
        }
        open_tasks.insert(session_key.clone(), own_count + 1);
        Some(Self {
            shared: shared.clone(),
            session_key: session_key.clone(),
        })
    }
}

impl Drop for TaskPlace {
    fn drop(&mut self) {
        let mut open_tasks = lock(&self.shared.open_tasks);
        if let Some(count) = open_tasks.get_mut(&self.session_key) {
            *count -= 1;
            if *count == 0 {
                open_tasks.remove(&self.session_key);
            }
        }
    }
}

impl Shared {
    pub(super) fn new(
        bus: Arc<dyn MessageBus>,
        channels: KnownChannels,
        max_tasks: usize,
        observer: Option<Observer>,
        ask_timeout: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            bus,
            channels,
            task_permits: Arc::new(Semaphore::new(max_tasks)),
            max_tasks,
            waiting_tasks: WaitingTasks::default(),
            questions: Questions::default(),
            tasks: BackgroundTasks::default(),
            summaries: BackgroundTasks::default(),
            observer,
            ask_timeout,
            stop: Cancellation::default(),
            interrupt: Cancellation::default(),
            spawned: AtomicU64::new(0),
            open_tasks: Mutex::default(),
        })
    }

    /// The id of the next task of `spawn`.
    pub(super) fn next_task_id(&self) -> Arc<str> {
        let number = self.spawned.fetch_add(1, Ordering::Relaxed) + 1;
        format!("subagent-{number}").into()
    }

    /// Reads a run to its end. Its questions are asked in the chat of the turn, and the texts that
    /// tools show to the user are sent there if `shows_results`.
    pub(super) async fn drive(
        &self,
        mut run: ServedRun,
        turn: &Turn,
        shows_results: bool,
    ) -> Result<RunOutput> {
        let responder = run.responder();
        let asked = self.questions.asked();
        let mut is_interrupted = false;
        loop {
            let message = tokio::select! {
                biased;
                () = self.interrupt.cancelled(), if !is_interrupted => {
                    is_interrupted = true;
                    run.interrupt();
                    continue;
                }
                message = run.next() => message,
            };
            let Some(message) = message else {
                return run.into_output();
            };

            if let Some(observer) = &self.observer {
                observer(&message);
            }
            match message {
                SdkMessage::PermissionRequest(request) => {
                    self.ask(turn, &request, &responder, &asked).await;
                }
                SdkMessage::User(event) if shows_results => self.show_results(turn, &event).await?,
                _ => {}
            }
        }
    }

    /// Asks a question of a run in the chat of its turn. Denies the call in an unattended turn.
    async fn ask(
        &self,
        turn: &Turn,
        request: &PermissionRequest,
        responder: &Responder,
        asked: &super::questions::Asked<'_>,
    ) {
        if !turn.is_attended() {
            responder.respond(request, Answer::Deny(UNATTENDED.to_owned()));
            return;
        }
        asked.permission(turn, request, responder.clone());
        let text = permission_text(request);
        let message = OutboundMessage::new(turn.channel.clone(), turn.chat_id.clone(), text)
            .with_id(request.id.clone());
        if let Err(error) = self.bus.publish_outbound(message).await {
            tracing::warn!("a question could not be sent: {error}");
            responder.respond(request, Answer::Unanswered);
        }
    }

    async fn show_results(&self, turn: &Turn, event: &UserEvent) -> Result<()> {
        if event.envelope.parent_tool_use_id.is_some() {
            return Ok(());
        }
        let results = event.messages.iter();
        for result in results.filter_map(|message| Message::as_tool_result(message)) {
            let Some(text) = result.display.as_ref().filter(|_| !result.silent) else {
                continue;
            };
            let suffix = format!("{}:display", result.tool_call_id);
            let message =
                OutboundMessage::new(turn.channel.clone(), turn.chat_id.clone(), text.as_str())
                    .with_id_of_input(&turn.input_id, &suffix);
            self.bus.publish_outbound(message).await?;
        }
        Ok(())
    }
}
