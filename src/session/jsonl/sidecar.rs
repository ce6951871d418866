//! The unreadable parts of a session, kept in a file next to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::session::Damage;
use crate::session::files::{check_regular_file, file_error};
use crate::session::log::Repair;

use super::disk::Disk;

/// The sidecar of a session's file.
pub(super) fn path_of(session: &Path) -> PathBuf {
    session.with_extension("damaged")
}

#[derive(Serialize)]
struct Kept<'a> {
    offset: u64,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// The most bytes of damage in one line of the sidecar.
const PIECE: usize = 8 * 1024 * 1024;
/// The most bytes of a sidecar that are searched for what is already there.
const SEARCHED: u64 = 64 * 1024 * 1024;

/// Adds the damaged parts to the sidecar, one line of JSON each or several where there are many
/// bytes, unless they are already there: the step after it may have failed before. They are durable
/// when this returns.
pub(super) fn keep(disk: &dyn Disk, path: &Path, repair: &Repair<'_>) -> Result<()> {
    let make_error = |error| file_error("keep the damaged part of", path, error);
    let (mut file, content) = open(disk, path).map_err(make_error)?;
    let size = file.metadata().map_err(make_error)?.len();
    let mut outcome = add(disk, &mut file, &content, repair, make_error);
    outcome = outcome.and_then(|()| disk.sync(&file).map_err(make_error));
    if let Err(error) = outcome {
        // If this fails as well, an incomplete line remains.
        let _ = disk.cut(&file, size);
        return Err(error);
    }

    match path.parent() {
        Some(folder) => disk.sync_folder(folder).map_err(make_error),
        None => Ok(()),
    }
}

/// Opens the sidecar, and reads the end of it that is searched.
fn open(disk: &dyn Disk, path: &Path) -> io::Result<(File, Vec<u8>)> {
    check_regular_file(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = disk.open(&options, path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(SEARCHED)))?;
    let mut content = Vec::new();
    disk.read(&mut file, &mut content)?;
    Ok((file, content))
}

/// Adds lines behind the `content` of the file.
fn add(
    disk: &dyn Disk,
    file: &mut File,
    content: &[u8],
    repair: &Repair<'_>,
    make_error: impl Fn(io::Error) -> Error,
) -> Result<()> {
    let mut lines = Vec::new();
    if content.last().is_some_and(|last| *last != b'\n') {
        // Ends an incomplete line that a crash left.
        lines.push(b'\n');
    }

    repair.for_each_part(|damage, part| {
        let mut offset = 0;
        loop {
            let end = part.len().min(offset + PIECE);
            let line = line(damage, damage.offset + offset as u64, &part[offset..end])?;
            let mut old_lines = content.split(|byte| *byte == b'\n');
            if !old_lines.any(|old_line| *old_line == line) {
                lines.extend(line);
                lines.push(b'\n');
            }

            if lines.len() >= PIECE {
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
    let entry = Kept {
        offset,
        what: damage.to_string(),
        text,
        base64: text.is_none().then(|| STANDARD.encode(part)),
    };
    serde_json::to_vec(&entry)
}
