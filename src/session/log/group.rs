//! Writes of several sessions that are appended together.

use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::session::Record;
use crate::util::panic;
use crate::util::sync::lock;

use super::fold::LogFold;
use super::log::Log;
use super::open_log::{EncodedAppend, OpenLog};
use super::queue::Queue;
use super::shared::LogShared;
use super::slot::SlotHandle;

/// The most sessions whose writes are appended together.
const MAX_SESSIONS: usize = 256;
/// A group with this many bytes takes no further write.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Creates the records of a write when its turn comes, from the session at that time.
pub(super) type MakeRecords = Box<dyn FnOnce(&LogFold) -> Vec<Record> + Send>;

/// The writes that wait until the group before them is stored. No write waits for more writes to
/// come: a group is the writes that arrived while the group before it was stored.
pub(super) struct WaitingWrites<L: Log> {
    writes: Mutex<Vec<Write<L>>>,
    /// Held while groups are written, so that two threads never wait for each other's sessions.
    write_lock: Mutex<()>,
}

/// A write of one session.
struct Write<L: Log> {
    handle: SlotHandle<L>,
    request: Request,
}

/// A write that was requested and has not been made.
struct Request {
    /// The token of the lease under which it is written.
    token: u64,
    make_records: MakeRecords,
    queued_at: Instant,
    reply: WriteReply,
}

type WriteReply = oneshot::Sender<Result<()>>;

/// The outcome of a write, with the place to send it to.
type WriteOutcome = (WriteReply, Result<()>);

/// A write that is ready to be appended.
struct Member<'a, L: Log> {
    open_log: &'a mut OpenLog<L>,
    append: EncodedAppend,
    queued_at: Instant,
    reply: WriteReply,
}

/// The job that appends the waiting writes. If it is dropped instead, because no thread could be
/// started for it, they fail.
struct WriteAll<L: Log>(Option<Arc<LogShared<L>>>);

impl<L: Log> Default for WaitingWrites<L> {
    fn default() -> Self {
        Self {
            writes: Mutex::default(),
            write_lock: Mutex::default(),
        }
    }
}

impl<L: Log> WaitingWrites<L> {
    fn take(&self) -> Vec<Write<L>> {
        mem::take(&mut *lock(&self.writes))
    }
}

impl<L: Log> SlotHandle<L> {
    /// Writes records under the lease with this token, together with the writes of other sessions
    /// that wait in `queue`.
    ///
    /// If the future is dropped before the turn of the write, nothing is written; if later, the
    /// write is finished.
    pub(super) async fn write_in_group(
        self,
        queue: &Queue,
        token: u64,
        make_records: MakeRecords,
    ) -> Result<()> {
        let shared = self.shared.clone();
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            token,
            make_records,
            queued_at: Instant::now(),
            reply,
        };
        let write = Write {
            handle: self,
            request,
        };
        let is_first = {
            let mut writes = lock(&shared.waiting_writes.writes);
            writes.push(write);
            writes.len() == 1
        };

        // One job makes all writes that arrive until it begins.
        if is_first {
            let job = WriteAll(Some(shared));
            queue.spawn(move || job.run());
        }

        outcome.await.unwrap_or_else(|_| {
            let text = "no thread could be started for the write";
            Err(Error::new(ErrorKind::Cancelled, text))
        })
    }
}

impl<L: Log> WriteAll<L> {
    fn run(mut self) {
        let Some(shared) = self.0.take() else {
            return;
        };
        let write_guard = lock(&shared.waiting_writes.write_lock);
        let mut writes = shared.waiting_writes.take();
        let mut replies = Vec::new();
        while !writes.is_empty() {
            send(replies);
            (writes, replies) = shared.write_group(writes);
        }

        // Before the last replies: a caller that drops the store with its reply expects it to be
        // closed then.
        drop(write_guard);
        drop(shared);
        send(replies);
    }
}

impl<L: Log> Drop for WriteAll<L> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            // Dropping the writes reports the failure to their callers.
            drop(shared.waiting_writes.take());
        }
    }
}

impl<L: Log> LogShared<L> {
    /// Appends the first write of each session, up to a limit. Returns the writes that remain, and
    /// the outcomes of the others.
    fn write_group(&self, writes: Vec<Write<L>>) -> (Vec<Write<L>>, Vec<WriteOutcome>) {
        let (group, mut others) = first_of_each_session(writes);
        let group = group.into_iter().map(|write| (write.handle, write.request));
        let (mut handles, requests): (Vec<_>, Vec<_>) = group.unzip();
        let mut requests = requests.into_iter();
        let mut log_guards: Vec<_> = handles
            .iter()
            .map(|handle| handle.log_cell.lock())
            .collect();
        let mut members = Vec::new();
        let mut replies = Vec::new();
        let mut byte_count = 0_usize;
        for (log_guard, handle) in log_guards.iter_mut().zip(&handles) {
            if byte_count >= MAX_BYTES {
                break;
            }
            let Some(request) = requests.next() else {
                break;
            };

            let open_log = (**log_guard)
                .as_mut()
                .filter(|log| log.token == request.token);
            match self.encode(open_log, &handle.id, request.make_records) {
                Ok(Some((open_log, append))) => {
                    byte_count = byte_count.saturating_add(append.bytes.len());
                    members.push(Member {
                        open_log,
                        append,
                        queued_at: request.queued_at,
                        reply: request.reply,
                    });
                }
                Ok(None) => replies.push((request.reply, Ok(()))),
                Err(error) => replies.push((request.reply, Err(error))),
            }
        }

        replies.extend(self.append_members(members));
        drop(log_guards);
        let remaining_handles = handles.split_off(handles.len() - requests.len());
        let remaining = remaining_handles
            .into_iter()
            .zip(requests)
            .map(|(handle, request)| Write { handle, request });
        others.splice(..0, remaining);

        // Before the replies: a caller may give its lease back with its reply, and expects the
        // session to be closed then.
        handles.into_iter().for_each(drop_handle);
        (others, replies)
    }

    /// Encodes a write of the session with this id, if it is leased; `None` if there is nothing to
    /// write.
    fn encode<'a>(
        &self,
        open_log: Option<&'a mut OpenLog<L>>,
        id: &str,
        make_records: MakeRecords,
    ) -> Result<Option<(&'a mut OpenLog<L>, EncodedAppend)>> {
        // Also refuses a write whose turn comes only after the session was leased again.
        let open_log = open_log.ok_or_else(|| Error::session_taken_over(id))?;
        let encoded = panic::catch(|| {
            let records = make_records(&open_log.fold);
            open_log.encode_records(self, records)
        });
        let append = encoded.unwrap_or_else(|text| Err(panicked(&text)))?;
        Ok(append.map(|append| (open_log, append)))
    }

    /// Appends the members of a group, and writes the first of the snapshots that are due then. The
    /// others are written after later appends.
    fn append_members(&self, mut members: Vec<Member<'_, L>>) -> Vec<WriteOutcome> {
        let Some(queued_at) = members.iter().map(|member| member.queued_at).max() else {
            return Vec::new();
        };

        let mut appends: Vec<_> = members
            .iter_mut()
            .map(|member| (member.open_log.begin(), &member.append.bytes[..]))
            .collect();
        self.set_wait_start(queued_at);
        let appended = panic::catch(|| self.log.append_all(&mut appends));
        drop(appends);
        let panic_text = appended.as_ref().err().cloned();
        let mut outcomes = appended.unwrap_or_default().into_iter();
        let mut replies = Vec::with_capacity(members.len());
        let mut has_snapshot = false;
        for member in members {
            let Some(outcome) = outcomes.next() else {
                let text = panic_text
                    .as_deref()
                    .unwrap_or("it returned too few outcomes");
                replies.push((member.reply, Err(panicked(text))));
                continue;
            };

            let finished = panic::catch(|| -> Result<()> {
                member.open_log.finish(member.append, outcome)?;
                // At most one snapshot per group, because the replies to all writes of the group
                // wait for it.
                if !has_snapshot {
                    self.set_wait_start(queued_at);
                    has_snapshot = member.open_log.write_due_snapshot(self);
                }
                Ok(())
            });
            let outcome = finished.unwrap_or_else(|text| Err(panicked(&text)));
            replies.push((member.reply, outcome));
        }

        // A later write outside a group must not count the waiting time of this group.
        self.queues.writers.as_ref().map(Queue::take_queued_at);
        replies
    }

    /// Sets the time at which the next write to the log began to wait for other programs. For a
    /// group, it is the time of the group's last write, so that no write fails because another one
    /// has waited for long.
    fn set_wait_start(&self, queued_at: Instant) {
        if let Some(queue) = &self.queues.writers {
            queue.set_queued_at(queued_at);
        }
    }
}

fn send(outcomes: Vec<WriteOutcome>) {
    for (reply, outcome) in outcomes {
        // The send fails if the caller is gone; the write is done in both cases.
        drop(reply.send(outcome));
    }
}

/// Removes abandoned writes and splits the remaining writes into the first of each session and the
/// others.
fn first_of_each_session<L: Log>(writes: Vec<Write<L>>) -> (Vec<Write<L>>, Vec<Write<L>>) {
    let is_wanted = |write: &Write<L>| !write.request.reply.is_closed();
    let (writes, given_up): (Vec<_>, Vec<_>) = writes.into_iter().partition(is_wanted);
    given_up
        .into_iter()
        .for_each(|write| drop_handle(write.handle));
    let mut ids = HashSet::new();
    writes
        .into_iter()
        .partition(|write| ids.len() < MAX_SESSIONS && ids.insert(write.handle.id.clone()))
}

/// Drops a handle to a session. The last one closes the log, and a panic of that must not fail the
/// other writes of the group.
fn drop_handle<L: Log>(handle: SlotHandle<L>) {
    if let Err(text) = panic::catch(|| drop(handle)) {
        tracing::warn!("the log of a session panicked when it was closed: {text}");
    }
}

fn panicked(text: &str) -> Error {
    let text = format!("the session store panicked: {text}");
    Error::new(ErrorKind::Other, text)
}
