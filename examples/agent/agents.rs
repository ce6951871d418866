//! The subagents that the model may start.

use agentcore::backend::LocalBackend;
use agentcore::subagent::SubagentRegistry;
use agentcore::{Error, FuncTool, tools};

use super::output::note;

/// The tools that start the subagents of the files in a folder. Files that are left out are noted.
///
/// # Errors
///
/// Returns an error if the folder cannot be read, or has no subagents.
pub(crate) async fn tools(folder: &str) -> Result<Vec<FuncTool>, Error> {
    let in_folder = |error: Error| error.context(format!("--agents {folder}"));
    let files = LocalBackend::new(folder).map_err(in_folder)?;
    let mut registry = SubagentRegistry::new();
    let warnings = registry.load_dir(&files, ".").await.map_err(in_folder)?;
    warnings.iter().for_each(|warning| note(warning));
    tools::task(registry).build().map_err(in_folder)
}
