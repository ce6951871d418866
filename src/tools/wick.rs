//! The tools `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and `execute`.
//!
//! A call names a file with `path` or `file_path`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::backend::{Backend, CommandLimits, GlobQuery, GrepQuery};
use crate::error::BoxError;
use crate::tool::{FuncTool, ToolOutput};

use super::args::{Args, PATH, edits, read_only, runs, searches_paths, with_backend, writes};
use super::edit::{self, EditPolicy};
use super::read::read_raw;
use super::run::{self, Stderr, Style};
use super::{files, find, schema};

/// The time limit of a command, unless the backend sets another.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum number of files that `glob` returns.
const MAX_FILES: usize = 100;
/// The maximum number of lines that `grep` returns.
const MAX_MATCHES: usize = 200;

const STYLE: Style = Style {
    max_chars: 100_000,
    nothing: "<no output>",
    stderr: Stderr::Marked,
};

/// Creates the tool `ls`, which lists a folder as a JSON array of `{name, type, size}`.
pub fn ls(backend: impl Backend) -> FuncTool {
    let description = "Lists a folder as a JSON array of name, type (file, dir, symlink) and size.";
    let body = with_backend(backend, files::list_json);
    read_only(FuncTool::new("ls", description, schema::folder(), body))
}

/// Creates the tool `read_file`, which returns a file unchanged, or some of its lines. A file that
/// is not UTF-8 is returned as `base64:` and its encoded bytes.
pub fn read_file(backend: impl Backend) -> FuncTool {
    let description = "Returns the content of a file; content that is not UTF-8 as base64: and \
        the bytes encoded. With offset or limit, only those lines.";
    let parameters = schema::file(&json!({
        "offset": {"type": "integer", "minimum": 0, "description": "The first line, from 1"},
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines"}
    }));
    let body = with_backend(backend, read_raw);
    read_only(FuncTool::new("read_file", description, parameters, body))
}

/// Creates the tool `write_file`, which writes a whole file and replaces its content.
pub fn write_file(backend: impl Backend) -> FuncTool {
    let description = "Writes a file and replaces its content; missing folders are created.";
    let parameters = schema::file(&json!({
        "content": {"type": "string", "description": "The whole content"}
    }));
    let body = with_backend(backend, files::write);
    FuncTool::new("write_file", description, parameters, body)
        .exclusive()
        .accesses(writes)
}

/// Creates the tool `edit_file`, which replaces a text; `policy` selects among several occurrences.
/// The arguments are `old_text` and `new_text`, or `old_string` and `new_string`. An edit that
/// another process makes at the same moment may be lost (see [`tools`](super)).
pub fn edit_file(backend: impl Backend, policy: EditPolicy) -> FuncTool {
    let which = match policy {
        EditPolicy::First => "the first occurrence",
        EditPolicy::Unique => "the only occurrence",
        EditPolicy::All => "every occurrence",
    };

    let description = format!(
        "Replaces {which} of old_text by new_text in a file and returns the difference. old_text \
         must be found exactly, with whitespace and line breaks as in the file."
    );
    let parameters = schema::file(&json!({
        "old_text": {"type": "string", "description": "The text to replace"},
        "new_text": {"type": "string", "description": "The replacement"}
    }));

    let body = with_backend(backend, move |backend, args| {
        call_edit(backend, args, policy)
    });

    FuncTool::new("edit_file", description, parameters, body)
        .exclusive()
        .accesses(edits)
}

async fn call_edit(
    backend: Arc<dyn Backend>,
    args: Args,
    policy: EditPolicy,
) -> Result<ToolOutput, BoxError> {
    let path = args.text(&PATH)?;
    let old = args.text(&["old_text", "old_string"])?;
    let new = args.text(&["new_text", "new_string"])?;
    edit::edit(&*backend, path, old, new, policy).await
}

/// Creates the tool `glob`, which returns at most 100 files that match a pattern. A pattern without
/// a slash matches at any depth.
pub fn glob(backend: impl Backend) -> FuncTool {
    let description = "Finds files by a pattern such as src/**/*.rs, or *.rs at any depth, and \
        returns their paths, sorted.";
    let body = with_backend(backend, call_glob);
    read_only(FuncTool::new("glob", description, schema::glob(), body)).accesses(searches_paths)
}

async fn call_glob(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let mut query = GlobQuery::new(args.text(&["pattern"])?)
        .any_depth()
        .with_limit(MAX_FILES)
        .with_filter(args.readable(&*backend));
    query.path = args.folder().map(str::to_owned);
    find::glob(&*backend, query, &args).await
}

/// Creates the tool `grep`, which returns at most 200 lines that match a regular expression.
pub fn grep(backend: impl Backend) -> FuncTool {
    let description = "Searches files for a regular expression and returns the lines that match, \
        each after its path and number.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The regular expression"},
            "path": {"type": "string", "description": "The file or folder to search. Defaults to the workspace"}
        },
        "required": ["pattern"]
    });

    let body = with_backend(backend, call_grep);
    read_only(FuncTool::new("grep", description, parameters, body))
}

async fn call_grep(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let mut query = GrepQuery::new(args.text(&["pattern"])?)
        .with_limit(MAX_MATCHES)
        .with_filter(args.readable(&*backend));
    query.path = args.folder().map(str::to_owned);
    find::grep(&*backend, query, true, &args).await
}

/// Creates the tool `execute`, which runs a command. Lines of standard error begin with
/// `[stderr] `.
///
/// A command may run for 120 seconds, and 100,000 characters of each stream are shown, unless other
/// limits are set on the backend ([`Backend::command_limits`]).
pub fn execute(backend: impl Backend) -> FuncTool {
    execute_as(backend, STYLE, CommandLimits::default())
}

/// Creates [`execute`] with `limits` instead of the backend's. If `is_whole`, the whole output is
/// shown, for a caller that cuts long results itself.
pub(crate) fn execute_within(
    backend: impl Backend,
    is_whole: bool,
    limits: CommandLimits,
) -> FuncTool {
    let max_chars = if is_whole {
        usize::MAX
    } else {
        STYLE.max_chars
    };
    execute_as(backend, Style { max_chars, ..STYLE }, limits)
}

fn execute_as(backend: impl Backend, style: Style, limits: CommandLimits) -> FuncTool {
    let description = "Runs a shell command in the workspace and returns what it writes, lines of \
        standard error marked [stderr], and its exit code when that is not 0.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line"}
        },
        "required": ["command"]
    });

    let shell = backend.shell();
    let limit = time_limit(&backend, limits);
    let body = with_backend(backend, move |backend, args| {
        call_execute(backend, args, style, limits)
    });

    FuncTool::new("execute", description, parameters, body)
        .exclusive()
        .timeout(run::call_timeout(limit))
        .accesses(runs)
        .shell(shell)
}

async fn call_execute(
    backend: Arc<dyn Backend>,
    args: Args,
    style: Style,
    limits: CommandLimits,
) -> Result<ToolOutput, BoxError> {
    let mut command = args.command()?;
    command.max_output = limits.max_output;
    let limit = time_limit(&*backend, limits);
    run::run(&*backend, command, limit, style).await
}

fn time_limit(backend: &dyn Backend, limits: CommandLimits) -> Duration {
    let limit = limits.timeout;
    limit.unwrap_or_else(|| run::time_limit(backend, TIMEOUT))
}
