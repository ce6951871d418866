//! An agent with two tools and a hook answers a question about the project it is started in.
//!
//! ```sh
//! cargo run --example quickstart
//! cargo run --example quickstart -- "What does the loop do when a tool panics?"
//! ```
//!
//! `AGENTCORE_MODEL` names the model (`ollama:llama3.1:8b`, `anthropic:claude-haiku-5-5`, ..). If
//! only `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY` is set, a model of that provider
//! is used. Without any of them, a scripted model answers the first question from the results of
//! the tools.

mod scripted;
mod show;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fs};

use agentcore::schemars::{self, JsonSchema};
use agentcore::{Agent, AgentBuilder, BoxError, FuncTool, Model, ToolContext, ToolDecision};
use agentcore::{hook, providers};
use serde::Deserialize;

const QUESTION: &str = "Which source file of this crate is the longest, and what is its purpose?";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, BoxError> {
    let list = "Lists the files below a directory, each with its number of lines";
    let read = "Reads the first lines of a file";
    let private = hook::pre_tool_use("private", |_cx, call| async move {
        let path = call.args["path"].as_str().unwrap_or_default();
        if path.split('/').any(|name| name.starts_with(".env")) {
            return Ok(ToolDecision::deny("that file is private"));
        }

        Ok(ToolDecision::proceed())
    });

    let agent = Agent::builder(model()?)
        .system_prompt("You answer questions about a project. Look before you answer. Be brief.")
        .tool(FuncTool::typed_with_context("list_files", list, list_files))
        .tool(FuncTool::typed("read_file", read, read_file))
        .hook(private)
        .include_partial_messages(true)
        .max_turns(20)
        .build()?;

    let question = env::args().nth(1).unwrap_or_else(|| QUESTION.to_owned());
    writeln!(io::stdout(), "> {question}\n")?;
    let mut run = agent.run(question);
    while let Some(message) = run.next().await {
        show::show(&message)?;
    }

    let output = run.into_output();
    Ok(ExitCode::from(u8::from(output.is_err())))
}

/// Returns the model that the environment names, or the scripted model.
fn model() -> Result<Arc<dyn Model>, BoxError> {
    let Some(spec) = AgentBuilder::model_from_env() else {
        writeln!(
            io::stdout(),
            "Neither AGENTCORE_MODEL nor the key of a provider is set:\n\
             a scripted model answers. The tools and their results are real.\n"
        )?;
        return Ok(Arc::new(scripted::model()));
    };

    writeln!(io::stdout(), "Asking {spec}.\n")?;
    Ok(providers::resolve(&spec)?)
}

#[derive(Deserialize, JsonSchema)]
struct ListFiles {
    /// A directory of the project, such as `src`; `.` is the whole project.
    path: String,
}

/// Lists the files below a directory with their numbers of lines, and reports progress.
async fn list_files(cx: ToolContext, args: ListFiles) -> Result<String, BoxError> {
    let (root, mut files, mut reported_count) = (root()?, Vec::new(), 0);
    let mut directories = vec![inside(&args.path)?];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type()?.is_dir() {
                let is_skipped = name == "target" || name.as_encoded_bytes().starts_with(b".");
                directories.extend((!is_skipped).then_some(path));
            } else if let Ok(text) = fs::read_to_string(&path) {
                let relative = path.strip_prefix(&root)?.display();
                files.push(format!("{relative}: {} lines", text.lines().count()));
            }
        }

        if files.len() >= reported_count + 50 {
            reported_count = files.len();
            cx.progress(format!("{reported_count} files so far")).await;
        }
    }

    files.sort();
    Ok(files.join("\n"))
}

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    /// A file of the project, such as `src/lib.rs`.
    path: String,
    /// The number of lines to read; 100 unless given.
    lines: Option<usize>,
}

/// Reads the first lines of a file.
async fn read_file(args: ReadFile) -> Result<String, BoxError> {
    let text = fs::read_to_string(inside(&args.path)?)?;
    let lines: Vec<&str> = text.lines().take(args.lines.unwrap_or(100)).collect();
    Ok(lines.join("\n"))
}

/// Returns the folder of the project: the package if cargo runs this, else the working directory.
fn root() -> io::Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR");
    PathBuf::from(package.unwrap_or_else(|| ".".into())).canonicalize()
}

/// Resolves a path with its symbolic links. A path that leads out of the root is an error.
fn inside(path: &str) -> Result<PathBuf, BoxError> {
    let root = root()?;
    let full = root
        .join(path)
        .canonicalize()
        .map_err(|error| format!("{path}: {error}"))?;
    if !full.starts_with(root) {
        return Err(format!("{path} is outside of the project").into());
    }
    Ok(full)
}
