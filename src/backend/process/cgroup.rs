//! A cgroup for each command, where this process may make one.
//!
//! Processes in a cgroup stay in it, even if they fork, and the kernel ends all of them at once.
//! This process itself is never moved: the cgroups of its commands are made below its own.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Once};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// The prefix of the names of the cgroups of commands.
const PREFIX: &str = "agentcore-";
/// The maximum number of leftovers that one process removes; the others are left to the next.
const MAX_LEFTOVERS: usize = 1_024;
/// The maximum depth of removed cgroups: a command may have created some in its own.
const MAX_DEPTH: usize = 16;
/// The pause between two attempts to remove a cgroup whose processes were killed.
const PAUSE: Duration = Duration::from_millis(1);

/// The mount of cgroups of version 2: its path, and the part of the hierarchy visible there.
static MOUNT: LazyLock<Option<(PathBuf, String)>> = LazyLock::new(|| {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(mount)
});
/// True once creating a cgroup, or moving a command into one, has failed permanently.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
static CLEANED: Once = Once::new();

/// The cgroup of one command.
#[derive(Debug)]
pub(in super::super) struct Cgroup {
    path: PathBuf,
    /// Locked during the life of this process: a cgroup without a lock is a leftover.
    lock: File,
}

impl Cgroup {
    /// Creates a cgroup below the cgroup of this process. Returns `None` if that is not possible.
    pub(in super::super) fn new() -> Option<Self> {
        if IS_REFUSED.load(Ordering::Relaxed) {
            return None;
        }

        let (mount, root) = MOUNT.as_ref()?;
        let own_cgroup = own(mount, root, &fs::read_to_string("/proc/self/cgroup").ok()?)?;
        CLEANED.call_once(|| remove_leftovers(&own_cgroup));
        let process = std::process::id();
        let random_id = fastrand::u64(..);
        match Self::at(own_cgroup.join(format!("{PREFIX}{process}-{random_id:016x}"))) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                note(&error);
                None
            }
        }
    }

    fn at(path: PathBuf) -> io::Result<Self> {
        fs::create_dir(&path)?;
        let lock = File::open(&path).inspect_err(|_| drop(fs::remove_dir(&path)))?;

        // From here on, dropping the cgroup removes the folder.
        let cgroup = Self { path, lock };
        flock(&cgroup.lock, FlockOperation::NonBlockingLockExclusive)?;
        if cgroup.path.join("cgroup.kill").exists() {
            return Ok(cgroup);
        }

        // Older kernels have no `cgroup.kill`. Without its folder, another process removed the
        // cgroup as a leftover before it was locked.
        let kind = if cgroup.path.exists() {
            ErrorKind::Unsupported
        } else {
            ErrorKind::NotFound
        };

        Err(kind.into())
    }

    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a child of this process that was not waited for into the cgroup. Returns `true` if the
    /// child was moved. May block for some milliseconds, while the kernel waits for other
    /// processors.
    pub(in super::super) fn admit(&self, child: u32) -> bool {
        let result = fs::write(self.path.join("cgroup.procs"), child.to_string());
        if let Err(error) = &result {
            note(error);
        }
        result.is_ok()
    }

    /// Kills all processes in the cgroup.
    pub(super) fn kill(&self) {
        // The write fails if the cgroup is gone, and then its processes are gone as well.
        drop(fs::write(self.path.join("cgroup.kill"), "1"));
    }

    /// Kills all processes in the cgroup and removes it. Returns `false` if it was not empty by the
    /// deadline.
    pub(super) fn remove(&self, deadline: Instant) -> bool {
        loop {
            self.kill();
            if remove(&self.path, MAX_DEPTH) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(PAUSE);
        }
    }
}

impl Drop for Cgroup {
    /// Kills all processes in the cgroup, and removes it if it is empty then. A cgroup that is left
    /// is removed by a later process.
    fn drop(&mut self) {
        self.kill();
        remove(&self.path, MAX_DEPTH);
    }
}

/// Records a failure if it is permanent: no further cgroup is created then.
fn note(error: &io::Error) {
    let is_lasting = matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::Unsupported
    );
    if is_lasting && !IS_REFUSED.swap(true, Ordering::Relaxed) {
        tracing::debug!(%error, "commands get no cgroup of their own");
    }
}

/// Returns the mount point and the mounted root of a hierarchy of version 2, from a line of
/// `mountinfo`.
fn mount(line: &str) -> Option<(PathBuf, String)> {
    let (mount, system) = line.split_once(" - ")?;
    if system.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    let root = fields.next()?;
    let path = fields.next()?;
    // Special characters are escaped in this file; such paths are not supported.
    (!path.contains('\\')).then(|| (PathBuf::from(path), root.to_owned()))
}

/// Returns the folder of the cgroup of this process, from the text of `/proc/self/cgroup`.
fn own(mount: &Path, root: &str, text: &str) -> Option<PathBuf> {
    let cgroup_path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let relative_path = cgroup_path.strip_prefix(root.trim_end_matches('/'))?;
    if !(relative_path.is_empty() || relative_path.starts_with('/'))
        || relative_path.contains("/..")
    {
        return None;
    }
    Some(mount.join(relative_path.trim_start_matches('/')))
}

/// Kills and removes the cgroups of processes that have ended without removing them.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };

    let names = entries.flatten().take(MAX_LEFTOVERS);
    for entry in names.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let path = entry.path();
        let is_left = File::open(&path).is_ok_and(|lock| {
            let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
            if locked.is_ok() {
                drop(fs::write(path.join("cgroup.kill"), "1"));
            }

            locked.is_ok()
        });

        if is_left {
            // If killed processes have not exited yet, another process removes the cgroup later.
            remove(&path, MAX_DEPTH);
        }
    }
}

/// Removes a cgroup and the cgroups in it. Returns `true` if it was removed.
fn remove(path: &Path, depth: usize) -> bool {
    if let (Ok(entries), 1..) = (fs::read_dir(path), depth) {
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        for entry in entries.flatten().filter(is_folder) {
            remove(&entry.path(), depth - 1);
        }
    }
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_finds_the_cgroup_v2_hierarchy() {
        let line = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        let expected = (PathBuf::from("/sys/fs/cgroup/unified"), "/".to_owned());
        assert_eq!(mount(line), Some(expected));
        let first = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        assert_eq!(mount(first), None);
        assert_eq!(
            mount("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw"),
            None
        );
        assert_eq!(mount(""), None);
    }

    #[test]
    fn own_cgroup_lies_beneath_the_mount() {
        let path = |root: &str, text: &str| own(Path::new("/c"), root, text);
        let text = "1:cpu:/x\n0::/user.slice/app.scope\n";
        assert_eq!(path("/", text), Some("/c/user.slice/app.scope".into()));
        assert_eq!(path("/user.slice", text), Some("/c/app.scope".into()));
        assert_eq!(path("/", "0::/\n"), Some("/c/".into()));
        assert_eq!(path("/user", text), None);
        assert_eq!(path("/other", text), None);
        assert_eq!(path("/", "0::/../x\n"), None);
        assert_eq!(path("/", "1:cpu:/x\n"), None);
    }

    #[test]
    fn unlocked_cgroup_is_removed_and_a_locked_one_is_kept() {
        // Skipped where this process may not create a cgroup.
        let Some(cgroup) = Cgroup::new() else { return };
        let parent = cgroup.path().parent().unwrap();
        let leftover_folder = parent.join(format!("{PREFIX}0-{:016x}", fastrand::u64(..)));
        fs::create_dir(&leftover_folder).unwrap();
        remove_leftovers(parent);
        assert!(!leftover_folder.exists());
        assert!(cgroup.path().exists());
        let path = cgroup.path().to_owned();
        fs::create_dir(path.join("inner")).unwrap();
        assert!(cgroup.remove(Instant::now()));
        assert!(!path.exists());
    }
}
