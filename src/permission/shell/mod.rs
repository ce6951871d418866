//! The analysis of shell commands: which programs would run.
//!
//! [`analyse`] reads a command as bash 5.2 does and lists every simple command in it, wherever it
//! hides. For another shell, what that may read differently is noted as opaque. It fails closed:
//! parts that it does not understand are noted as opaque, and no rule allows an opaque command. It
//! always returns, in time linear in the length of the command: length, depth, work and the number
//! of commands are limited, and reaching a limit is a reason as well.
//!
//! A text that is not in the strict grammar of `plain_grammar` is noted as unusual: bash may read
//! it in another way.
//!
//! It is not a sandbox. It cannot know what a program does when it runs, or what a script file
//! contains.

mod analyse;
mod analysis;
mod arrivals;
mod awk;
mod brace;
mod builtins;
mod code;
mod compound;
mod context;
mod environment;
mod evaluated;
mod expansion;
mod files;
mod find_words;
mod found;
mod git;
mod heredoc;
mod inputs;
mod inspect;
mod lexer;
mod listing;
mod loops;
mod operands;
mod options;
mod parser;
mod peel;
mod plain_grammar;
mod plain_words;
mod redirected;
mod replaced;
mod row;
mod sed;
mod shells;
mod simple;
mod sql;
mod targets;
#[cfg(test)]
mod tests;
mod tree_copies;
mod trees;
mod word;

pub(crate) use analyse::analyse;
pub(crate) use analysis::Payload;
pub(crate) use analysis::{Analysis, Files, Reason, SimpleCommand, Tree, TreeCopy, Use, Weight};
pub(crate) use inputs::{names_in, without_remarks};
pub(crate) use shells::SHELLS;
pub(crate) use word::{Part, Word, printable};
