//! What could not be read, kept beside the session.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::session::files::is_own;
use crate::session::scan::part_of;
use crate::state::Damage;

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

/// Adds the bytes of `damage` to the sidecar, one line of JSON each. They are durable when this
/// returns.
pub(super) fn keep<'a>(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    damage: impl Iterator<Item = &'a Damage>,
) -> io::Result<()> {
    let mut lines = Vec::new();
    for damage in damage {
        let part = part_of(bytes, damage);
        let text = std::str::from_utf8(part).ok();
        let kept = Kept {
            offset: damage.offset,
            what: damage.to_string(),
            text,
            base64: text.is_none().then(|| STANDARD.encode(part)),
        };
        serde_json::to_writer(&mut lines, &kept)?;
        lines.push(b'\n');
    }
    is_own(path)?;
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&lines)?;
    disk.sync(&file)?;
    match path.parent() {
        Some(folder) => disk.sync_folder(folder),
        None => Ok(()),
    }
}
