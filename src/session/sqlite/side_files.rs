//! The files next to a session database, which SQLite reads before any statement.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::{check_session_file, file_error};
use crate::util::regular_file::open_regular;

use super::file::with_suffix;

/// The suffixes, and the maximum size of each file in bytes. Stores write the first two; a journal
/// is left by a write of another program.
const SIDE_FILES: [(&str, u64); 3] = [
    ("-wal", 4096 * 1024 * 1024),
    ("-shm", 128 * 1024 * 1024),
    (JOURNAL, 1024 * 1024 * 1024),
];
const JOURNAL: &str = "-journal";

/// The last bytes of a journal that names a super-journal, a list of the journals of several
/// databases. SQLite reads a super-journal into memory at once.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The minimum size of a journal that names a super-journal, in bytes.
const MIN_NAMING_LEN: u64 = 16;

/// Checks the files that SQLite reads with the database at `path`. None is modified.
///
/// # Errors
///
/// Returns [`ErrorKind::Io`] if one is not a regular file, and [`ErrorKind::Corrupt`] if one is too
/// large or a journal names another file.
pub(super) fn check(path: &Path) -> Result<()> {
    for (suffix, max) in SIDE_FILES {
        let side_path = with_suffix(path, suffix);
        check_session_file(&side_path)?;
        let len = match fs::symlink_metadata(&side_path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(file_error("look at", &side_path, error)),
        };
        if len > max {
            let problem = format!("has {len} bytes, of which {max} are read at most");
            return Err(refused(&side_path, &problem));
        }
        if suffix == JOURNAL && len >= MIN_NAMING_LEN {
            let end = end(&side_path).map_err(|error| file_error("read", &side_path, error))?;
            if end == MAGIC {
                let problem = "names another journal, which no session database has";
                return Err(refused(&side_path, problem));
            }
        }
    }
    Ok(())
}

fn end(path: &Path) -> io::Result<[u8; MAGIC.len()]> {
    let mut file = open_regular(File::options().read(true), path)?;
    file.seek(SeekFrom::End(-(MAGIC.len() as i64)))?;
    let mut end = [0; MAGIC.len()];
    file.read_exact(&mut end)?;
    Ok(end)
}

fn refused(path: &Path, problem: &str) -> Error {
    let path = path.display();
    let text = format!(
        "{path}, which belongs to a session database, {problem}; nothing was changed, complete the \
         write with the program that began it, or move it away, with which that write is lost"
    );
    Error::new(ErrorKind::Corrupt, text)
}
