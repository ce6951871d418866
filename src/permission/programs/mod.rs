//! A model of programs: their operands and their options.
//!
//! A program without a row is not modeled. The words of a program may name another program or a
//! file.

mod arguments;
mod builders;
mod closed;
mod forms;
mod git;
mod known;
mod launchers;
mod model;
mod readers;
mod wrappers;
mod writers;

pub(crate) use arguments::{Arguments, UnknownOption, is_uncertain};
pub(crate) use closed::{KnownFiles, known_files};
pub(crate) use forms::{Complete, Form, has_fixed_end, subcommand_words};
pub(crate) use known::{is_group, known};
pub(crate) use launchers::{
    is_console, is_launcher, is_program, runs_any, runs_elsewhere, runs_here,
};
pub(crate) use model::{
    Dash, Model, Program, first_operand, is_interpreter, is_versioned, model, runs_files,
    unversioned_name, without_version, works_inside, wraps,
};
