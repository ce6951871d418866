//! Sets of tools that belong together.

use std::sync::Arc;

use crate::backend::Backend;
use crate::tool::{FuncTool, Tool, ToolRegistry};

use super::edit::EditPolicy;
use super::{coding, picoclaw, wick};

/// Creates the set `coding`: `Bash`, `Read`, `Write`, `Edit`, `Glob` and `Grep`.
///
/// ```
/// use agentcore::backend::{Backend, MemoryBackend};
/// use agentcore::tools::preset;
/// use agentcore::{Tool, ToolContext};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::BoxError> {
/// let backend = MemoryBackend::new();
/// backend.write("a.txt", b"one\ntwo\n").await?;
/// let tools = preset::coding(backend);
/// let read = tools.get("Read").expect("it is part of the set");
/// let output = read.execute(ToolContext::detached(), json!({"file_path": "a.txt"})).await?;
/// assert_eq!(output.content.text(), "     1\tone\n     2\ttwo");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn coding(backend: impl Backend) -> ToolRegistry {
    let backend: Arc<dyn Backend> = Arc::new(backend);
    let clone_backend = || backend.clone();
    registry([
        coding::bash(clone_backend()),
        coding::read(clone_backend()),
        coding::write(clone_backend()),
        coding::edit(clone_backend()),
        coding::glob(clone_backend()),
        coding::grep(clone_backend()),
    ])
}

/// Creates the set `wick`: `ls`, `read_file`, `write_file`, `edit_file` (of the first occurrence),
/// `glob`, `grep` and `execute`. With the features `calc` and `time`, also `calculate` and
/// `current_datetime`.
pub fn wick(backend: impl Backend) -> ToolRegistry {
    let backend: Arc<dyn Backend> = Arc::new(backend);
    let computing: Vec<FuncTool> = Vec::from([
        #[cfg(feature = "calc")]
        super::calculate(),
        #[cfg(feature = "time")]
        super::current_datetime(),
    ]);
    let execute = wick::execute(backend.clone());
    let tools = workspace(&backend, EditPolicy::First, execute);
    registry(tools.into_iter().chain(computing))
}

/// Returns the tools of [`wick`] for files, search and the shell, with this policy for edits and
/// this `execute`.
pub(crate) fn workspace(
    backend: &Arc<dyn Backend>,
    policy: EditPolicy,
    execute: FuncTool,
) -> [FuncTool; 7] {
    let clone_backend = || backend.clone();
    [
        wick::ls(clone_backend()),
        wick::read_file(clone_backend()),
        wick::write_file(clone_backend()),
        wick::edit_file(clone_backend(), policy),
        wick::glob(clone_backend()),
        wick::grep(clone_backend()),
        execute,
    ]
}

/// Creates the set `picoclaw`: `read_file`, `write_file`, `list_dir`, `edit_file` (of the only
/// occurrence), `append_file` and `exec`. With the feature `web` also `web_fetch`, restricted to
/// the public internet.
pub fn picoclaw(backend: impl Backend) -> ToolRegistry {
    let backend: Arc<dyn Backend> = Arc::new(backend);
    let clone_backend = || backend.clone();
    let tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(wick::read_file(clone_backend())),
        Arc::new(wick::write_file(clone_backend())),
        Arc::new(picoclaw::list_dir(clone_backend())),
        Arc::new(wick::edit_file(clone_backend(), EditPolicy::Unique)),
        Arc::new(picoclaw::append_file(clone_backend())),
        Arc::new(picoclaw::exec(clone_backend())),
        #[cfg(feature = "web")]
        Arc::new(super::web::WebFetch::new()),
    ];
    registry(tools)
}

fn registry<T: Tool>(tools: impl IntoIterator<Item = T>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry
            .register(tool)
            .expect("the tools of a set have names of their own and object schemas");
    }
    registry
}
