//! The tables, and the statements on them.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, Outcome};
use crate::util::hash::fnv1a;

use super::address::Address;
use super::connection::Connection;
use super::rows::column;

/// The version of the tables that are created, and the highest that is used.
const VERSION: i32 = 1;

/// The number of ids that are read at once.
pub(super) const IDS_AT_ONCE: usize = 1000;

/// Turns on synchronous commit for one transaction if it is off; stricter settings stay. Every
/// writing transaction includes it, because behind a pooler the next one may use another server
/// connection.
const DURABLE: &str = "select set_config('synchronous_commit', 'on', true)
    where current_setting('synchronous_commit') = 'off'";

/// The statements, with the names of the tables in them.
///
/// A log is stored in rows, each with its offset `at`. A lease is an `owner` and a number, `lease`,
/// and is valid until the time `until`. `append` and `resize` change nothing if the session has
/// another lease, or the log another size.
pub(super) struct Statements {
    version: String,
    create: String,
    remove_expired: String,
    pub(super) ids: String,
    pub(super) read: String,
    pub(super) tails: String,
    pub(super) claim: String,
    /// Returns a row if another owner has a valid lease.
    pub(super) claimed: String,
    pub(super) renew: String,
    /// Two statements: the first removes a session without a log, the second ends the lease of
    /// any other.
    pub(super) release: [String; 2],
    pub(super) append: String,
    /// Returns a row if an append was done although its reply was lost.
    pub(super) is_appended: String,
    /// Begins the transaction of a repair.
    pub(super) begin: String,
    pub(super) resize: String,
    /// Returns a row if a repair was done although its reply was lost.
    pub(super) is_resized: String,
    pub(super) set_aside: String,
    /// Removes the old rows of a log that is rewritten.
    pub(super) clear: String,
    /// Adds rows. A rewritten log has its new rows at negative offsets first.
    pub(super) add: String,
    /// Moves the new rows to their offsets.
    pub(super) shift: String,
    pub(super) remove: String,
    pub(super) size: String,
    pub(super) damaged: String,
}

impl Statements {
    /// Creates the statements. `prefix` is a name that needs no quotes, and `idle_timeout` the time
    /// after which the server ends an idle transaction.
    pub(super) fn new(prefix: &str, idle_timeout: Duration) -> Self {
        let [schema, sessions, log, damaged] =
            ["schema", "sessions", "log", "damaged"].map(|name| format!("{prefix}_{name}"));
        let lock = fnv1a([prefix.as_bytes()]) as i64;

        // The first row of a tail may start long before it, so a prefix is removed.
        let prefix_len = "greatest(0, least(length(l.bytes), s.size - $2 - l.at))::int";
        let idle_timeout = idle_timeout.as_millis();

        // `clock_timestamp()` and not `now()`: the statement may have waited for locks.
        let expiry_sql =
            |number: u8| format!("clock_timestamp() + make_interval(secs => ${number})");
        Self {
            version: format!("select version from {schema}"),
            create: format!(
                "begin;
                 select pg_advisory_xact_lock({lock});
                 create table if not exists {sessions} (
                     id text collate \"C\" primary key,
                     size bigint not null default 0,
                     owner text,
                     lease bigint,
                     until timestamptz
                 );
                 create table if not exists {log} (
                     session text collate \"C\" not null,
                     at bigint not null,
                     bytes bytea not null,
                     primary key (session, at)
                 );
                 create table if not exists {damaged} (
                     session text collate \"C\" not null,
                     noted timestamptz not null default now(),
                     at bigint not null,
                     what text not null,
                     bytes bytea not null
                 );
                 create table if not exists {schema} (version integer not null);
                 insert into {schema} select {VERSION} where not exists (select from {schema});
                 commit"
            ),
            remove_expired: format!(
                "delete from {sessions} where size = 0 and until < now() - interval '1 day'"
            ),
            ids: format!(
                "select id from {sessions} where size > 0 and ($1::text is null or id > $1)
                 order by id limit {IDS_AT_ONCE}"
            ),
            // Returns one row without a part if there are no parts.
            read: format!(
                "select s.size, greatest(l.at, $2),
                     substring(l.bytes from 1 + (greatest(l.at, $2) - l.at)::int
                         for ($2 + $3 - greatest(l.at, $2))::int)
                 from {sessions} s left join {log} l
                 on l.session = s.id and l.at < $2 + $3 and l.at >= greatest(0, coalesce((
                     select max(at) from {log} where session = $1 and at <= $2), 0))
                 where s.id = $1 and s.size > 0 order by l.at"
            ),
            // `offset 0` keeps the inner query as it is: joined to the sessions, it would compute
            // the first offset once for each row of all logs if the planner chooses a hash join.
            tails: format!(
                "select s.size, l.at + {prefix_len}, substring(l.bytes from 1 + {prefix_len}),
                     array_position($1, s.id)
                 from {sessions} s left join lateral (
                     select at, bytes from {log}
                     where session = s.id and at >= coalesce((
                         select max(at) from {log} where session = s.id and at <= s.size - $2), 0)
                     order by at offset 0) l on true
                 where s.id = any($1) and s.size > 0 order by s.id, l.at"
            ),
            claim: format!(
                "insert into {sessions} as s (id, owner, lease, until) values ($1, $2, $3, {})
                 on conflict (id) do update
                 set owner = excluded.owner, lease = excluded.lease, until = excluded.until
                 where s.until is null or s.until < clock_timestamp() or s.owner = excluded.owner",
                expiry_sql(4)
            ),
            claimed: format!(
                "select 1 from {sessions}
                 where id = $1 and owner is distinct from $2 and until >= clock_timestamp()"
            ),
            renew: format!(
                "update {sessions} s set until = {}
                 from unnest($1::text[], $2::bigint[]) as held (id, lease)
                 where s.id = held.id and s.owner = $3 and s.lease = held.lease",
                expiry_sql(4)
            ),
            release: [
                format!(
                    "delete from {sessions}
                     where id = $1 and owner = $2 and lease = $3 and size = 0"
                ),
                format!(
                    "update {sessions} set until = null, owner = null
                     where id = $1 and owner = $2 and lease = $3"
                ),
            ],
            append: format!(
                "with durable as ({DURABLE}), mine as (
                     update {sessions} set size = size + $5, until = {}
                     where id = $1 and owner = $2 and lease = $3 and size = $4 returning id)
                 insert into {log} (session, at, bytes)
                 select id, part.at, part.bytes from mine left join durable on true,
                 unnest($7::bigint[], $8::bytea[]) as part (at, bytes)",
                expiry_sql(6)
            ),
            is_appended: format!(
                "select 1 from {sessions} where id = $1 and owner = $2 and lease = $3
                 and size = $4 + $5 and $6 = (
                     select string_agg(bytes, ''::bytea order by at) from {log}
                     where session = $1 and at >= $4)"
            ),
            // A time limit, so that its locks do not outlive a client that is gone.
            begin: format!(
                "begin; set local idle_in_transaction_session_timeout = {idle_timeout}; {DURABLE}"
            ),
            resize: format!(
                "update {sessions} set size = $5
                 where id = $1 and owner = $2 and lease = $3 and size = $4"
            ),
            is_resized: format!(
                "select 1 from {sessions}
                 where id = $1 and owner = $2 and lease = $3 and size = $4"
            ),
            // `except` instead of `not exists`, which the planner may run as a loop over all pairs.
            set_aside: format!(
                "with part as (
                     select * from unnest($2::bigint[], $3::text[], $4::bytea[])
                     as part (at, what, bytes))
                 insert into {damaged} (session, at, what, bytes)
                 select $1, at, what, bytes from (
                     select at, what, bytes from part
                     except select at, what, bytes from {damaged}
                     where session = $1 and at >= (select min(at) from part)
                         and at <= (select max(at) from part)) as missing
                 order by at, what"
            ),
            clear: format!("delete from {log} where session = $1 and at >= 0"),
            add: format!(
                "insert into {log} (session, at, bytes)
                 select $1, part.at, part.bytes from unnest($2::bigint[], $3::bytea[]) as part (at, bytes)"
            ),
            shift: format!("update {log} set at = at + $2 where session = $1 and at < 0"),
            remove: format!(
                "with durable as ({DURABLE}), gone as (
                     delete from {sessions} where id = $1 and owner = $2 and lease = $3
                     returning id),
                 bytes as (delete from {log} using gone where session = gone.id),
                 kept as (delete from {damaged} using gone where session = gone.id)
                 select 1 from gone left join durable on true"
            ),
            size: format!("select size from {sessions} where id = $1"),
            damaged,
        }
    }

    /// Creates the tables, unless they exist.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::VersionTooNew`] if they are of a newer version.
    pub(super) fn prepare(
        &self,
        connection: &mut Connection,
        address: &Address,
        timeout: Duration,
    ) -> Outcome<()> {
        // Queried first, because a user who may use the tables may not be allowed to create them.
        let mut version_row = connection.query_if_exists(address, &self.version)?;
        if version_row.is_none() {
            connection.batch(address, &self.create)?;
            version_row = connection.query_if_exists(address, &self.version)?;
        }

        let rows = version_row.unwrap_or_default();
        let version: i32 = match rows.first() {
            Some(row) => column(row, 0)?,
            None => VERSION,
        };

        if version > VERSION {
            return Err(Error::new(
                ErrorKind::VersionTooNew,
                format!(
                    "the tables of {} are of version {version}, this program uses up to \
                     {VERSION}; they were left untouched, use a newer program",
                    address.name
                ),
            )
            .into());
        }

        self.index_damaged(connection, address, timeout)?;
        connection.batch(address, &self.remove_expired)
    }

    /// Creates the index of the damaged parts, which tables of an older version do not have. They
    /// are used without it if it cannot be created.
    fn index_damaged(
        &self,
        connection: &mut Connection,
        address: &Address,
        timeout: Duration,
    ) -> Outcome<()> {
        // Queried first, because the creation needs the owner's rights even if the index exists.
        let table = &self.damaged;
        let index = format!("select from pg_class where oid = to_regclass('{table}_of')");
        if !connection.query(address, &index, &[])?.is_empty() {
            return Ok(());
        }

        // The server ends a statement before this client closes the connection, so that a table
        // that is too large is used without the index. Because of the lock, only one process at a
        // time creates the index.
        let millis = timeout.as_millis() / 4 + 1;
        // An older server measures a statement from the beginning of its batch.
        let begin = format!("begin; set local statement_timeout = {millis}");
        let create = format!(
            "lock table {table} in share update exclusive mode;
             create index if not exists {table}_of on {table} (session, at);
             commit"
        );
        let created = connection
            .batch(address, &begin)
            .and_then(|()| connection.batch(address, &create));
        match created {
            Err(Failure::Refused(error)) => {
                connection.batch(address, "rollback")?;
                tracing::warn!(
                    server = address.name,
                    table,
                    "the table has no index, so many damaged parts take long: {error}"
                );
                Ok(())
            }
            outcome => outcome,
        }
    }
}
