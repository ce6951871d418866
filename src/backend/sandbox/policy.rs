//! [`Sandbox`], the policy of a sandbox: the files, ports and signals that commands may use.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::super::denied::DeniedPath;
use super::carve::real_path;
use super::kernel;
use super::report::{SandboxReport, assess};

/// The folders of programs and their libraries. Missing folders are skipped.
const SYSTEM: [&str; 9] = [
    "/bin",
    "/sbin",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
];

/// The public files that programs look up. They exclude the rest of `/etc`, where a privileged user
/// could read the passwords.
const LOOKED_UP: [&str; 34] = [
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// The files of `/proc` about the machine, not about a process.
const MACHINE: [&str; 9] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
];

/// The files and networks that the commands of a [`LocalBackend`](super::super::LocalBackend) may
/// access, enforced by the Linux kernel: files and TCP ports by Landlock, other sockets by a
/// seccomp filter. No privileges are needed, and nothing has to be installed.
///
/// It applies to a command and all processes that it starts, even in the background and as a
/// daemon, and cannot be lifted again.
///
/// ```
/// use agentcore::backend::Sandbox;
///
/// let sandbox = Sandbox::workspace("/srv/project")
///     .execute("/opt/toolchain")
///     .tcp_connect([443]);
/// // The part that this machine can enforce.
/// let report = sandbox.check();
/// println!("{report}");
/// assert!(report.is_complete() || !report.missing.is_empty());
/// ```
///
/// # All or nothing
///
/// If the kernel cannot enforce everything that is requested, commands are refused with an error
/// that names the missing features. On systems other than Linux, they are always refused.
/// [`best_effort`](Self::best_effort) runs them with the enforceable part, and
/// [`check`](Self::check) reports that part beforehand. Linux 6.12 and newer can enforce
/// everything where Landlock is turned on and the machine is x86_64, aarch64 or riscv64. A sandbox
/// that [allows signals](Self::signals) and no Unix sockets needs Linux 6.2, or 6.7 when it allows
/// TCP ports.
///
/// # What it does not cover
///
/// * The metadata that can be learned about a file without opening it: that it exists, its size and
///   its times. Also, the mode, owner, times and extended attributes of the user's own files can be
///   changed, wherever they are.
/// * `/proc`, once it is allowed. [`workspace`](Self::workspace) does not, so that neither command
///   lines nor environments of other processes can be read. With it, the environments of
///   processes outside stay hidden for an unprivileged user, and their memory for everyone.
/// * The permissions of a workspace apply throughout, unless paths below it are
///   [denied](Self::hold_denied). A hook that a command writes into `.git` is run by the next user
///   of git, outside.
/// * The amounts of memory, processes, disk space and time.
/// * Faults of the kernel, System V shared memory, and, for a privileged user, what can be done
///   without files and sockets, such as setting the clock. Do not run agents as root.
///
/// # Programs that fail
///
/// Programs that gain privileges when started, such as `sudo`, do not gain them. On a 64-bit
/// machine, the filter kills 32-bit programs.
///
/// # Denied paths
///
/// A command may come with paths that permission rules deny
/// ([`Command::denied`](super::super::Command)). In folders that it may only read or run, they are
/// always withheld: instead of the folder around a denied path, the folder's other entries are
/// allowed, as they are when the command starts. In folders that it may write, such as the root of
/// a [`workspace`](Self::workspace), they are withheld only with
/// [`hold_denied`](Self::hold_denied). Names of denied files can always be listed.
///
/// # Devices
///
/// `/dev/null`, `zero`, `full`, `random` and `urandom` are always there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    pub(super) paths: Vec<Allowed>,
    pub(super) any_network: bool,
    pub(super) connect: BTreeSet<u16>,
    pub(super) bind: BTreeSet<u16>,
    pub(super) udp: bool,
    pub(super) unix_sockets: bool,
    pub(super) signals: bool,
    pub(super) private_folder: bool,
    pub(super) hold_denied: bool,
    pub(super) best_effort: bool,
    max_abi: Option<u32>,
}

/// A path and what may be done below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) path: PathBuf,
    pub(super) access: Access,
    /// True if a missing path is an error.
    pub(super) required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Execute,
    Write,
}

impl Sandbox {
    /// Creates a sandbox that allows nothing: until a path is allowed, not even a shell can be
    /// started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a sandbox for most work in a folder: programs and libraries of the system can be
    /// run, its harmless settings read, everything done below `root`. Commands get a [private
    /// folder](Self::private_folder), and no network.
    pub fn workspace(root: impl Into<PathBuf>) -> Self {
        let mut sandbox = Self::new().write(root).private_folder();
        let system = SYSTEM.iter().map(|path| (path, Access::Execute));
        let read_paths = LOOKED_UP
            .iter()
            .chain(&MACHINE)
            .map(|path| (path, Access::Read));
        sandbox
            .paths
            .extend(system.chain(read_paths).map(|(path, access)| Allowed {
                path: PathBuf::from(path),
                access,
                required: false,
            }));
        sandbox
    }

    /// Allows reading a file, or everything below a folder. It must exist when a command starts.
    #[must_use]
    pub fn read(self, path: impl Into<PathBuf>) -> Self {
        self.allow(path, Access::Read)
    }

    /// Allows reading and running a program, or all below a folder. It must exist when a command
    /// starts.
    #[must_use]
    pub fn execute(self, path: impl Into<PathBuf>) -> Self {
        self.allow(path, Access::Execute)
    }

    /// Allows everything with a file, or below a folder: reading, running, making, writing,
    /// removing. Devices cannot be made. It must exist when a command starts.
    #[must_use]
    pub fn write(self, path: impl Into<PathBuf>) -> Self {
        self.allow(path, Access::Write)
    }

    /// Allows connecting to these TCP ports, on every host. Names are resolved over
    /// [`udp`](Self::udp).
    #[must_use]
    pub fn tcp_connect(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.connect.extend(ports);
        self
    }

    /// Allows listening on these TCP ports; 0 is a port the kernel chooses.
    #[must_use]
    pub fn tcp_bind(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.bind.extend(ports);
        self
    }

    /// Allows UDP, to and from everywhere.
    #[must_use]
    pub fn udp(mut self) -> Self {
        self.udp = true;
        self
    }

    /// Allows Unix sockets: every server that listens on one in the file system can be reached, and
    /// some servers, such as a container engine, do anything for their clients.
    #[must_use]
    pub fn unix_sockets(mut self) -> Self {
        self.unix_sockets = true;
        self
    }

    /// Allows every kind of network, and Unix sockets.
    #[must_use]
    pub fn any_network(mut self) -> Self {
        self.any_network = true;
        self
    }

    /// Allows no network and no Unix sockets, regardless of earlier settings.
    #[must_use]
    pub fn no_network(mut self) -> Self {
        (self.any_network, self.udp, self.unix_sockets) = (false, false, false);
        self.connect.clear();
        self.bind.clear();
        self
    }

    /// Allows signals to processes outside.
    #[must_use]
    pub fn signals(mut self) -> Self {
        self.signals = true;
        self
    }

    /// Gives the backend's commands a folder of their own: their `TMPDIR` and `HOME`, unless these
    /// are set for them. It is made in the system's temporary folder with the first command and
    /// removed with the backend.
    #[must_use]
    pub fn private_folder(mut self) -> Self {
        self.private_folder = true;
        self
    }

    /// Sets whether denied paths are also withheld from commands in folders that they may write.
    /// Defaults to `false`, because it restricts a command in every folder between the allowed one
    /// and a denied path: if the path must not be read, the command cannot read files there that
    /// did not exist when it started; if it must not be written, the command can neither create nor
    /// remove entries there.
    #[must_use]
    pub fn hold_denied(mut self, hold: bool) -> Self {
        self.hold_denied = hold;
        self
    }

    /// Sets whether commands run even if the kernel cannot enforce all restrictions that are
    /// requested. They do not by default.
    #[must_use]
    pub fn best_effort(mut self, yes: bool) -> Self {
        self.best_effort = yes;
        self
    }

    /// Sets the highest version of Landlock that is used, even if the kernel has a newer one, to
    /// examine the sandbox on older kernels. 0 means no Landlock.
    #[must_use]
    pub fn max_abi(mut self, abi: u32) -> Self {
        self.max_abi = Some(abi);
        self
    }

    /// Reports the part of this sandbox that the kernel of this machine can enforce.
    pub fn check(&self) -> SandboxReport {
        let mut kernel = kernel::current();
        kernel.abi = kernel.abi.min(self.max_abi.unwrap_or(u32::MAX));
        assess(self, kernel)
    }

    /// Returns the reason why the kernel does not withhold a denied path from commands, as the end
    /// of a sentence about the kernel; `None` if it does.
    pub(crate) fn obstacle(&self, denied: &DeniedPath) -> Option<String> {
        if self.check().abi == 0 {
            return Some("which has no Landlock".to_owned());
        }
        if self.hold_denied {
            return None;
        }
        let path = real_path(&denied.path);
        let contains = |allowed: &&Allowed| {
            let allowed_path = real_path(&allowed.path);
            let overlaps = path.starts_with(&allowed_path) || allowed_path.starts_with(&path);
            allowed.access == Access::Write && overlaps
        };
        let writable = self.paths.iter().find(contains)?;
        Some(format!(
            "because commands may write {:?}; `hold_denied(true)` holds them",
            writable.path
        ))
    }

    fn allow(mut self, path: impl Into<PathBuf>, access: Access) -> Self {
        let path: PathBuf = path.into();
        self.paths.push(Allowed {
            path,
            access,
            required: true,
        });
        self
    }

    /// Returns `true` if any TCP port is allowed.
    pub(super) fn tcp(&self) -> bool {
        !self.connect.is_empty() || !self.bind.is_empty()
    }
}
