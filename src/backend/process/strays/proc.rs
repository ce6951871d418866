//! The process table, as `/proc` shows it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::evidence::PipeEnd;
use super::process::{Environment, Process};

/// The maximum number of bytes read of an environment.
const MAX_ENVIRONMENT: usize = 8 * 1024 * 1024;
/// The file handles that are examined: the standard handles, and the handle of the lifeline that a
/// command's shell has open. Other handles are the program's own.
const HANDLES: [u8; 4] = [0, 1, 2, 9];
/// `PF_KTHREAD`: a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Returns `true` if `/proc` is mounted and shows the ids that this process uses.
pub(super) fn is_there() -> bool {
    let link = fs::read_link("/proc/self");
    link.is_ok_and(|link| link.to_str() == Some(&std::process::id().to_string()))
}

/// Returns the ids of all processes.
pub(super) fn ids() -> io::Result<Vec<i32>> {
    let mut ids = Vec::with_capacity(512);
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        ids.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(ids)
}

/// The id that was given to a process or thread last.
pub(super) fn last_id() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/ns_last_pid")
        .or_else(|_| fs::read_to_string("/proc/loadavg"))
        .ok()?;
    text.split_whitespace().next_back()?.parse().ok()
}

/// Returns the process with this id, or the thread with this id as a process; `None` if it has
/// ended.
pub(super) fn read(id: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{id}/stat")).ok()?;

    // The program name, in parentheses, may contain any character.
    let after_name = memchr::memrchr(b')', &stat)? + 1;
    let text = std::str::from_utf8(&stat[after_name..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let id_of = |field: usize| fields.get(field)?.parse::<i32>().ok();

    // A process whose first thread has ended has the state of a zombie.
    let has_ended = matches!(*fields.first()?, "Z" | "X" | "x") && number(17)? <= 1;
    if has_ended || number(6)? & KERNEL_THREAD != 0 {
        return None;
    }

    Some(Process {
        id,
        parent: id_of(1)?,
        group: id_of(2)?,
        session: id_of(3)?,
        started: number(19)?,
    })
}

/// Returns `true` if the id belongs to a process, not to one of its other threads.
pub(super) fn is_process(id: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.is_some_and(|group| group.trim() == id.to_string())
}

/// Searches the environment of a process. An environment that may not be read is
/// [`Environment::Other`].
pub(super) fn environment(id: i32, needle: &[u8]) -> Environment {
    let Ok(mut file) = File::open(format!("/proc/{id}/environ")) else {
        return Environment::Other;
    };

    let mut buffer = vec![0; 16 * 1024 + needle.len()];
    let mut carried_len = 0;
    let mut total = 0;
    while total < MAX_ENVIRONMENT {
        let count = match file.read(&mut buffer[carried_len..]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(_) => return Environment::Other,
        };

        let end = carried_len + count;
        total += count;
        if memchr::memmem::find(&buffer[..end], needle).is_some() {
            return Environment::Marked;
        }

        // The needle may span two reads.
        carried_len = end.min(needle.len().saturating_sub(1));
        buffer.copy_within(end - carried_len..end, 0);
    }

    // A process with an empty environment still has arguments.
    let is_missing = total == 0
        && fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|arguments| arguments.is_empty());
    if is_missing {
        Environment::Missing
    } else {
        Environment::Other
    }
}

/// Returns `true` if a process holds one of the pipes, at the end that is the command's.
pub(super) fn holds(id: i32, pipes: &[PipeEnd]) -> bool {
    HANDLES.iter().any(|handle| {
        let path = format!("/proc/{id}/fd/{handle}");
        let read_inode = || {
            let link = fs::read_link(&path).ok()?;
            let inode = link.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?;
            inode.parse::<u64>().ok()
        };

        let inode = read_inode();
        let Some(pipe) = pipes.iter().find(|pipe| Some(pipe.inode) == inode) else {
            return false;
        };

        // The mode of the link is how the handle was opened. The other end belongs to this process,
        // and to its children until they execute another program.
        let open_for = if pipe.is_written { 0o200 } else { 0o400 };
        let mode = fs::symlink_metadata(&path).map(|link| link.mode() & 0o600);

        // Such a child replaces the handle by the end of its own command's pipe. Between the two
        // looks at the handle, its mode could be that of the one and its pipe that of the other.
        mode.is_ok_and(|mode| mode == open_for) && read_inode() == inode
    })
}

/// Sends a signal to the process, and to no other that has its id by now.
pub(super) fn signal(process: &Process, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(process.id) else {
        return false;
    };
    let is_same = || read(process.id).is_some_and(|now| now.started == process.started);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => is_same() && pidfd_send_signal(&handle, signal).is_ok(),
        Err(Errno::SRCH | Errno::INVAL) => false,
        // The kernel is too old, a system call filter refuses the call, or no file descriptor is
        // left.
        Err(_) => is_same() && kill_process(pid, signal).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Sleeper(Child);

    impl Sleeper {
        fn new(variables: &[(&str, String)]) -> Self {
            let mut command = Command::new("sleep");
            command.arg("30").stdin(Stdio::piped());
            command.env_clear().envs(variables.iter().cloned());
            Self(command.spawn().unwrap())
        }

        fn id(&self) -> i32 {
            i32::try_from(self.0.id()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn environment_is_searched_beyond_long_variables() {
        let long_value = |letter: &str| letter.repeat(100_000);
        let sleeper = Sleeper::new(&[
            ("A", long_value("a")),
            ("B", long_value("b")),
            ("C", long_value("c")),
            ("MARK", "1234".to_owned()),
        ]);
        let search = |needle: &[u8]| environment(sleeper.id(), needle);
        assert_eq!(search(b"MARK=1234\0"), Environment::Marked);
        assert_eq!(search(b"MARK=1235\0"), Environment::Other);
        let empty = Sleeper::new(&[]);
        assert_eq!(environment(empty.id(), b"M"), Environment::Other);
    }

    #[test]
    fn holds_matches_only_the_pipe_end_of_the_command() {
        let sleeper = Sleeper::new(&[]);
        let stdin = sleeper.0.stdin.as_ref().unwrap();
        let inode = rustix::fs::fstat(stdin).unwrap().st_ino;
        let end = |is_written| PipeEnd { inode, is_written };
        assert!(holds(sleeper.id(), &[end(false)]));
        assert!(!holds(sleeper.id(), &[end(true)]));
        let other_pipe = PipeEnd {
            inode: inode + 1_000_000,
            is_written: false,
        };
        assert!(!holds(sleeper.id(), &[other_pipe]));
    }

    #[test]
    fn ended_process_is_not_found_and_not_signaled() {
        let mut sleeper = Sleeper::new(&[]);
        let process = read(sleeper.id()).unwrap();
        assert_eq!(process.parent, i32::try_from(std::process::id()).unwrap());
        assert!(is_process(sleeper.id()));
        assert!(signal(&process, Signal::KILL));
        // Until it is waited for, the process is a zombie.
        while read(sleeper.id()).is_some() {
            std::thread::yield_now();
        }
        sleeper.0.wait().unwrap();
        assert!(!signal(&process, Signal::KILL));
    }
}
