//! The tables of a session database.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::error::{Error, ErrorKind, Result};

use super::failure::database_error;
use super::steps::Steps;

/// The maximum size of a statement, in bytes. SQLite parses the statements of all tables of the
/// file for each connection, and uses up to 50 times their size in memory: 30 MB for as many
/// objects as are read.
pub(super) const MAX_SQL: i32 = 4 * 1024;
/// The maximum number of columns of a table.
pub(super) const MAX_COLUMNS: i32 = 200;
/// The maximum depth of a statement's expressions.
pub(super) const MAX_DEPTH: i32 = 100;

/// The tables and indexes with their definitions. A log is its rows joined in the order of `at`,
/// which is where each begins.
const OBJECTS: [(&str, &str, &str); 3] = [
    (
        "table",
        "log",
        "CREATE TABLE log (
        session TEXT NOT NULL,
        at INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (session, at)
    ) STRICT",
    ),
    (
        "table",
        "damaged",
        "CREATE TABLE damaged (
        session TEXT NOT NULL,
        at INTEGER NOT NULL,
        what TEXT NOT NULL,
        bytes BLOB NOT NULL
    ) STRICT",
    ),
    (
        "index",
        "damaged_of",
        "CREATE INDEX damaged_of ON damaged (session)",
    ),
];

/// The index that SQLite makes for `UNIQUE`.
const AUTOMATIC_INDEX: &str = "sqlite_autoindex_log_1";

/// Creates the tables.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    OBJECTS
        .iter()
        .try_for_each(|(_, _, sql)| connection.execute_batch(sql))
}

/// Makes SQLite parse the definitions of all objects of the file, including objects of other
/// programs.
///
/// # Errors
///
/// Returns [`ErrorKind::Corrupt`] if there are too many, or if one is too large.
pub(super) fn load(connection: &Connection, steps: &Steps, path: &Path) -> Result<()> {
    steps.allow_few();
    let outcome = connection.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", (), |_| Ok(()));
    steps.begin();
    let error = match outcome {
        Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => return Ok(()),
        Err(error) => error,
    };

    let problem = match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => "it has more tables and indexes".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => error.to_string(),
        _ => return Err(database_error("open", path, error)),
    };
    let text = format!(
        "session database {} cannot be read: {problem}; other programs may have about 100 tables \
         and indexes in it, each of {MAX_SQL} bytes of SQL, {MAX_COLUMNS} columns and expressions \
         {MAX_DEPTH} deep: restore it from a backup, or give sessions a database of their own",
        path.display()
    );
    Err(Error::new(ErrorKind::Corrupt, text).with_source(error))
}

/// An object of a database.
struct Object {
    kind: String,
    name: String,
    sql: Option<String>,
}

impl Object {
    /// Returns `true` if it is as [`create`] made it.
    fn is_known(&self) -> bool {
        match &self.sql {
            None => self.kind == "index" && self.name == AUTOMATIC_INDEX,
            Some(sql) => OBJECTS.iter().any(|(kind, name, expected)| {
                self.kind == *kind && self.name == *name && words(sql).eq(words(expected))
            }),
        }
    }
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split_ascii_whitespace()
}

/// Checks that the tables are as [`create`] made them: no view has their names, and no trigger,
/// other index or generated column belongs to them, whose expressions might run without end.
///
/// # Errors
///
/// Returns [`ErrorKind::Corrupt`] if the tables differ.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<()> {
    let objects = objects(connection).map_err(|error| database_error("open", path, error))?;
    let make_error = |problem: String| {
        let path = path.display();
        let text = format!(
            "session database {path} was changed by another program: {problem}; it was left \
             untouched, restore it from a backup or choose another path"
        );
        Error::new(ErrorKind::Corrupt, text)
    };

    if let Some(object) = objects.iter().find(|object| !object.is_known()) {
        let Object { kind, name, .. } = object;
        return Err(make_error(format!(
            "the {kind} {name:?} is none that this program made"
        )));
    }

    for (kind, name, _) in OBJECTS {
        if !objects.iter().any(|object| object.name == name) {
            return Err(make_error(format!("the {kind} {name:?} is missing")));
        }
    }

    Ok(())
}

/// Returns all objects that have the name of a table or belong to it.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<Object>> {
    let mut objects = connection.prepare(
        "SELECT type, name, sql FROM sqlite_schema
         WHERE lower(name) IN ('log', 'damaged', 'damaged_of')
             OR lower(tbl_name) IN ('log', 'damaged')
         LIMIT 10",
    )?;
    let objects = objects.query_map((), |row| {
        Ok(Object {
            kind: row.get(0)?,
            name: row.get(1)?,
            sql: row.get(2)?,
        })
    })?;
    objects.collect()
}
