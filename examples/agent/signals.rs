//! Signals that ask this program to end: Ctrl-C, SIGTERM, and SIGHUP unless it is ignored.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, process, thread};

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::{FAILED, output};

/// The maximum time of a write after a signal. A reader that does not read would block it for ever.
const WRITE_LIMIT: Duration = Duration::from_secs(3);

/// The signals that have arrived and were not handled.
pub(crate) struct Signals(UnboundedReceiver<()>);

impl Signals {
    /// Handles signals from now on, so that none ends the program by itself.
    ///
    /// A thread of its own handles them. It also ends the program if the main thread is blocked in
    /// a write.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses a handler.
    pub(crate) fn listen() -> io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let (ready, is_ready) = mpsc::channel();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if let Err(error) = watch(&sender, &ready) {
                    let _ = ready.send(Err(error));
                }
            })?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self(receiver))
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no signal.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            pending::<()>().await;
        }
    }
}

fn watch(sender: &UnboundedSender<()>, ready: &mpsc::Sender<io::Result<()>>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = if is_hangup_ignored() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };

        let _ = ready.send(Ok(()));
        let mut is_first = true;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = receive(&mut hangup) => {}
            }

            if std::mem::take(&mut is_first) {
                tokio::spawn(end_when_blocked());
            }

            if sender.send(()).is_err() {
                return Ok(());
            }
        }
    })
}

/// Waits for a signal. Never ends without one.
async fn receive(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => pending().await,
    }
}

/// Ends the program if a write takes too long.
async fn end_when_blocked() {
    loop {
        let before = output::current_write();
        sleep(WRITE_LIMIT).await;
        if before.is_some() && output::current_write() == before {
            process::exit(FAILED.into());
        }
    }
}

/// Returns `true` if the parent process ignores hangups, as `nohup` does.
fn is_hangup_ignored() -> bool {
    const HANGUP: u64 = 1;
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return false;
    };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP != 0)
}
