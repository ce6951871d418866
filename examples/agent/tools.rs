//! The tools and hooks of the agent.

use std::sync::Arc;

use agentcore::backend::Backend;
use agentcore::hooks::{FileCheckpoints, MemoryHook, SkillsHook, SummarizationHook, TodoListHook};
use agentcore::tools::ask::{InteractorConfirmer, TerminalInteractor, ask_user_question};
use agentcore::tools::preset;
use agentcore::{AgentBuilder, Error};
use clap::ValueEnum;

use super::args::Args;
use super::confinement;
use super::preview::PreviewConfirmer;

/// The sets of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tools {
    /// Bash, Read, Write, Edit, Glob and Grep
    Coding,
    /// ls, read_file, write_file, edit_file, glob, grep and execute
    Wick,
    /// read_file, write_file, list_dir, edit_file, append_file and exec
    Picoclaw,
    /// None
    None,
}

/// Adds to a builder:
///
/// * the tools for the files below `cwd`, with their checkpoints if there are any;
/// * a task list;
/// * if the directory is trusted, its skills and its `AGENTS.md`;
/// * summaries of old messages when the context window is full;
/// * with a terminal, a tool to ask the user, who also answers permission questions.
///
/// # Errors
///
/// Returns an error if `cwd` cannot be opened.
pub(crate) fn add(
    builder: AgentBuilder,
    args: &Args,
    cwd: &str,
    checkpoints: Option<&FileCheckpoints>,
    is_trusted: bool,
) -> Result<AgentBuilder, Error> {
    let terminal = Some(TerminalInteractor::new()).filter(TerminalInteractor::is_available);
    let preset = match args.tools {
        Tools::Coding => preset::coding,
        Tools::Wick => preset::wick,
        Tools::Picoclaw => preset::picoclaw,
        Tools::None => {
            let builder = builder.hook(SummarizationHook::new());
            return Ok(match terminal {
                Some(terminal) => builder.confirmer(InteractorConfirmer::new(terminal)),
                None => builder,
            });
        }
    };

    let edit = match args.tools {
        Tools::Coding => "Edit",
        _ => "edit_file",
    };

    let (builder, backend): (_, Arc<dyn Backend>) = match checkpoints {
        Some(files) => (builder.hook(files.clone()), Arc::new(files.clone())),
        None => (builder, Arc::new(confinement::backend(args, cwd)?)),
    };

    let builder = match terminal {
        Some(terminal) => {
            builder
                .tool(ask_user_question(terminal.clone()))
                .confirmer(PreviewConfirmer {
                    confirmer: InteractorConfirmer::new(terminal),
                    backend: backend.clone(),
                })
        }
        None => builder,
    };

    let mut builder = builder
        .registry(&preset(backend.clone()))
        .hook(TodoListHook::new());
    if is_trusted {
        builder = builder
            .hook(SkillsHook::new(backend.clone()))
            .hook(MemoryHook::new(backend.clone()).edit_tool(edit));
    }

    Ok(builder.hook(SummarizationHook::new()).backend(backend))
}
