//! The unreadable parts of a session, kept in a file next to it.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::session::Damage;
use crate::session::files::{check_regular_file, file_error};
use crate::session::log::Repair;

use super::disk::Disk;

/// The names that a sidecar may have, in their order.
const NAMES: [&str; 4] = ["damaged", "2.damaged", "3.damaged", "4.damaged"];

/// Returns the sidecar of a session's file: the first of its names that nothing else has.
///
/// A pipe would block, and a link would lead the parts into a foreign file.
pub(super) fn path_of(session: &Path) -> PathBuf {
    let mut paths = paths_of(session);
    let is_usable = |path: &PathBuf| match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.is_file() && metadata.nlink() == 1,
        Err(_) => true,
    };
    let path = paths.find(is_usable);
    path.unwrap_or_else(|| session.with_extension(NAMES[0]))
}

/// Returns all names that the sidecar of a session's file may have.
pub(super) fn paths_of(session: &Path) -> impl Iterator<Item = PathBuf> {
    NAMES.iter().map(|name| session.with_extension(name))
}

/// A line of a sidecar: a damaged part, or a piece of one.
#[derive(Serialize)]
struct DamagedPart<'a> {
    offset: u64,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// The maximum number of damaged bytes in one line of the sidecar.
const MAX_PART: usize = 1024 * 1024;
/// The maximum number of bytes, and of lines, of a sidecar that are searched for earlier copies.
const MAX_SEARCHED: u64 = 64 * 1024 * 1024;
const MAX_SEARCHED_LINES: usize = 100_000;
/// The number of bytes that are read at once.
const PIECE: usize = 1024 * 1024;

/// Adds the damaged parts to the sidecar, each as a line of JSON, or as several if it is long.
/// Lines that are there already are omitted: an earlier repair may have failed after this step. The
/// parts are durable when this returns.
pub(super) fn keep(disk: &dyn Disk, path: &Path, repair: &Repair<'_>) -> Result<()> {
    let make_error = |error| file_error("keep the damaged part of", path, error);
    let (mut file, old_lines) = open(disk, path).map_err(make_error)?;
    let size = file.metadata().map_err(make_error)?.len();
    let mut outcome = add(disk, &mut file, &old_lines, repair, make_error);
    outcome = outcome.and_then(|()| disk.sync(&file).map_err(make_error));
    if let Err(error) = outcome {
        // If this fails as well, an incomplete line remains.
        let _ = disk.truncate(&file, size);
        return Err(error);
    }

    match path.parent() {
        Some(folder) => disk.sync_folder(folder).map_err(make_error),
        None => Ok(()),
    }
}

/// The lines of a sidecar.
#[derive(Default)]
struct Lines {
    hashes: HashSet<u64>,
    /// The hash of the last line, if the line has no end.
    open_line: Option<DefaultHasher>,
}

impl Lines {
    /// Adds the next bytes. Lines beyond the searched lines are omitted.
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = part.strip_suffix(b"\n").unwrap_or(part);
            let mut hasher = self.open_line.take().unwrap_or_default();
            hasher.write(line);
            if line.len() == part.len() {
                self.open_line = Some(hasher);
            } else if self.hashes.len() < MAX_SEARCHED_LINES {
                self.hashes.insert(hasher.finish());
            }
        }
    }

    fn contains(&self, line: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write(line);
        self.hashes.contains(&hasher.finish())
    }
}

/// Opens the sidecar, and reads the end of it that is searched. Refuses a path that is not a
/// regular file, and a hard link.
fn open(disk: &dyn Disk, path: &Path) -> io::Result<(File, Lines)> {
    check_regular_file(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = disk.open(&options, path)?;
    let metadata = file.metadata()?;
    if metadata.nlink() > 1 {
        let text = format!(
            "it is a hard link: the file has {} names; move it away, or copy it in its place",
            metadata.nlink()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }

    let size = metadata.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_SEARCHED)))?;
    let mut lines = Lines::default();
    let mut piece = vec![0; PIECE];
    loop {
        let len = disk.read_piece(&mut file, &mut piece)?;
        if len == 0 {
            return Ok((file, lines));
        }
        lines.add(&piece[..len]);
    }
}

/// Adds lines after the old ones of the file.
fn add(
    disk: &dyn Disk,
    file: &mut File,
    old_lines: &Lines,
    repair: &Repair<'_>,
    make_error: impl Fn(io::Error) -> Error,
) -> Result<()> {
    let mut lines = Vec::new();
    if old_lines.open_line.is_some() {
        // Ends an incomplete line that a crash left.
        lines.push(b'\n');
    }

    repair.for_each_part(|damage, part| {
        let mut offset = 0;
        loop {
            let end = part.len().min(offset + MAX_PART);
            let line = line(damage, damage.offset + offset as u64, &part[offset..end])?;
            if !old_lines.contains(&line) {
                lines.extend(line);
                lines.push(b'\n');
            }

            if lines.len() >= MAX_PART {
                disk.write_all(file, &lines).map_err(&make_error)?;
                lines.clear();
            }

            offset = end;
            if offset == part.len() {
                return Ok(());
            }
        }
    })?;

    disk.write_all(file, &lines).map_err(&make_error)
}

fn line(damage: &Damage, offset: u64, part: &[u8]) -> serde_json::Result<Vec<u8>> {
    let text = std::str::from_utf8(part).ok();
    let entry = DamagedPart {
        offset,
        what: damage.to_string(),
        text,
        base64: text.is_none().then(|| STANDARD.encode(part)),
    };
    serde_json::to_vec(&entry)
}
