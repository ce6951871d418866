//! The unreadable parts of a session, kept in a file next to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::session::Damage;
use crate::session::files::check_regular_file;

use super::disk::Disk;
use super::file::Source;

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

/// Adds the bytes of `damage` to the sidecar, one line of JSON each or several where there are many,
/// unless they are already there: the step after it may have failed before. They are durable when this
/// returns.
pub(super) fn keep<'a>(
    disk: &dyn Disk,
    path: &Path,
    source: &Source<'_>,
    damage: impl Iterator<Item = &'a Damage>,
) -> io::Result<()> {
    check_regular_file(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = disk.open(&options, path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(SEARCHED)))?;
    let mut content = Vec::new();
    disk.read(&mut file, &mut content)?;
    let outcome = add(disk, &mut file, &content, source, damage);
    if let Err(error) = outcome.and_then(|()| disk.sync(&file)) {
        // If this fails as well, an incomplete line remains.
        let _ = disk.cut(&file, size);
        return Err(error);
    }

    match path.parent() {
        Some(folder) => disk.sync_folder(folder),
        None => Ok(()),
    }
}

/// Adds lines behind the `content` of the file.
fn add<'a>(
    disk: &dyn Disk,
    file: &mut File,
    content: &[u8],
    source: &Source<'_>,
    damage: impl Iterator<Item = &'a Damage>,
) -> io::Result<()> {
    let mut lines = Vec::new();
    if content.last().is_some_and(|last| *last != b'\n') {
        // Ends an incomplete line that a crash left.
        lines.push(b'\n');
    }

    for damage in damage {
        let end = damage.offset.saturating_add(damage.len);
        let mut offset = damage.offset;
        loop {
            let len = usize::try_from(end - offset).map_or(PIECE, |len| len.min(PIECE));
            let line = line(damage, offset, &source.part(offset, len)?)?;
            let mut old_lines = content.split(|byte| *byte == b'\n');
            if !old_lines.any(|old_line| *old_line == line) {
                lines.extend(line);
                lines.push(b'\n');
            }

            if lines.len() >= PIECE {
                disk.write_all(file, &lines)?;
                lines.clear();
            }

            offset += len as u64;
            if offset >= end {
                break;
            }
        }
    }

    disk.write_all(file, &lines)
}

fn line(damage: &Damage, offset: u64, part: &[u8]) -> io::Result<Vec<u8>> {
    let text = std::str::from_utf8(part).ok();
    let entry = Kept {
        offset,
        what: damage.to_string(),
        text,
        base64: text.is_none().then(|| STANDARD.encode(part)),
    };
    Ok(serde_json::to_vec(&entry)?)
}
