//! The support of this kernel for Landlock and seccomp filters.

/// The support of a kernel for Landlock and for seccomp filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// The version of Landlock; 0 when there is none.
    pub(super) abi: u32,
    pub(super) seccomp: bool,
}

/// Returns the support of this kernel. It is queried once.
#[cfg(target_os = "linux")]
pub(super) fn current() -> Kernel {
    use std::sync::OnceLock;

    static CURRENT: OnceLock<Kernel> = OnceLock::new();
    *CURRENT.get_or_init(|| {
        // Support is found only by trying, and that restricts the thread.
        let thread = std::thread::spawn(|| Kernel {
            abi: super::landlock::probe(),
            seccomp: super::filter::probe(),
        });

        thread.join().unwrap_or(Kernel {
            abi: 0,
            seccomp: false,
        })
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn current() -> Kernel {
    Kernel {
        abi: 0,
        seccomp: false,
    }
}
