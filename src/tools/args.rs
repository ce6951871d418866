//! The arguments of a call, and the accesses they declare.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::backend::{Backend, Command, PathFilter};
use crate::error::BoxError;
use crate::tool::{Access, FuncTool, LoadPermit, SideEffect, Tool, ToolContext, ToolError};
use crate::util::path::lexical;

/// The arguments of a call. The engine has checked them against the schema; a tool that is executed
/// directly receives them unchecked.
pub(super) struct Args {
    values: Value,
    cx: ToolContext,
}

impl Args {
    /// Returns the text of the first of `names` that has one.
    ///
    /// # Errors
    ///
    /// Returns an error if none of them has a text.
    pub(super) fn text(&self, names: &[&str]) -> Result<&str, BoxError> {
        let make_error = || ToolError::new(format!("{} is required", names[0]));
        Ok(text_of(&self.values, names).ok_or_else(make_error)?)
    }

    /// Returns the text of the first of `names` that has one, unless it is empty.
    pub(super) fn non_empty_text(&self, names: &[&str]) -> Option<&str> {
        text_of(&self.values, names).filter(|text| !text.is_empty())
    }

    /// Returns the folder or file that a search or a listing begins at; `None` for the root.
    pub(super) fn folder(&self) -> Option<&str> {
        folder_of(&self.values)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let value = self.values.get(name)?;
        let to_integer =
            |float: f64| (float >= 0.0 && float.fract() == 0.0).then_some(float as u64);
        value
            .as_u64()
            .or_else(|| value.as_f64().and_then(to_integer))
    }

    pub(super) fn count(&self, name: &str) -> Option<usize> {
        let number = self.number(name)?;
        Some(usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// Returns the filter for the files of `backend` that the call may show. Rules may name them
    /// relative to the root or by absolute paths.
    pub(super) fn readable(&self, backend: &dyn Backend) -> PathFilter {
        let filter = self.cx.readable();
        if filter.is_all() {
            return filter;
        }

        let root = backend.root().trim_end_matches('/').to_owned();
        PathFilter::new(move |path| {
            let relative_path = match path.strip_prefix(&root) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    rest.trim_start_matches('/')
                }
                _ => path,
            };

            filter.shows(relative_path) && filter.shows(&format!("{root}/{relative_path}"))
        })
    }

    /// Returns the command in `command`, with the denied paths of the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the call has no command.
    pub(super) fn command(&self) -> Result<Command, BoxError> {
        let command = Command::new(self.text(&["command"])?);
        Ok(command.with_denied(self.cx.denied_paths()))
    }

    /// Returns the context of the call.
    pub(super) fn cx(&self) -> &ToolContext {
        &self.cx
    }

    /// Returns the maximum size of the call's result, in bytes.
    pub(super) fn max_result_bytes(&self) -> usize {
        self.cx.max_result_bytes()
    }

    /// Waits for the call's turn to list or search a whole folder.
    pub(super) async fn load_permit(&self) -> LoadPermit {
        self.cx.load_permit().await
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.values.get(name)?.as_bool()
    }
}

fn text_of<'a>(args: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| args.get(name)?.as_str())
}

/// Returns the first path of a call that is not empty. A call searches the folder that its access
/// declares, so both are read with this function.
fn folder_of(args: &Value) -> Option<&str> {
    let mut paths = PATH.iter().filter_map(|name| args.get(name)?.as_str());
    paths.find(|path| !path.is_empty())
}

/// Returns the body of a tool that works on a backend.
pub(super) fn with_backend<F, Fut>(
    backend: impl Backend,
    f: F,
) -> impl Fn(ToolContext, Value) -> Fut + Send + Sync + 'static
where
    F: Fn(Arc<dyn Backend>, Args) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
{
    let backend: Arc<dyn Backend> = Arc::new(backend);
    move |cx, values| f(backend.clone(), Args { values, cx })
}

/// The arguments that may name a file.
pub(super) const PATH: [&str; 2] = ["file_path", "path"];
/// The argument that names a command's folder.
pub(super) const WORKING_DIR: [&str; 1] = ["working_dir"];

/// Configures a tool that reads files: its calls run concurrently, and may be repeated.
pub(super) fn read_only(tool: FuncTool) -> FuncTool {
    let mut required = tool.parameters()["required"]
        .as_array()
        .into_iter()
        .flatten();
    let needs_path = required.any(|name| PATH.iter().any(|path| name == path));
    tool.side_effect(SideEffect::ReadOnly)
        .idempotent()
        .accesses(if needs_path { reads } else { searches })
}

fn reads(args: &Value) -> Vec<Access> {
    let path = text_of(args, &PATH).filter(|path| !path.is_empty());
    path.map(|path| Access::Read(path.into()))
        .into_iter()
        .collect()
}

/// Returns the access of a tool that starts at the root of the files if the call names no folder.
fn searches(args: &Value) -> Vec<Access> {
    vec![Access::Read(folder_of(args).unwrap_or(".").into())]
}

/// Returns the access of a search for paths: the folder that its pattern leads to, if that is
/// another one than its own. A search of all files has access to all of them, so that its pattern
/// leads nowhere else.
pub(super) fn searches_paths(args: &Value) -> Vec<Access> {
    let pattern = text_of(args, &["pattern"]).unwrap_or_default();
    let folder = folder_of(args).filter(|folder| lexical(folder) != ".");
    match folder.and_then(|folder| folder_of_pattern(folder, pattern)) {
        Some(path) => vec![Access::Read(path.into())],
        None => searches(args),
    }
}

/// Returns the folder that the literal start of a pattern leads to, if the pattern is absolute or
/// has a part `..` there.
fn folder_of_pattern(folder: &str, pattern: &str) -> Option<String> {
    let pattern = pattern.trim_end_matches('/');
    let literal = pattern.split(['*', '?', '[', '{', '\\']).next()?;
    let (start, _) = literal.rsplit_once('/')?;
    if pattern.starts_with('/') {
        return Some(format!("/{}", start.trim_start_matches('/')));
    }
    let leaves_folder = start.split('/').any(|part| part == "..");
    leaves_folder.then(|| format!("{folder}/{start}"))
}

pub(super) fn writes(args: &Value) -> Vec<Access> {
    let path = text_of(args, &PATH);
    path.map(|path| Access::Write(path.into()))
        .into_iter()
        .collect()
}

/// Returns the accesses of an edit, which also shows the replaced text.
pub(super) fn edits(args: &Value) -> Vec<Access> {
    let mut accesses = writes(args);
    accesses.extend(text_of(args, &PATH).map(|path| Access::Read(path.into())));
    accesses
}

pub(super) fn runs(args: &Value) -> Vec<Access> {
    let command = text_of(args, &["command"]);
    let command = command.map(|command| Access::Command(command.into()));
    command.into_iter().collect()
}

/// Returns the access of a command that may run in another folder: the command is checked together
/// with the `cd` before it.
pub(super) fn command_access_in_folder(args: &Value) -> Vec<Access> {
    let folder = text_of(args, &WORKING_DIR).filter(|folder| !folder.is_empty());
    let (Some(folder), Some(command)) = (folder, text_of(args, &["command"])) else {
        return runs(args);
    };
    let folder = folder.replace('\'', "'\\''");
    vec![Access::Command(
        format!("cd -- '{folder}' && {command}").into(),
    )]
}
