//! The report of a sandbox's enforcement on a machine.

use std::fmt;

use super::kernel::Kernel;
use super::policy::Sandbox;

/// The oldest version of Landlock that also keeps files from being truncated.
const TRUNCATE: u32 = 3;
/// The oldest version that supports TCP ports.
const TCP: u32 = 4;
/// The oldest version that supports abstract Unix sockets and signals.
const SCOPES: u32 = 6;

/// A kind of access that a [`Sandbox`] prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SandboxLimit {
    /// Access to files and folders that are not allowed, and to the memory of processes outside.
    Files,
    /// The truncation of files that may not be written.
    Truncation,
    /// Access to TCP ports that are not allowed.
    Tcp,
    /// UDP, Unix, raw and all other sockets that are not allowed.
    Sockets,
    /// Unix sockets without a file, of listeners outside.
    AbstractSockets,
    /// Signals to processes outside.
    Signals,
    /// The keys that the kernel stores for the user.
    Keyrings,
}

impl SandboxLimit {
    /// `files`, `truncation`, `tcp`, `sockets`, `abstract_sockets`, `signals` or `keyrings`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Truncation => "truncation",
            Self::Tcp => "tcp",
            Self::Sockets => "sockets",
            Self::AbstractSockets => "abstract_sockets",
            Self::Signals => "signals",
            Self::Keyrings => "keyrings",
        }
    }

    /// Returns the requirement for enforcing it.
    fn needs(self) -> &'static str {
        match self {
            Self::Files => "Landlock, of Linux 5.13 and newer where it is turned on",
            Self::Truncation => "Landlock 3 (Linux 6.2)",
            Self::Tcp => "seccomp filters, and Landlock 4 (Linux 6.7) if TCP ports are allowed",
            Self::AbstractSockets => "Landlock 6 (Linux 6.12) or no Unix sockets",
            Self::Signals => "Landlock 6 (Linux 6.12), or else allow `signals()`",
            Self::Sockets | Self::Keyrings => "seccomp filters on x86_64, aarch64 or riscv64",
        }
    }
}

impl fmt::Display for SandboxLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The parts of a [`Sandbox`] that the kernel of this machine enforces; from [`Sandbox::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxReport {
    /// The version of Landlock that is used; 0 when there is none.
    pub abi: u32,
    /// True if there are seccomp filters.
    pub seccomp: bool,
    /// The enforced limits.
    pub enforced: Vec<SandboxLimit>,
    /// The requested limits that cannot be enforced.
    pub missing: Vec<SandboxLimit>,
}

impl SandboxReport {
    /// Returns `true` if all requested limits are enforced.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the missing limits, and their requirements.
    pub(super) fn shortfall(&self) -> String {
        let missing_limits = self.missing.iter();
        let missing_limits =
            missing_limits.map(|limit| format!("{limit} (needs {})", limit.needs()));
        missing_limits.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.abi {
            0 => f.write_str("no Landlock")?,
            abi => write!(f, "Landlock {abi}")?,
        }

        let seccomp = if self.seccomp {
            "seccomp"
        } else {
            "no seccomp"
        };

        let enforced_limits: Vec<&str> = self.enforced.iter().map(|limit| limit.as_str()).collect();
        write!(f, ", {seccomp}; enforced: {}", enforced_limits.join(", "))?;
        if self.is_complete() {
            Ok(())
        } else {
            write!(f, "; missing: {}", self.shortfall())
        }
    }
}

/// Compares a sandbox with the abilities of a kernel.
pub(super) fn assess(sandbox: &Sandbox, kernel: Kernel) -> SandboxReport {
    let Kernel { abi, seccomp } = kernel;
    let any_network = sandbox.any_network;
    let no_unix_sockets = seccomp && !sandbox.unix_sockets;
    // Each limit, whether it is requested, and whether the kernel can enforce it.
    let requests = [
        (SandboxLimit::Files, true, abi >= 1),
        (SandboxLimit::Truncation, true, abi >= TRUNCATE),
        // If no TCP is allowed, the filter alone is sufficient.
        (
            SandboxLimit::Tcp,
            !any_network,
            seccomp && (abi >= TCP || !sandbox.tcp()),
        ),
        (SandboxLimit::Sockets, !any_network, seccomp),
        (
            SandboxLimit::AbstractSockets,
            !any_network,
            abi >= SCOPES || no_unix_sockets,
        ),
        (SandboxLimit::Signals, !sandbox.signals, abi >= SCOPES),
        (SandboxLimit::Keyrings, true, seccomp),
    ];
    let limits_with = |enforced: bool| {
        requests
            .iter()
            .filter(|(_, is_requested, able)| *is_requested && *able == enforced)
            .map(|(limit, ..)| *limit)
            .collect()
    };

    SandboxReport {
        abi,
        seccomp,
        enforced: limits_with(true),
        missing: limits_with(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(sandbox: &Sandbox, abi: u32, seccomp: bool) -> Vec<SandboxLimit> {
        assess(sandbox, Kernel { abi, seccomp }).missing
    }

    #[test]
    fn missing_limits_depend_on_kernel_and_sandbox() {
        use SandboxLimit::*;
        let closed_sandbox = Sandbox::new();
        let web = Sandbox::new().tcp_connect([443]);
        let open_sandbox = Sandbox::new().any_network().signals();
        let local_sandbox = Sandbox::new().unix_sockets();
        for (sandbox, abi, seccomp, expected) in [
            (&closed_sandbox, 6, true, vec![]),
            (&closed_sandbox, 5, true, vec![Signals]),
            (&closed_sandbox, 2, true, vec![Truncation, Signals]),
            (&closed_sandbox, 0, true, vec![Files, Truncation, Signals]),
            (&closed_sandbox, 9, false, vec![Tcp, Sockets, Keyrings]),
            (&web, 6, true, vec![]),
            (&web, 3, true, vec![Tcp, Signals]),
            (&web, 6, false, vec![Tcp, Sockets, Keyrings]),
            (&open_sandbox, 3, true, vec![]),
            (&open_sandbox, 3, false, vec![Keyrings]),
            (&local_sandbox, 6, true, vec![]),
            (&local_sandbox, 5, true, vec![AbstractSockets, Signals]),
        ] {
            assert_eq!(
                missing(sandbox, abi, seccomp),
                expected,
                "{sandbox:?} on {abi}"
            );
        }
    }

    #[test]
    fn report_prints_enforced_and_missing_limits() {
        let report = assess(
            &Sandbox::new(),
            Kernel {
                abi: 5,
                seccomp: true,
            },
        );
        assert_eq!(
            report.to_string(),
            "Landlock 5, seccomp; enforced: files, truncation, tcp, sockets, abstract_sockets, \
             keyrings; missing: signals (needs Landlock 6 (Linux 6.12), or else allow `signals()`)"
        );
    }
}
