//! A Redis server as a server of logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, ServerError, Value, cmd};

use crate::error::{Error, ErrorKind, Result};
use crate::session::log::{LogTail, Snapshots};
use crate::session::remote::{
    Failure, IdPage, LeaseKey, Outcome, Removal, Server, ServerPiece, ServerRepair, ServerTail,
};

use super::address::Address;
use super::connection::{Connection, checked};
use super::scripts::{
    APPEND, CHECK_FREE, CHECK_HELD, CLAIM, CLAIMED, DEFINE_TOUCH, READ, RELEASE, REMOVE, RENEW,
    REPAIR, TAIL,
};

/// The maximum number of logged characters of a server's reason.
const MAX_REASON: usize = 200;

/// The version of the keys that are created, and the highest that is used.
const VERSION: u64 = 1;

/// The maximum size of a value on a server with default settings, in bytes. A longer value makes
/// the server close the connection.
const MAX_VALUE: u64 = 512 * 1024 * 1024;

/// The number of ids that are requested at once.
const IDS_AT_ONCE: usize = 1000;
/// The maximum size of the ids of a page, in bytes. A server returns a small hash at once.
const MAX_IDS: u64 = 32 * 1024 * 1024;

/// The keys of a store on a Redis server.
pub(super) struct Keys {
    address: Address,
    prefix: String,
    timeout: Duration,
    lease_millis: u64,
    /// True once the version of the keys has been checked.
    is_checked: AtomicBool,
    /// True once the warning was logged that the server cannot wait for its disk.
    is_warned: AtomicBool,
}

impl Keys {
    pub(super) fn new(
        address: Address,
        prefix: &str,
        timeout: Duration,
        lease_time: Duration,
    ) -> Self {
        Self {
            address,
            prefix: prefix.to_owned(),
            timeout,
            lease_millis: u64::try_from(lease_time.as_millis()).unwrap_or(u64::MAX),
            is_checked: AtomicBool::new(false),
            is_warned: AtomicBool::new(false),
        }
    }

    fn all_sessions(&self) -> String {
        format!("{}:sessions", self.prefix)
    }

    fn version(&self) -> String {
        format!("{}:version", self.prefix)
    }

    fn damaged(&self, id: &str) -> String {
        format!("{}:damaged:{id}", self.prefix)
    }

    /// Returns a script with the keys of a session.
    fn script(&self, text: &[&str], id: &str) -> Cmd {
        self.script_with(text, id, &[])
    }

    /// Returns a script with the keys of a session and others.
    fn script_with(&self, text: &[&str], id: &str, other_keys: &[String]) -> Cmd {
        let prefix = &self.prefix;
        let mut command = cmd("EVAL");
        command
            .arg(text.concat())
            .arg(5 + other_keys.len())
            .arg(format!("{prefix}:log:{id}"))
            .arg(format!("{prefix}:lease:{id}"))
            .arg(self.all_sessions())
            .arg(self.damaged(id))
            .arg(self.version())
            .arg(other_keys)
            .arg(id);
        command
    }

    /// Returns a script with the keys of a session and its lease.
    fn leased_script(&self, text: &[&str], lease: &LeaseKey) -> Cmd {
        let mut command = self.script(text, &lease.id);
        command.arg(lease_value(lease)).arg(self.lease_millis);
        command
    }

    /// Returns a script with the keys of a session, of its digests and its lease.
    fn damage_script(&self, text: &[&str], lease: &LeaseKey) -> Cmd {
        let digests = format!("{}:digests:{}", self.prefix, lease.id);
        let mut command = self.script_with(text, &lease.id, &[digests]);
        command.arg(lease_value(lease)).arg(self.lease_millis);
        command
    }

    fn run(&self, connection: &mut Connection, command: Cmd) -> Outcome<i64> {
        self.number(&connection.ask_one(&self.address, command)?)
    }

    /// Runs a script that writes, and waits until it is on the disk, where the server can.
    fn run_durably(&self, connection: &mut Connection, command: Cmd) -> Outcome<i64> {
        if !connection.waits_for_disk {
            return self.run(connection, command);
        }

        let mut wait_command = cmd("WAITAOF");
        let limit = u64::try_from(self.timeout.as_millis() / 2).unwrap_or(u64::MAX);
        wait_command.arg(1).arg(0).arg(limit);
        let mut replies = connection
            .ask(&self.address, &[command, wait_command])?
            .into_iter();
        let reply = replies.next();
        let wait_reply = replies.next();
        let reply = self.number(&checked(&self.address, reply.unwrap_or_default())?)?;
        match wait_reply {
            Some(Value::ServerError(error)) if is_replica_now(&error) => {
                Err(Failure::Lost(Error::new(
                    ErrorKind::Connect,
                    "the server became a replica before the write was on its disk",
                )))
            }
            Some(Value::ServerError(error)) => {
                connection.waits_for_disk = false;
                if !self.is_warned.swap(true, Ordering::Relaxed) {
                    let reason = self.address.scrub(error.details().unwrap_or_default());
                    let reason: String = reason.chars().take(MAX_REASON).collect();
                    tracing::warn!(
                        server = self.address.name,
                        ?reason,
                        "acknowledged writes are only as durable as the server's settings make them"
                    );
                }

                Ok(reply)
            }
            Some(Value::Array(counts)) if reply == 1 && counts.first() == Some(&Value::Int(0)) => {
                Err(Failure::Lost(Error::new(
                    ErrorKind::Timeout,
                    "the server did not write to its disk in time; its `appendfsync` must be \
                     `everysec` or `always`, with `no` it does not report writes",
                )))
            }
            _ => Ok(reply),
        }
    }

    fn number(&self, reply: &Value) -> Outcome<i64> {
        match reply {
            Value::Int(number) => Ok(*number),
            other => Err(self.unexpected_reply(other)),
        }
    }

    fn text<'a>(&self, reply: &'a Value) -> Outcome<&'a str> {
        match reply {
            Value::BulkString(text) => {
                std::str::from_utf8(text).map_err(|_| self.unexpected_reply(&Value::Nil))
            }
            other => Err(self.unexpected_reply(other)),
        }
    }

    fn unexpected_reply(&self, reply: &Value) -> Failure {
        let kind = match reply {
            Value::Nil => "nothing",
            Value::Int(_) => "a number",
            Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a text",
            _ => "something else",
        };
        let text = format!("{} answered with {kind}", self.address.name);
        Failure::Refused(Error::new(ErrorKind::Protocol, text))
    }

    /// Returns a part of a log, with the size of the log; `None` if there is no log. The inner
    /// error is for a session whose log is missing.
    fn part_of_log(&self, id: &str, reply: Value) -> Outcome<Result<Option<ServerTail>>> {
        let Value::Array(mut parts) = reply else {
            return Err(self.unexpected_reply(&reply));
        };

        match &mut parts[..] {
            [Value::BulkString(bytes), Value::Int(size), _] if *size > 0 => {
                let end = size.unsigned_abs();
                let tail = LogTail::new(std::mem::take(bytes), end);
                Ok(Ok(Some(ServerTail { tail, end })))
            }
            [_, Value::Int(0), Value::Int(0)] => Ok(Ok(None)),
            [_, Value::Int(0), _] => Ok(Err(self.evicted(id))),
            _ => Err(self.unexpected_reply(&Value::Array(parts))),
        }
    }

    /// Returns the error of a session whose log is missing.
    fn evicted(&self, id: &str) -> Error {
        let name = &self.address.name;
        let text = format!(
            "the log of session {id:?} is gone from {name}, perhaps because the server evicts keys; \
             restore it, or delete the session"
        );
        Error::new(ErrorKind::Corrupt, text)
    }

    /// Checks that the keys are not of a newer version of this crate.
    fn check_version(&self, connection: &mut Connection) -> Outcome<()> {
        let key = self.version();
        let mut get = cmd("GET");
        get.arg(&key);
        let mut reply = connection.ask_one(&self.address, get.clone())?;

        // Set only if it is missing, because a server without free memory can still be read.
        if reply == Value::Nil {
            let mut set_command = cmd("SET");
            set_command.arg(&key).arg(VERSION).arg("NX");
            connection.ask_one(&self.address, set_command)?;
            reply = connection.ask_one(&self.address, get)?;
        }

        let version = match &reply {
            Value::BulkString(text) => std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()),
            _ => None,
        };

        let version: u64 = version.ok_or_else(|| self.unexpected_reply(&reply))?;
        if version > VERSION {
            let text = format!(
                "the keys {}:* of {} are of version {version}, this program uses up to {VERSION}; \
                 they were left untouched, use a newer program",
                self.prefix, self.address.name
            );
            return Err(Error::new(ErrorKind::VersionTooNew, text).into());
        }

        Ok(())
    }
}

/// Returns a lease as a text. The leases of two stores never begin with the same text.
fn lease_value(lease: &LeaseKey) -> String {
    format!("{}{}", owner_prefix(&lease.owner), lease.number)
}

/// Returns the common prefix of all leases of a store.
fn owner_prefix(owner: &str) -> String {
    format!("{owner}/")
}

impl Server for Keys {
    type Connection = Connection;

    fn name(&self) -> &str {
        &self.address.name
    }

    fn damaged_place(&self, id: &str) -> String {
        format!("list {} of {}", self.damaged(id), self.address.name)
    }

    fn check_id(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn connect(&self) -> Outcome<Connection> {
        let mut connection = Connection::open(&self.address, self.timeout)?;
        if !self.is_checked.load(Ordering::Acquire) {
            self.check_version(&mut connection)?;
            self.is_checked.store(true, Ordering::Release);
        }
        connection.finish_opening();
        Ok(connection)
    }

    fn is_usable(&self, connection: &Connection) -> bool {
        !connection.is_broken()
    }

    /// Returns a page of ids. A session that is written meanwhile may be in two pages.
    fn ids(&self, connection: &mut Connection, place: Option<&str>) -> Outcome<IdPage> {
        let mut scan = cmd("HSCAN");
        scan.arg(self.all_sessions()).arg(place.unwrap_or("0"));
        scan.arg("COUNT").arg(IDS_AT_ONCE);
        let reply = connection.ask_log(&self.address, scan, MAX_IDS)?;
        let Value::Array(parts) = reply else {
            return Err(self.unexpected_reply(&reply));
        };
        let [Value::BulkString(next), Value::Array(names)] = &parts[..] else {
            return Err(self.unexpected_reply(&Value::Array(parts)));
        };

        // Each with the lease that wrote it.
        let ids = names
            .chunks(2)
            .map(|pair| Ok(Arc::from(self.text(&pair[0])?)))
            .collect::<Outcome<Vec<_>>>()?;
        let next = std::str::from_utf8(next).map_err(|_| self.unexpected_reply(&Value::Nil))?;
        let next = (next != "0").then(|| next.to_owned());
        Ok(IdPage { ids, next })
    }

    fn read(
        &self,
        connection: &mut Connection,
        id: &str,
        from: u64,
        len: u64,
    ) -> Outcome<Option<ServerPiece>> {
        let from = from.min(i64::MAX as u64);
        let last = from.saturating_add(len).min(i64::MAX as u64) - 1;
        let mut command = self.script(&[READ], id);
        command.arg(from).arg(last);
        let reply = connection.ask_log(&self.address, command, len)?;
        let part = self.part_of_log(id, reply)??;
        Ok(part.map(|ServerTail { tail, end }| ServerPiece {
            parts: vec![(from, tail.bytes)],
            end,
        }))
    }

    /// Returns a large minimum growth, because snapshots take the server's memory as well.
    fn snapshots(&self) -> Snapshots {
        Snapshots::OnOpen {
            after: 8 * 1024 * 1024,
        }
    }

    fn tails(
        &self,
        connection: &mut Connection,
        ids: &[Arc<str>],
        len: u64,
    ) -> Outcome<Vec<Result<Option<ServerTail>>>> {
        let len = len.min(i64::MAX as u64);
        let command = |id: &Arc<str>| {
            let mut command = self.script(&[TAIL], id);
            command.arg(len);
            command
        };

        let commands: Vec<_> = ids.iter().map(command).collect();
        let log_bytes = len.saturating_mul(ids.len() as u64);
        let replies = connection.ask_logs(&self.address, &commands, log_bytes)?;
        let tails = replies.into_iter().zip(ids).map(|(reply, id)| {
            let reply = checked(&self.address, reply)?;
            self.part_of_log(id, reply)
        });

        tails.collect()
    }

    fn claim(&self, connection: &mut Connection, lease: &LeaseKey) -> Outcome<bool> {
        let mut command = self.leased_script(&[CHECK_FREE, CLAIM], lease);
        command.arg(owner_prefix(&lease.owner));
        Ok(self.run(connection, command)? == 1)
    }

    fn is_claimed(&self, connection: &mut Connection, id: &str, owner: &str) -> Outcome<bool> {
        let mut command = self.script(&[CLAIMED], id);
        command.arg(owner_prefix(owner));
        Ok(self.run(connection, command)? == 1)
    }

    fn renew(&self, connection: &mut Connection, leases: &[LeaseKey]) -> Outcome<()> {
        let commands: Vec<_> = leases
            .iter()
            .map(|lease| self.leased_script(&[CHECK_HELD, RENEW], lease))
            .collect();
        for reply in connection.ask(&self.address, &commands)? {
            checked(&self.address, reply)?;
        }
        Ok(())
    }

    fn release(&self, connection: &mut Connection, lease: &LeaseKey) -> Outcome<()> {
        self.run(connection, self.leased_script(&[RELEASE], lease))?;
        Ok(())
    }

    fn append(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        end: u64,
        bytes: &[u8],
    ) -> Outcome<bool> {
        let len = end.saturating_add(bytes.len() as u64);
        if len > MAX_VALUE {
            let id = &lease.id;
            let name = &self.address.name;
            let text = format!(
                "session {id:?} cannot have {len} bytes, for a value of {name} has {MAX_VALUE} at \
                 most; begin another session"
            );
            return Err(Error::new(ErrorKind::Io, text).into());
        }

        let mut command = self.leased_script(&[CHECK_HELD, APPEND], lease);
        command.arg(end).arg(bytes);
        Ok(self.run_durably(connection, command)? == 1)
    }

    fn repair(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        end: u64,
        repair: &ServerRepair<'_>,
    ) -> Outcome<bool> {
        let mut command = self.damage_script(&[CHECK_HELD, DEFINE_TOUCH, REPAIR], lease);
        let cut_len = repair
            .cut
            .map_or(-1, |len| i64::try_from(len).unwrap_or(i64::MAX));
        command.arg(end).arg(cut_len);
        for part in repair.damaged {
            let head = format!("{} {}\n", part.at, part.what);
            command.arg([head.as_bytes(), &part.bytes].concat());
        }
        Ok(self.run_durably(connection, command)? == 1)
    }

    /// Takes no lease, because a server without free memory cannot store one.
    fn remove(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        size: Option<u64>,
    ) -> Outcome<Removal> {
        let mut command = self.damage_script(&[CHECK_FREE, DEFINE_TOUCH, REMOVE], lease);
        let size = size.map_or(-1, |size| i64::try_from(size).unwrap_or(i64::MAX));
        command.arg(owner_prefix(&lease.owner)).arg(size);
        Ok(match self.run_durably(connection, command)? {
            1 => Removal::Done,
            2 => Removal::Changed,
            _ => Removal::Busy,
        })
    }
}

/// Returns `true` if a wait ended because the server is no longer the primary.
fn is_replica_now(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    error.code() == "UNBLOCKED" || details.contains("replica instances")
}
