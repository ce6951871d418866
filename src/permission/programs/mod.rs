//! A model of programs: rows of text with their operands and their options.
//!
//! `readers`, `writers`, `builders`, `git` and `wrappers` have the rows, `model` describes them,
//! and `arguments` reads the words of a command by its row. A program without a row is not modeled.
//!
//! Four lists add to the rows: `known` has the subcommands that do not do the work of others,
//! `closed` the commands whose files are known, `forms` the commands whose words are known
//! completely, and `launchers` the programs that run what stands somewhere in their words.

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
