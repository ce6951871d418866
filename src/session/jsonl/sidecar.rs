//! The unreadable parts of a session, kept in a file next to it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::session::Damage;
use crate::session::files::is_own;
use crate::session::log::part_of;

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

/// Adds the bytes of `damage` to the sidecar, one line of JSON each, unless they are already there:
/// the step after it may have failed before. They are durable when this returns.
pub(super) fn keep<'a>(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    damage: impl Iterator<Item = &'a Damage>,
) -> io::Result<()> {
    is_own(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = disk.open(&options, path)?;
    let mut content = Vec::new();
    disk.read(&mut file, &mut content)?;
    let mut lines = Vec::new();
    if content.last().is_some_and(|last| *last != b'\n') {
        // What a crash left of a line has one to itself.
        lines.push(b'\n');
    }
    for damage in damage {
        let part = part_of(bytes, damage);
        let text = std::str::from_utf8(part).ok();
        let entry = Kept {
            offset: damage.offset,
            what: damage.to_string(),
            text,
            base64: text.is_none().then(|| STANDARD.encode(part)),
        };
        let line = serde_json::to_vec(&entry)?;
        if content
            .split(|byte| *byte == b'\n')
            .any(|old_line| *old_line == line)
        {
            continue;
        }
        lines.extend(line);
        lines.push(b'\n');
    }
    let outcome = disk.write_all(&mut file, &lines);
    if let Err(error) = outcome.and_then(|()| disk.sync(&file)) {
        // If this fails, too, only half a line stays.
        let _ = disk.cut(&file, content.len() as u64);
        return Err(error);
    }
    match path.parent() {
        Some(folder) => disk.sync_folder(folder),
        None => Ok(()),
    }
}
