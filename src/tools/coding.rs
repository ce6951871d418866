//! The tools `Bash`, `Read`, `Write`, `Edit`, `Glob` and `Grep`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::backend::{Backend, GlobQuery, GrepMode, GrepQuery};
use crate::error::BoxError;
use crate::tool::{FuncTool, SideEffect, ToolError, ToolOutput};

use super::args::{Args, PATH, edits, read_only, runs, searches_paths, with_backend, writes};
use super::background;
use super::edit::{self, EditPolicy};
use super::read::read_numbered;
use super::run::{self, Stderr, Style};
use super::{files, find, schema};

/// The time limit of a command unless the call or the backend sets another.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum timeout of a call.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

const STYLE: Style = Style {
    max_chars: 30_000,
    nothing: "(no output)",
    stderr: Stderr::Merged,
};

/// Creates the tool `Bash`, which runs a command in the backend's shell.
///
/// A command may take 120 seconds, or the time set in the call, at most 600. Standard output and
/// error are in the order in which they were written; if they have more than 30,000 characters
/// together, the middle is cut.
///
/// Limits set on the backend ([`Backend::command_limits`]) replace the 120 seconds and the 30,000
/// characters.
///
/// A command in the background is a [task of the run](crate::ToolContext::tasks): its output is
/// reported when it ends, and it is stopped when the run ends. It has the time limit of the
/// backend, if there is one. Use [`Backend::start`] for a command that outlives the run.
pub fn bash(backend: impl Backend) -> FuncTool {
    let shell = backend.shell();
    let limits = backend.command_limits();
    let limit = run::time_limit(&backend, DEFAULT_TIMEOUT);
    let cut_note = match limits.max_output {
        None => "Output over 30000 characters is cut in the middle.".to_owned(),
        Some(bytes) => format!("Output over {bytes} bytes is cut in the middle."),
    };

    let description = format!(
        "Runs a shell command in the workspace and returns what it writes, standard error \
        included, and its exit code when that is not 0. Each command runs in a new shell, without \
        input; processes it leaves running are ended with it, unless run_in_background is set. {cut_note}"
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line"},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": 600_000,
                "description": format!("Milliseconds it may run. Defaults to {}", limit.as_millis())
            },
            "description": {
                "type": "string",
                "description": "What the command does, in five to ten words"
            },
            "run_in_background": {
                "type": "boolean",
                "description": "Start it and return at once with an id; its output is reported when it ends, and it is ended with the run"
            }
        },
        "required": ["command"]
    });

    FuncTool::new(
        "Bash",
        description,
        parameters,
        with_backend(backend, call_bash),
    )
    .exclusive()
    .timeout(run::call_timeout(limit.max(MAX_TIMEOUT)))
    .accesses(runs)
    .shell(shell)
}

async fn call_bash(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let command = args.command()?;
    if args.flag("run_in_background") == Some(true) {
        return background::start(backend, command, args.cx(), STYLE).await;
    }
    let limit = match args.number("timeout").map(Duration::from_millis) {
        Some(limit) => limit.min(MAX_TIMEOUT),
        None => run::time_limit(&*backend, DEFAULT_TIMEOUT),
    };
    run::run(&*backend, command, limit, STYLE).await
}

/// Creates the tool `BashOutput`, which returns the output of a background command of [`bash`] in
/// the same run since the last call. It is not part of a preset.
pub fn bash_output(backend: impl Backend) -> FuncTool {
    let description = "Returns what a background command wrote since it was last asked, whether \
        it still runs, and its exit code when it does not.";
    FuncTool::new(
        "BashOutput",
        description,
        id_parameters(),
        with_backend(backend, call_output),
    )
    .side_effect(SideEffect::ReadOnly)
}

async fn call_output(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let output = backend.poll(args.text(&["id"])?).await?;
    let style = STYLE.without_second_limit(&*backend, None);
    Ok(run::background_result(&output, style))
}

/// Creates the tool `KillBash`, which ends a background command of [`bash`]. It is not part of a
/// preset.
pub fn kill_bash(backend: impl Backend) -> FuncTool {
    let description = "Ends a background command with all processes it started.";
    FuncTool::new(
        "KillBash",
        description,
        id_parameters(),
        with_backend(backend, call_kill),
    )
}

async fn call_kill(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let output = backend.stop(args.text(&["id"])?).await?;
    let style = STYLE.without_second_limit(&*backend, None);
    Ok(run::background_result(&output, style))
}

fn id_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"id": {"type": "string", "description": "The command's id"}},
        "required": ["id"]
    })
}

/// Creates the tool `Read`, which returns lines of a file with their numbers: 2,000 lines, unless
/// the call sets another number. Lines of more than 2,000 characters are cut.
pub fn read(backend: impl Backend) -> FuncTool {
    let description = "Reads a text file and returns its lines with their numbers, the first 2000 \
        unless offset and limit are set. Lines over 2000 characters are cut.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Absolute, or relative to the workspace"},
            "offset": {"type": "integer", "minimum": 0, "description": "The first line, from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines"}
        },
        "required": ["file_path"]
    });

    let body = with_backend(backend, read_numbered);
    read_only(FuncTool::new("Read", description, parameters, body))
}

/// Creates the tool `Write`, which writes a whole file and replaces its content.
pub fn write(backend: impl Backend) -> FuncTool {
    let description = "Writes a file and replaces its content; missing folders are created.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Absolute, or relative to the workspace"},
            "content": {"type": "string", "description": "The whole content"}
        },
        "required": ["file_path", "content"]
    });

    FuncTool::new(
        "Write",
        description,
        parameters,
        with_backend(backend, files::write),
    )
    .exclusive()
    .accesses(writes)
}

/// Creates the tool `Edit`, which replaces a text that occurs exactly once in a file, or every
/// occurrence of it. An edit that another process makes at the same moment may be lost (see
/// [`tools`](super)).
pub fn edit(backend: impl Backend) -> FuncTool {
    let description = "Replaces old_string by new_string in a file and returns the difference. \
        old_string must be found exactly once, with whitespace and line breaks as in the file, \
        unless replace_all is set.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Absolute, or relative to the workspace"},
            "old_string": {"type": "string", "description": "The text to replace"},
            "new_string": {"type": "string", "description": "The replacement"},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence"}
        },
        "required": ["file_path", "old_string", "new_string"]
    });

    FuncTool::new(
        "Edit",
        description,
        parameters,
        with_backend(backend, call_edit),
    )
    .exclusive()
    .accesses(edits)
}

async fn call_edit(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let policy = match args.flag("replace_all") {
        Some(true) => EditPolicy::All,
        _ => EditPolicy::Unique,
    };
    let path = args.text(&PATH)?;
    let old = args.text(&["old_string"])?;
    let new = args.text(&["new_string"])?;
    edit::edit(&*backend, path, old, new, policy).await
}

/// Creates the tool `Glob`, which returns the files whose path matches a pattern, sorted, at most
/// 1,000.
pub fn glob(backend: impl Backend) -> FuncTool {
    let description = "Finds files by a pattern such as src/**/*.rs or *.{md,txt}, and returns \
        their paths, sorted. ** matches any number of folders. Files that .gitignore excludes \
        and hidden ones are left out unless the pattern names them.";
    let parameters = schema::glob();
    let body = with_backend(backend, call_glob);
    read_only(FuncTool::new("Glob", description, parameters, body)).accesses(searches_paths)
}

async fn call_glob(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let mut query = GlobQuery::new(args.text(&["pattern"])?).with_filter(args.readable(&*backend));
    query.path = args.folder().map(str::to_owned);
    find::glob(&*backend, query, &args).await
}

/// Creates the tool `Grep`, which returns the lines that match a regular expression, the files that
/// have such lines, or the number of such lines in each file: at most 1,000 entries, or as many as
/// the call sets, at most 10,000.
pub fn grep(backend: impl Backend) -> FuncTool {
    let description = "Searches files for a regular expression, as ripgrep does: what .gitignore \
        excludes, hidden and binary files are left out.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The regular expression"},
            "path": {"type": "string", "description": "The file or folder to search. Defaults to the workspace"},
            "glob": {"type": "string", "description": "Only files that match, such as *.rs or !*.min.js"},
            "output_mode": {
                "type": "string",
                "enum": ["content", "files_with_matches", "count"],
                "description": "content: the matching lines; files_with_matches: the paths, the default; count: the number of matching lines of each file"
            },
            "-i": {"type": "boolean", "description": "Ignore case"},
            "-n": {"type": "boolean", "description": "Show line numbers. Defaults to true"},
            "-A": {"type": "integer", "minimum": 0, "description": "Lines to show after each match"},
            "-B": {"type": "integer", "minimum": 0, "description": "Lines to show before each match"},
            "-C": {"type": "integer", "minimum": 0, "description": "Lines to show before and after each match"},
            "head_limit": {"type": "integer", "minimum": 0, "description": "The maximum number of lines or files, up to 10000"},
            "type": {"type": "string", "description": "A kind of files, such as rust, py or js"},
            "multiline": {"type": "boolean", "description": "Let a match span lines, and . match a line's end"}
        },
        "required": ["pattern"]
    });

    let body = with_backend(backend, call_grep);
    read_only(FuncTool::new("Grep", description, parameters, body))
}

async fn call_grep(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let mut query = GrepQuery::new(args.text(&["pattern"])?).with_filter(args.readable(&*backend));
    let owned_text = |name| args.non_empty_text(&[name]).map(str::to_owned);
    query.path = args.folder().map(str::to_owned);
    query.glob = owned_text("glob");
    query.file_type = owned_text("type");
    query.ignore_case = args.flag("-i").unwrap_or(false);
    query.multiline = args.flag("multiline").unwrap_or(false);
    query.mode = match args.non_empty_text(&["output_mode"]) {
        Some("content") => GrepMode::Lines,
        Some("count") => GrepMode::Count,
        Some("files_with_matches") | None => GrepMode::Files,
        Some(other) => {
            let text = format!("output_mode {other:?}: use content, files_with_matches or count");
            return Err(ToolError::new(text).into());
        }
    };

    let context_lines = args.count("-C").unwrap_or(0);
    query.before = args.count("-B").unwrap_or(context_lines);
    query.after = args.count("-A").unwrap_or(context_lines);
    if let Some(limit @ 1..) = args.count("head_limit") {
        query.limit = limit;
    }

    let numbers = args.flag("-n").unwrap_or(true);
    find::grep(&*backend, query, numbers, &args).await
}
