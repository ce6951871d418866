//! What the model may call, what it is told of the directory, and who answers its questions.

use std::sync::Arc;

use agentcore::backend::Backend;
use agentcore::hooks::{FileCheckpoints, MemoryHook, SkillsHook, SummarizationHook, TodoListHook};
use agentcore::tools::ask::{InteractorConfirmer, TerminalInteractor, ask_user_question};
use agentcore::tools::preset;
use agentcore::{AgentBuilder, Error};
use clap::ValueEnum;

use super::args::Args;
use super::confinement;
use super::preview::Previewing;

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

/// Adds the tools, on the files beneath `cwd`, with a task list, the skills and the `AGENTS.md`
/// there if it is trusted, kept in `checkpoints` if there are any, and a summary of what is old
/// when the window fills up; with a terminal, also a way to ask the user, and the user as the one
/// who answers permission questions.
///
/// # Errors
///
/// When `cwd` cannot be opened.
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
        Some(terminal) => builder
            .tool(ask_user_question(terminal.clone()))
            .confirmer(Previewing {
                asks: InteractorConfirmer::new(terminal),
                backend: backend.clone(),
            }),
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
