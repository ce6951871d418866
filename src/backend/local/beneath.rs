//! The opening of a path so that it cannot leave the root, regardless of concurrent changes.
//!
//! On Linux the kernel resolves the path (`openat2` with `RESOLVE_BENEATH`). It refuses every
//! absolute symbolic link, even a link that stays inside. For such links, and on kernels without
//! `openat2`, the path is resolved here: one folder after the other is opened without following
//! links, and links are read and resolved. No step depends on a check made before it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use crate::util::links::MAX_LINKS;

use super::root::Root;

/// Opens `path` below `root`. A path that leads out is [`io::ErrorKind::CrossesDevices`].
pub(super) fn open(root: &Root, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    match open_by_kernel(root.dir(), path, flags, mode) {
        // The path leaves the root or has an absolute link, the call is missing, or a filter
        // refuses it.
        Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => {}
        done => return Ok(done?),
    }
    Ok(open_by_steps(root, path, flags, mode)?)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_by_kernel(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;

    /// The number of attempts at a path with `..`, which the kernel refuses to resolve when an
    /// entry is renamed meanwhile.
    const TRIES: usize = 64;

    // The call rejects a mode unless it creates a file.
    let mode = if flags.contains(OFlags::CREATE) {
        mode
    } else {
        Mode::empty()
    };

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut outcome = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        outcome = fs::openat2(root, path, flags, mode, resolve);
        if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }

    outcome
}

fn open_by_steps(
    root: &Root,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut remaining: Vec<OsString> = Vec::new();
    let mut links = 0;
    push(&mut remaining, path.as_os_str());
    while let Some(part) = remaining.pop() {
        let current_dir = folders.last().map_or(root.dir(), AsFd::as_fd);
        match part.as_bytes() {
            b"." => continue,
            b".." => {
                folders.pop().ok_or(Errno::XDEV)?;
                continue;
            }
            _ => {}
        }

        if let Some(target) = read_link(current_dir, &part)? {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }

            if target.as_bytes().starts_with(b"/") {
                folders.clear();
                let inner_path = root.link_target(Path::new(&target)).ok_or(Errno::XDEV)?;
                push(&mut remaining, inner_path.as_os_str());
            } else {
                push(&mut remaining, &target);
            }
        } else if remaining.is_empty() {
            return fs::openat(current_dir, &part, flags | OFlags::NOFOLLOW, mode);
        } else {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            #[cfg(any(target_os = "linux", target_os = "android"))]
            let flags = flags | OFlags::PATH;
            folders.push(fs::openat(current_dir, &part, flags, Mode::empty())?);
        }
    }

    // The path ended in a folder that is already open.
    let current_dir = folders.last().map_or(root.dir(), AsFd::as_fd);
    fs::openat(
        current_dir,
        ".",
        flags.difference(OFlags::CREATE),
        Mode::empty(),
    )
}

/// Puts the parts of a path before the remaining parts, in reverse. A slash at its end stays as a
/// `.`, which only a folder has.
fn push(remaining: &mut Vec<OsString>, path: &OsStr) {
    let bytes = path.as_bytes();
    if bytes.ends_with(b"/") {
        remaining.push(OsString::from("."));
    }
    let parts = bytes.split(|byte| *byte == b'/').rev();
    remaining.extend(
        parts
            .filter(|part| !part.is_empty())
            .map(|part| OsString::from_vec(part.to_vec())),
    );
}

/// Returns the target of the link of that name; `None` when it is not a link, or missing.
pub(super) fn read_link(dir: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Option<OsString>> {
    match fs::readlinkat(dir, name, Vec::new()) {
        Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()))),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// The steps that replace `openat2` stay beneath the root as well.
    #[test]
    fn opening_in_steps_stays_beneath_the_root() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ws, out) = (folder.path().join("ws"), folder.path().join("out"));
        let result = std::fs::create_dir_all(ws.join("a/b"))
            .and_then(|()| std::fs::create_dir(&out))
            .and_then(|()| std::fs::write(ws.join("a/in"), "inside"))
            .and_then(|()| std::fs::write(out.join("secret"), "outside"))
            .and_then(|()| symlink(&out, ws.join("to_out")))
            .and_then(|()| symlink("../out", ws.join("up")))
            .and_then(|()| symlink("../a", ws.join("a/again")))
            .and_then(|()| symlink(ws.join("a"), ws.join("whole")))
            .and_then(|()| symlink(ws.join("../out"), ws.join("through")))
            .and_then(|()| symlink("loop", ws.join("loop")));
        result.expect("a tree");
        let root = Root::open(&ws).expect("a root");
        let open_path = |path: &str| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            open_by_steps(&root, Path::new(path), flags, Mode::empty())
        };

        for path in [
            "a/in",
            "a/b/../in",
            "./a//in",
            "a/again/in",
            "whole/in",
            "whole/again/in",
        ] {
            let mut text = String::new();
            let mut file = std::fs::File::from(open_path(path).expect(path));
            file.read_to_string(&mut text).expect(path);
            assert_eq!(text, "inside", "{path}");
        }

        for (path, error) in [
            ("../out/secret", Errno::XDEV),
            ("a/../../out/secret", Errno::XDEV),
            ("to_out/secret", Errno::XDEV),
            ("up/secret", Errno::XDEV),
            ("through/secret", Errno::XDEV),
            ("whole/../../out/secret", Errno::XDEV),
            ("loop", Errno::LOOP),
            ("a/in/", Errno::NOTDIR),
            ("a/in/..", Errno::NOTDIR),
            ("none/in", Errno::NOENT),
        ] {
            assert_eq!(open_path(path).map(drop), Err(error), "{path}");
        }
    }
}
