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

/// How long one write may take after a signal. A reader that does not read would block for ever.
const WRITE: Duration = Duration::from_secs(3);

/// What has come and was not looked at yet.
pub(crate) struct Signals(UnboundedReceiver<()>);

impl Signals {
    /// From now on, no signal ends the program by itself.
    ///
    /// They are watched on a thread of their own, which also ends the program when the other one is
    /// blocked in a write.
    ///
    /// # Errors
    ///
    /// When the system refuses a handler.
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

    /// Waits for the next one. Cancel safe.
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
                () = some(&mut hangup) => {}
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

async fn some(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => pending().await,
    }
}

/// Ends the program when one write takes too long.
async fn end_when_blocked() {
    loop {
        let before = output::current_write();
        sleep(WRITE).await;
        if before.is_some() && output::current_write() == before {
            process::exit(FAILED.into());
        }
    }
}

/// Whether somebody, such as `nohup`, has seen to it that a hangup does not end this program.
fn is_hangup_ignored() -> bool {
    const HANGUP: u64 = 1;
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return false;
    };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP != 0)
}
