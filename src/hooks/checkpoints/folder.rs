//! A folder with a file of records for each session.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

use super::book::Book;
use super::record::{Fault, scan};
use super::shelf::{taken, unreadable};

const ENDING: &str = ".files";
/// The longest name without its ending, in bytes.
const MAX_NAME: usize = 240;

/// Files of records, for their owner alone.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        let made = made.and_then(|()| path.canonicalize());
        Ok(Self(made.map_err(|error| failed("make", path, error))?))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn read(&self, session: &str, book: &mut Book) -> Result<Option<Fault>> {
        let path = self.file(session)?;
        let mut read = || match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *book = Book::default();
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(file) if file.metadata()?.len() == book.end => Ok(None),
            Ok(file) => renew(&file, book),
        };
        read().map_err(|error| failed("read", &path, error))
    }

    /// Adds bytes at the end and says where they begin. Locked against other processes; what one
    /// of them has added meanwhile goes into the book.
    pub(super) fn append(
        &self,
        session: &str,
        book: &mut Book,
        bytes: &[u8],
        durable: bool,
    ) -> Result<u64> {
        let path = self.file(session)?;
        let (mut file, fault) = self
            .lock(&path, book)
            .map_err(|error| failed("open", &path, error))?;
        match fault {
            None => {}
            Some(Fault::Torn) => file
                .set_len(book.end)
                .map_err(|error| failed("repair", &path, error))?,
            Some(Fault::Damaged) => {
                let aside = path.with_extension("damaged");
                tracing::warn!(path = %aside.display(), "damaged checkpoints are put aside");
                fs::rename(&path, &aside).map_err(|error| failed("put aside", &path, error))?;
                *book = Book::default();
                return self.append(session, book, bytes, durable);
            }
            Some(fault) => return Err(unreadable(session, fault)),
        }
        let start = book.end;
        let mut written = file.write_all(bytes);
        if durable {
            written = written.and_then(|()| file.sync_data());
        }
        if durable && start == 0 {
            written = written.and_then(|()| File::open(&self.0)?.sync_all());
        }
        if let Err(error) = written {
            // If this fails, too, the next one finds a torn record and cuts it off.
            let _ = file.set_len(start);
            return Err(failed("write", &path, error));
        }
        Ok(start)
    }

    fn lock(&self, path: &Path, book: &mut Book) -> io::Result<(File, Option<Fault>)> {
        let file = options().create(true).open(path)?;
        file.lock()?;
        if file.metadata()?.len() == book.end {
            return Ok((file, None));
        }
        let fault = renew(&file, book)?;
        Ok((file, fault))
    }

    pub(super) fn content(&self, session: &str, at: u64, len: u64) -> Result<Vec<u8>> {
        let path = self.file(session)?;
        let read = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(at))?;
            let mut content = Vec::new();
            file.take(len).read_to_end(&mut content)?;
            io::Result::Ok(content)
        };
        read().map_err(|error| failed("read", &path, error))
    }

    pub(super) fn create(&self, session: &str, bytes: &[u8]) -> Result<()> {
        let path = self.file(session)?;
        let write = || {
            let mut file = options().create_new(true).open(&path)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(session),
            _ => failed("write", &path, error),
        })
    }

    pub(super) fn remove(&self, session: &str) -> Result<bool> {
        let path = self.file(session)?;
        let mut was_there = false;
        // What was put aside has whole files in it, too.
        for path in [path.with_extension("damaged"), path] {
            match fs::remove_file(&path) {
                Ok(()) => was_there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("remove", &path, error)),
            }
        }
        Ok(was_there)
    }

    pub(super) fn sessions(&self) -> Result<Vec<(Arc<str>, Option<Duration>)>> {
        let list = || {
            let mut sessions = Vec::new();
            for entry in fs::read_dir(&self.0)? {
                let entry = entry?;
                let name = entry.file_name();
                if let Some(id) = name.to_str().and_then(id_of) {
                    let modified = entry.metadata().and_then(|found| found.modified());
                    let age = modified.ok().and_then(|time| time.elapsed().ok());
                    sessions.push((id.into(), age));
                }
            }
            io::Result::Ok(sessions)
        };
        list().map_err(|error| failed("list", &self.0, error))
    }

    fn file(&self, session: &str) -> Result<PathBuf> {
        let name = encoded(session);
        if name.is_empty() || name.len() > MAX_NAME {
            let text = "a session id that is empty or too long for a file name has no checkpoints";
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }
        Ok(self.0.join(name + ENDING))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

fn renew(file: &File, book: &mut Book) -> io::Result<Option<Fault>> {
    *book = Book::default();
    scan(BufReader::new(file), |found| book.add(found))
}

/// An id as a name: small letters, digits, `-` and `_`, everything else as `%XX`.
fn encoded(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

fn id_of(name: &str) -> Option<String> {
    let mut rest = name.strip_suffix(ENDING)?;
    let mut bytes = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (byte, len) = match first {
            '%' => (u8::from_str_radix(rest.get(1..3)?, 16).ok()?, 3),
            _ => (u8::try_from(first).ok()?, 1),
        };
        bytes.push(byte);
        rest = &rest[len..];
    }
    let id = String::from_utf8(bytes).ok()?;
    (encoded(&id) + ENDING == name).then_some(id)
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    let text = format!("could not {what} checkpoints {}: {error}", path.display());
    Error::new(ErrorKind::Io, text).with_source(error)
}
