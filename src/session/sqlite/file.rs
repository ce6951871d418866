//! The creation and identification of a session database: its file, application id and version.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::{check_kind, check_session_file, file_error};
use crate::util::folder::{make_folder, sync_folder};
use crate::util::regular_file::open_regular;

use super::failure::database_error;
use super::schema;

/// Marks the databases of this crate.
const APPLICATION: i32 = i32::from_be_bytes(*b"agcs");
/// The version of the tables that is written, and the highest that is read.
const VERSION: i32 = 1;

/// Returns the file's path without links. Creates its folder if it does not exist.
pub(super) fn resolve_path(path: &Path) -> Result<PathBuf> {
    let make_error = |why: &str| {
        let text = format!("a session database cannot be {:?}: {why}", path.display());
        Error::new(ErrorKind::Config, text)
    };

    if path == ":memory:" || path.as_os_str().as_bytes().starts_with(b"file:") {
        return Err(make_error(
            "it must be the path of a file; `ThreadStore` keeps sessions in memory",
        ));
    }

    let name = path
        .file_name()
        .ok_or_else(|| make_error("it must be the path of a file"))?;
    check_kind(path)?;
    let is_link = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    match fs::canonicalize(path) {
        Ok(path) => return Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_link() => {
            return Err(file_error("open", path, broken_link(path)));
        }
        Err(_) => {}
    }

    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };

    let folder = make_folder(folder, sync_folder)
        .map_err(|error| file_error("make the folder of", path, error))?;
    Ok(folder.join(name))
}

/// Returns the error for a link to a file that is missing, for example because its volume is not
/// mounted. A new database would replace the link.
fn broken_link(path: &Path) -> io::Error {
    let target = fs::read_link(path).unwrap_or_default();
    let text = format!(
        "it is a link to {}, which is missing; mount or restore it, or remove the link",
        target.display()
    );
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// Returns the path of a companion file: the same name with a suffix.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates the database, atomically, unless another process does.
pub(super) fn create(path: &Path, locks: &Path) -> Result<()> {
    let failed_to = |what: &'static str| move |error| file_error(what, path, error);

    // One process at a time: the draft has a fixed name, so that a crash leaves at most one.
    let lock_path = locks.join("create");
    check_session_file(&lock_path)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let _creation_lock = open_regular(&options, &lock_path)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(failed_to("lock"))?;
    if exists(path)? {
        return Ok(());
    }

    for suffix in ["-wal", "-journal"] {
        let leftover = with_suffix(path, suffix);
        if exists(&leftover)? {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "session database {} is gone, but the last writes to it are there, in {}; put \
                     it back, or remove that file to begin again",
                    path.display(),
                    leftover.display()
                ),
            ));
        }
    }

    let folder = locks.join("draft");
    let draft = create_draft(&folder).map_err(failed_to("make"))?;
    create_tables(&draft).map_err(|error| database_error("make", path, error))?;
    let outcome = fs::rename(&draft, path).and_then(|()| match path.parent() {
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    });

    outcome.map_err(failed_to("make"))?;

    // If this fails, the draft remains until the next creation.
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

/// Creates an empty file in its own folder, which only the owner may read and write.
fn create_draft(folder: &Path) -> io::Result<PathBuf> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(folder)?;
    let draft = folder.join("database");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let _: File = options.open(&draft)?;
    Ok(draft)
}

fn create_tables(draft: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(draft, flags)?;
    let transaction = connection.transaction()?;
    schema::create(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    // Stored in the file, so that all who open it use the same mode.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, error)| error)
}

pub(super) fn exists(path: &Path) -> Result<bool> {
    fs::exists(path).map_err(|error| file_error("look at", path, error))
}

/// Returns an error unless the file is a session database of a supported version. The file is not
/// modified.
///
/// Reads the file through SQLite without locking or repairing it, because closing a file that this
/// process has open elsewhere would release the locks on it.
pub(super) fn check_identity(path: &Path) -> Result<()> {
    let name = percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Again, just before the file is opened: opening a pipe would wait for its other end.
    check_kind(path)?;
    // Not read: a file such as `/proc/kmsg` calls itself regular and empty, and a read of it waits.
    let is_empty = fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0);
    let marks = || {
        if is_empty {
            return Ok((0, 0));
        }

        let connection = Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)?;

        // Allows a file that is incomplete or being written: only its first bytes are read.
        connection.pragma_update(None, "writable_schema", true)?;
        let mark = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        rusqlite::Result::Ok((mark("application_id")?, mark("user_version")?))
    };

    let displayed_path = path.display();
    let (kind, text) = match marks() {
        Ok((APPLICATION, version)) if version <= VERSION => return Ok(()),
        Ok((APPLICATION, version)) => (
            ErrorKind::VersionTooNew,
            format!(
                "session database {displayed_path} was made in version {version} of its tables, this \
                 program reads up to {VERSION}; it was left untouched, use a newer program"
            ),
        ),
        Err(error) if !is_foreign(&error) => return Err(database_error("open", path, error)),
        _ => (
            ErrorKind::Config,
            format!(
                "{displayed_path} is not a session database but some other file, or empty; it was left \
                 untouched, choose another path"
            ),
        ),
    };

    Err(Error::new(kind, text))
}

fn is_foreign(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase)
}
