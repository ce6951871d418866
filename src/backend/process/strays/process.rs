//! [`Process`] and [`Environment`], the data of a process in the process table.

/// A process that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) id: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// The start time, in ticks since the machine started. With the id, it identifies a process.
    pub(super) started: u64,
}

/// The environment of a process, as it was when its program was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Environment {
    /// It has the mark of the command.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    Marked,
    /// It does not have the mark, or may not be read.
    Other,
    /// No data: a program is being started, or the process is about to end.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    Missing,
}
