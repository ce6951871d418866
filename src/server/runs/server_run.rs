//! One run and the task that owns it.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind, Result};
use crate::run::{Run, RunHandle, RunOutput};
use crate::sdk::{Envelope, ResultMessage, ResultSubtype, SdkMessage, SystemKind};
use crate::session::AgentState;
use crate::util::json::json_len;
use crate::util::panic::catch_async;
use crate::util::sync::lock;

use super::super::stream::{StreamFormat, pending_len};
use super::limits::OnDisconnect;
use super::log::{LastReceived, Log};
use super::position::Position;
use super::questions::Questions;
use super::reader::{Presence, Reader, Readers};
use super::table::RunKey;
use super::user_quota::{StreamPermit, TooManyStreams, UserQuota};

/// The time between the departure of a run's last reader and its interrupt.
const DISCONNECT_GRACE: Duration = Duration::from_secs(5);

/// The maximum time that a request waits for the run to open its thread. The message that shows it
/// may be the first one of the model, which may take long.
const OPENING: Duration = Duration::from_secs(1);

/// The memory of a file in a state without its path and content, in bytes.
const FILE_OVERHEAD: usize = 256;

/// The output of a run, or its error.
pub(crate) type RunEnd = Arc<Result<RunOutput>>;

/// A run of the server: its log, its handle and its questions. The run itself belongs to a task.
pub(crate) struct ServerRun {
    id: Arc<str>,
    key: RunKey,
    agent: Arc<str>,
    shows_folders: bool,
    handle: RunHandle,
    log: Log,
    questions: Questions,
    readers: Arc<Readers>,
    quota: Arc<UserQuota>,
    end: OnceLock<RunEnd>,
    /// The size of the events about the calls that are pending after the run, as estimated, in
    /// bytes.
    pending_len: OnceLock<usize>,
    /// Set at the end: the table reads the sizes of all ended runs while it is locked.
    size: OnceLock<usize>,
    ended_at: OnceLock<Instant>,
    is_over: watch::Sender<bool>,
    task: Mutex<Option<AbortHandle>>,
}

/// The parts of a run that the table creates.
pub(super) struct ServerRunParts {
    pub(super) id: Arc<str>,
    pub(super) key: RunKey,
    pub(super) agent: Arc<str>,
    pub(super) shows_folders: bool,
    pub(super) handle: RunHandle,
    pub(super) log: Log,
    pub(super) questions: Questions,
    pub(super) quota: Arc<UserQuota>,
}

impl ServerRun {
    pub(super) fn new(parts: ServerRunParts) -> Self {
        Self {
            id: parts.id,
            key: parts.key,
            agent: parts.agent,
            shows_folders: parts.shows_folders,
            handle: parts.handle,
            log: parts.log,
            questions: parts.questions,
            readers: Arc::default(),
            quota: parts.quota,
            end: OnceLock::new(),
            pending_len: OnceLock::new(),
            size: OnceLock::new(),
            ended_at: OnceLock::new(),
            is_over: watch::Sender::new(false),
            task: Mutex::default(),
        }
    }

    /// Returns the run's id, the prefix of the ids of its events.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the user, the store and the thread.
    pub(crate) fn key(&self) -> &RunKey {
        &self.key
    }

    /// Returns the id of the agent.
    pub(crate) fn agent(&self) -> &Arc<str> {
        &self.agent
    }

    /// Returns the handle that interrupts and steers the run.
    pub(crate) fn handle(&self) -> &RunHandle {
        &self.handle
    }

    /// Returns `true` until the run has ended and its state is stored.
    pub(crate) fn is_running(&self) -> bool {
        !*self.is_over.borrow()
    }

    /// Returns the output; `None` while the run is in progress, and if a shutdown aborted it.
    pub(crate) fn end(&self) -> Option<&RunEnd> {
        self.end.get()
    }

    /// Waits for the end of the run. Returns `None` if a shutdown aborted it.
    ///
    /// # Cancel safety
    ///
    /// The run continues if the future is dropped.
    pub(crate) async fn finished(&self) -> Option<RunEnd> {
        let mut is_over = self.is_over.subscribe();
        // Never an error: `self` owns the sender.
        let _ended = is_over.wait_for(|is_over| *is_over).await;
        self.end.get().cloned()
    }

    /// Waits until the run has opened its thread or has failed to, which its second message shows;
    /// at most 1 second.
    ///
    /// # Cancel safety
    ///
    /// The run continues if the future is dropped.
    pub(crate) async fn opened(&self) {
        let (mut changes, mut is_over) = (self.log.changes(), self.is_over.subscribe());
        // Never an error: `self` owns the senders.
        let opening = async {
            tokio::select! {
                _ = changes.wait_for(|messages| *messages >= 2) => {}
                _ = is_over.wait_for(|is_over| *is_over) => {}
            }
        };
        // A run that opens later reports its error in its stream.
        let _is_late = timeout(OPENING, opening).await.is_err();
    }

    /// Returns the error of a run that could not open its thread, because another process has
    /// leased it.
    pub(crate) fn busy_error(&self) -> Option<&Error> {
        let error = self.end()?.as_ref().as_ref().err()?;
        (error.kind() == ErrorKind::SessionBusy).then_some(error)
    }

    /// Returns the state after the run.
    pub(super) fn final_state(&self) -> Option<&AgentState> {
        let output = match &**self.end.get()? {
            Ok(output) => output,
            Err(error) => error.partial()?,
        };
        Some(&output.state)
    }

    /// Returns `true` if the thread is stored in another state than this run left: it has run in
    /// another process since, or was removed. Returns `false` for a run that left no messages, such
    /// as one that failed before it opened the thread.
    pub(crate) fn is_superseded(&self, stored: Option<&AgentState>) -> bool {
        let final_state = self.final_state();
        let Some(last) = final_state.filter(|last| !last.messages.is_empty()) else {
            return false;
        };
        let newest_response = |state: &AgentState| {
            let newest = state.message_infos().next_back();
            newest.map(|(_, info)| info.uuid)
        };
        stored.is_none_or(|stored| {
            // Not only by the number: a later run that replaced messages may have left as many.
            let response = newest_response(stored);
            let is_other = response.is_some() && response != newest_response(last);
            is_other || stored.messages.len() > last.messages.len()
        })
    }

    /// Estimates the size in bytes of the events about the calls that are pending after the run.
    pub(super) fn pending_len(&self) -> usize {
        let measure = || {
            self.final_state()
                .map_or(0, |state| pending_len(&state.pending))
        };
        *self.pending_len.get_or_init(measure)
    }

    /// Returns a presence that counts as a reader until it is dropped, for requests that only wait
    /// for the output.
    pub(crate) fn presence(&self) -> Presence {
        Presence::new(self.readers.clone())
    }

    /// Adds a reader that begins after the event with the id `last_event_id` if the log has it.
    /// With any other id, its stream begins with the state.
    ///
    /// # Errors
    ///
    /// Returns an error if the user has too many open streams.
    pub(crate) fn reader(
        self: &Arc<Self>,
        format: StreamFormat,
        client_run_id: Option<Arc<str>>,
        last_event_id: Option<&str>,
    ) -> Result<Reader, TooManyStreams> {
        let permit = StreamPermit::take(self.quota.clone())?;
        Ok(self.reader_with(permit, format, client_run_id, last_event_id))
    }

    /// Adds a reader like [`reader`](Self::reader), with a permit that was acquired before.
    pub(crate) fn reader_with(
        self: &Arc<Self>,
        permit: StreamPermit,
        format: StreamFormat,
        client_run_id: Option<Arc<str>>,
        last_event_id: Option<&str>,
    ) -> Reader {
        let presence = Presence::new(self.readers.clone());
        let position = last_event_id.map(Position::of_reader);
        let last_received = LastReceived::of(position.as_ref(), &self.id);
        let start = self.log.start(format, client_run_id, last_received);
        Reader::new(self.clone(), start, presence, permit)
    }

    /// Returns the estimated memory of an ended run in bytes; 0 while the run is in progress.
    pub(super) fn size(&self) -> usize {
        self.size.get().copied().unwrap_or_default()
    }

    /// Estimates the memory of an ended run in bytes: its log with the state before it, and the
    /// state after it, whose messages take as much as both.
    fn measure(&self) -> usize {
        let state = self.final_state();
        let files = state.iter().flat_map(|state| state.files.iter());
        let file_bytes: usize = files
            .map(|(path, content)| FILE_OVERHEAD + path.len() + content.len())
            .sum();
        let todo_bytes = state.map_or(0, |state| json_len(&state.todos));
        2 * self.log.size() + file_bytes + todo_bytes + self.pending_len()
    }

    /// Returns the time of the end; `None` while the run is in progress.
    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.ended_at.get().copied()
    }

    /// Returns `true` if the run waits for an answer.
    pub(crate) fn has_question(&self) -> bool {
        self.questions.is_open()
    }

    pub(super) fn questions(&self) -> &Questions {
        &self.questions
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) fn set_task(&self, task: AbortHandle) {
        *lock(&self.task) = Some(task);
    }

    /// Drops the run and ends its readers. The thread keeps what was stored by then.
    pub(super) fn abort(&self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
        let text = "the server was shut down before the run had ended; continue the session later";
        let error = Error::new(ErrorKind::Cancelled, text);
        self.log.finish(|seq| self.failure(&error, seq));
        self.close();
    }

    /// Polls the run to its end.
    pub(super) async fn drive(self: Arc<Self>, run: Run, on_disconnect: OnDisconnect) {
        let mut result_message = None;
        let end = catch_async(self.follow(run, on_disconnect, &mut result_message)).await;
        let end = Arc::new(end.unwrap_or_else(|panic| {
            let text = format!("the run panicked: {panic}");
            Err(Error::new(ErrorKind::Other, text))
        }));
        // Set before the result, which readers encode with the state after the run.
        self.end.get_or_init(|| end.clone());
        self.log.finish(|seq| match (result_message, &*end) {
            (Some(message), _) => message,
            (None, Err(error)) => self.failure(error, seq),
            (None, Ok(_)) => {
                let error = Error::new(ErrorKind::Other, "the run ended without a result");
                self.failure(&error, seq)
            }
        });
        self.close();
    }

    /// Appends the messages of the run to the log except the last, which is encoded with the state
    /// after the run.
    async fn follow(
        &self,
        mut run: Run,
        on_disconnect: OnDisconnect,
        last: &mut Option<SdkMessage>,
    ) -> Result<RunOutput> {
        let mut deserted = pin!(self.deserted());
        let mut is_watched = on_disconnect == OnDisconnect::Interrupt;
        loop {
            let message = tokio::select! {
                biased;
                () = &mut deserted, if is_watched => {
                    is_watched = false;
                    self.handle.interrupt();
                    continue;
                }
                message = run.next() => message,
            };
            match message {
                Some(message) if message.is_result() => *last = Some(message),
                Some(mut message) => {
                    if !self.shows_folders {
                        hide_folder(&mut message);
                    }
                    self.questions.record(&message);
                    self.log.append(message);
                }
                None => return run.into_output(),
            }
        }
    }

    /// Waits until the run has had no reader for [`DISCONNECT_GRACE`].
    async fn deserted(&self) {
        loop {
            if self.readers.count() > 0 {
                self.readers.left().await;
                continue;
            }
            let departures = self.readers.departures();
            tokio::time::sleep(DISCONNECT_GRACE).await;
            if self.readers.count() == 0 && self.readers.departures() == departures {
                return;
            }
        }
    }

    /// Returns the result message of a run that failed without one.
    fn failure(&self, error: &Error, seq: u64) -> SdkMessage {
        let envelope = Envelope::new(self.key.thread.clone(), seq);
        let mut result = ResultMessage::new(envelope, ResultSubtype::ErrorDuringExecution);
        result.errors.push(error.to_string());
        result.terminal_reason = Some("api_error".into());
        result.into()
    }

    fn close(&self) {
        self.questions.close();
        self.size.get_or_init(|| self.measure());
        self.ended_at.get_or_init(Instant::now);
        self.is_over.send_replace(true);
    }
}

impl Drop for ServerRun {
    /// Ends the task, which at this point only waits to drop the log.
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

/// Removes the folder of the server from the start of a run.
fn hide_folder(message: &mut SdkMessage) {
    if let SdkMessage::System(event) = message
        && let SystemKind::Init(init) = &mut event.kind
    {
        init.cwd.clear();
    }
}

impl fmt::Debug for ServerRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRun")
            .field("id", &self.id)
            .field("key", &self.key)
            .field("is_running", &self.is_running())
            .finish_non_exhaustive()
    }
}
