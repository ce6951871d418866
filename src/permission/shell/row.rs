//! A command and the row of its program.

use crate::permission::programs::{Arguments, Program};

use super::analysis::SimpleCommand;

/// A command with the row of its program, and its words as the row reads them.
pub(super) struct Row<'a> {
    /// The index of the command.
    pub(super) index: usize,
    /// The name of its program.
    pub(super) name: &'a str,
    pub(super) command: &'a SimpleCommand,
    pub(super) program: &'static Program,
    pub(super) arguments: Arguments<'a>,
}

impl<'a> Row<'a> {
    pub(super) fn new(
        index: usize,
        name: &'a str,
        command: &'a SimpleCommand,
        program: &'static Program,
        arguments: Arguments<'a>,
    ) -> Self {
        Self {
            index,
            name,
            command,
            program,
            arguments,
        }
    }
}
