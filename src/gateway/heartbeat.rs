//! The regular check of an agent's tasks.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::backend::{Backend, is_not_found};
use crate::error::Result;
use crate::prompt::LocalClock;
use crate::util::text::line_of;

const FILE: &str = "HEARTBEAT.md";
const LOG: &str = "heartbeat.log";
/// The response of an agent that has nothing to report.
const NOTHING: &str = "HEARTBEAT_OK";
const INTERVAL: Duration = Duration::from_secs(30 * 60);
const MIN_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The maximum number of bytes read of the file.
const MAX_BYTES: usize = 64 * 1024;
/// The maximum length of a logged text, in characters.
const MAX_LOGGED: usize = 300;

/// The content of the file that is created if there is none.
const TEMPLATE: &str = "\
# Heartbeat tasks

The agent checks the tasks below at regular intervals.

## Examples

- Look for new messages and report the urgent ones.
- Report the appointments of the next hour.

## Rules

- Work on all tasks. A simple one is answered at once.
- For a task that takes long, use the tool spawn, and continue with the next.
- Answer HEARTBEAT_OK when no task is left and nothing needs attention.

---

Add your tasks below this line:
";

/// The regular check of the tasks in `HEARTBEAT.md` by an agent, which reports the tasks that need
/// attention.
///
/// The file is at the top of the workspace, and `heartbeat.log` next to it has a line for each
/// check that found tasks, created the file or failed. Only the first 64 KiB of the file are read.
/// A missing file is created from a template. Without tasks, no model is called.
///
/// A program calls [`wait`](Self::wait) and [`beat`](Self::beat) in a loop; a gateway does so
/// itself.
///
/// ```
/// use agentcore::backend::{Backend, MemoryBackend};
/// use agentcore::gateway::{Heartbeat, HeartbeatReply};
///
/// # async fn example() -> agentcore::Result<()> {
/// let workspace = MemoryBackend::new();
/// workspace.write("HEARTBEAT.md", b"- Is the build green?").await?;
/// let heartbeat = Heartbeat::new(workspace);
/// let text = heartbeat.beat(|prompt| async move {
///     assert!(prompt.ends_with("- Is the build green?"));
///     // Here the agent is run.
///     Ok(HeartbeatReply::Text("The build is red.".to_owned()))
/// });
/// assert_eq!(text.await.as_deref(), Some("The build is red."));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Heartbeat {
    workspace: Arc<dyn Backend>,
    clock: LocalClock,
    /// `None` if it is off.
    interval: Option<Duration>,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeartbeatReply {
    /// The agent's response, which is sent unless it is empty or `HEARTBEAT_OK`.
    Text(String),
    /// The agent continues in the background and reports on its own.
    Async,
    /// The agent has sent its messages itself.
    Silent,
}

impl Heartbeat {
    /// Creates a check every 30 minutes.
    pub fn new(workspace: impl Backend) -> Self {
        Self {
            workspace: Arc::new(workspace),
            clock: LocalClock::system(),
            interval: Some(INTERVAL),
        }
    }

    /// Sets the interval. An interval of less than five minutes is raised to five minutes. Defaults
    /// to 30 minutes.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = Some(interval.max(MIN_INTERVAL));
        self
    }

    /// Turns the check off: [`wait`](Self::wait) never returns.
    #[must_use]
    pub fn off(mut self) -> Self {
        self.interval = None;
        self
    }

    /// Sets the clock of the log and the prompt, such as a fixed one in tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = self.clock.with_clock(Arc::new(clock));
        self
    }

    /// Sets the time zone of the log and the prompt, by its IANA name. Defaults to the time zone of
    /// the system.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::ErrorKind::Config) if there is no such zone.
    pub fn zone(mut self, name: &str) -> Result<Self> {
        self.clock = self.clock.with_zone(name)?;
        Ok(self)
    }

    /// Waits for the next check.
    pub async fn wait(&self) {
        match self.interval {
            Some(interval) => tokio::time::sleep(interval).await,
            None => std::future::pending().await,
        }
    }

    /// Checks the tasks: `run` receives the prompt and runs the agent, without history. Returns the
    /// text to send, if something needs attention.
    ///
    /// `run` is not called if the file is missing, empty or the unchanged template. A missing file
    /// is created from the template. An error is logged, and the result is `None`.
    pub async fn beat<F, R>(&self, run: F) -> Option<String>
    where
        F: FnOnce(String) -> R,
        R: Future<Output = Result<HeartbeatReply>>,
    {
        let reply = match self.prompt().await {
            Ok(Some(prompt)) => run(prompt).await,
            Ok(None) => return None,
            Err(error) => Err(error),
        };

        match reply {
            Ok(HeartbeatReply::Text(text)) => self.report(&text).await,
            Ok(HeartbeatReply::Async) => {
                self.log("INFO", "The agent works in the background").await;
                None
            }
            Ok(HeartbeatReply::Silent) => {
                self.log("INFO", "The agent has sent its messages").await;
                None
            }
            Err(error) => {
                self.log("ERROR", &format!("Heartbeat failed: {error}"))
                    .await;
                None
            }
        }
    }

    async fn report(&self, text: &str) -> Option<String> {
        let text = text.trim();
        if text.is_empty() || text == NOTHING {
            self.log("INFO", "Nothing needs attention").await;
            return None;
        }
        self.log("INFO", &format!("Heartbeat completed: {text}"))
            .await;
        Some(text.to_owned())
    }

    /// Returns the prompt of a check; `None` without tasks.
    async fn prompt(&self) -> Result<Option<String>> {
        let content = match self.workspace.read_range(FILE, 0, MAX_BYTES).await {
            Ok(content) => content,
            Err(error) if is_not_found(&error) => {
                self.workspace.write(FILE, TEMPLATE.as_bytes()).await?;
                self.log("INFO", "HEARTBEAT.md was made from the template")
                    .await;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };

        let tasks = String::from_utf8_lossy(&content);
        let tasks = tasks.trim_start_matches('\u{feff}').trim();
        if tasks.is_empty() || tasks == TEMPLATE.trim() {
            return Ok(None);
        }

        let time = self.clock.now()?;
        Ok(Some(format!(
            "# Heartbeat\n\nCurrent time: {time}\n\n\
             This is a scheduled check. Work on the tasks below with your tools. If nothing needs \
             attention, answer only: {NOTHING}\n\n{tasks}"
        )))
    }

    /// Appends a line to the log. A log that cannot be written is a warning.
    async fn log(&self, level: &str, text: &str) {
        let line = line_of(text, MAX_LOGGED);
        let outcome = async {
            let stamp = self.clock.stamp()?;
            let line = format!("[{stamp}] [{level}] {line}\n");
            self.workspace.append(LOG, line.as_bytes()).await
        };
        if let Err(error) = outcome.await {
            tracing::warn!("{LOG} was not written: {error}");
        }
    }
}
