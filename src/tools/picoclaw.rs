//! The tools `append_file`, `list_dir` and `exec`. The other tools of the set for files are the
//! same as in [`wick`](super::wick).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::backend::Backend;
use crate::error::BoxError;
use crate::tool::{FuncTool, ToolOutput};

use super::args::{Args, WORKING_DIR, command_access_in_folder, read_only, with_backend, writes};
use super::run::{self, Stderr, Style};
use super::{files, schema};

/// The time limit of a command, unless the backend sets another.
const TIMEOUT: Duration = Duration::from_secs(60);

const STYLE: Style = Style {
    max_chars: 10_000,
    nothing: "(no output)",
    stderr: Stderr::Headed,
};

/// Creates the tool `append_file`, which appends text to a file.
pub fn append_file(backend: impl Backend) -> FuncTool {
    let description = "Adds text to the end of a file, which is made if it is missing.";
    let parameters = schema::file(&json!({
        "content": {"type": "string", "description": "The text to add"}
    }));
    let body = with_backend(backend, files::append);
    FuncTool::new("append_file", description, parameters, body)
        .exclusive()
        .accesses(writes)
}

/// Creates the tool `list_dir`, which lists a folder as lines of `DIR:  name` and `FILE: name`.
pub fn list_dir(backend: impl Backend) -> FuncTool {
    let description = "Lists a folder, one entry a line.";
    let body = with_backend(backend, files::list_text);
    read_only(FuncTool::new(
        "list_dir",
        description,
        schema::folder(),
        body,
    ))
}

/// Creates the tool `exec`, which runs a command. Standard error follows `STDERR:`.
///
/// A command may run for 60 seconds, and 10,000 characters of each stream are shown, unless other
/// limits are set on the backend ([`Backend::command_limits`]).
pub fn exec(backend: impl Backend) -> FuncTool {
    let description = "Runs a shell command in the workspace and returns what it writes, and its \
        exit code when that is not 0.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line"},
            "working_dir": {"type": "string", "description": "Where to run it. Defaults to the workspace"}
        },
        "required": ["command"]
    });

    let shell = backend.shell();
    let limit = run::time_limit(&backend, TIMEOUT);
    FuncTool::new(
        "exec",
        description,
        parameters,
        with_backend(backend, call_exec),
    )
    .exclusive()
    .timeout(run::call_timeout(limit))
    .accesses(command_access_in_folder)
    .shell(shell)
}

async fn call_exec(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let mut command = args.command()?;
    command.cwd = args.non_empty_text(&WORKING_DIR).map(str::to_owned);
    let limit = run::time_limit(&*backend, TIMEOUT);
    run::run(&*backend, command, limit, STYLE).await
}
