//! The content of `AGENTS.md` in the system prompt.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::{Backend, is_not_found, workspace_path};
use crate::error::{ErrorKind, Result};
use crate::hook::{Hook, Phases};
use crate::message::Messages;
use crate::run::RunContext;
use crate::session::AgentState;

use super::prompt;
use super::tag::escaped;

const DEFAULT_PATH: &str = "AGENTS.md";
/// The maximum number of bytes used of all files together.
const MAX_BYTES: usize = 256 * 1024;
const SEPARATOR: &str = "\n\n---\n\n";
const TAG: &str = "agent_memory";
const EDIT_TOOL: &str = "edit_file";

/// Adds `AGENTS.md` files to the system prompt, with instructions for the model to keep them up to
/// date.
///
/// The files are read at the beginning of each run, in the order given, and joined by a line `---`.
/// Changes that the agent makes to them take effect in the next run. A missing or empty file is
/// skipped; if all files are skipped, there is no section. A file that cannot be read causes a
/// warning. A file that is not UTF-8 causes a warning as well, and its invalid bytes are replaced.
/// All files together may have 256 KiB: a file that is too large for the remaining space is cut,
/// with a warning.
///
/// The section is `<agent_memory>`, the content, `</agent_memory>`, and guidelines, which name the
/// files. A file cannot end it early: if a file contains such a tag, its `<` is written as `&lt;`.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::backend::{Backend, MemoryBackend};
/// use agentcore::hooks::MemoryHook;
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let backend = MemoryBackend::new();
/// backend.write("AGENTS.md", b"# Project notes\n- Using FastAPI\n").await?;
/// let model = ScriptedModel::new().say("Noted.");
/// let agent = AgentBuilder::new(model.clone()).hook(MemoryHook::new(backend)).build()?;
/// agent.run("Hello").await?;
///
/// let system = model.requests()[0].system.to_string();
/// let notes = "# Project notes\n- Using FastAPI\n";
/// assert!(system.starts_with(&format!("<agent_memory>\n{notes}</agent_memory>\n")));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MemoryHook {
    name: Arc<str>,
    backend: Arc<dyn Backend>,
    paths: Vec<String>,
    /// True if the program named the paths.
    has_own_paths: bool,
    initial: Option<String>,
    edit_tool: Arc<str>,
}

impl MemoryHook {
    /// Creates a hook that reads `AGENTS.md` in the root of the workspace.
    pub fn new(backend: impl Backend) -> Self {
        Self {
            name: "memory".into(),
            backend: Arc::new(backend),
            paths: vec![DEFAULT_PATH.to_owned()],
            has_own_paths: false,
            initial: None,
            edit_tool: EDIT_TOOL.into(),
        }
    }

    /// Sets the files to read, in this order. Defaults to `AGENTS.md`. Unlike the default file,
    /// which may be part of the workspace, these files belong to the agent: [permission
    /// rules](crate::permission) do not protect them from being written.
    #[must_use]
    pub fn paths<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.paths = paths.into_iter().map(Into::into).collect();
        self.has_own_paths = true;
        self
    }

    /// Sets the content that is written into the first file if none of the files exists. If writing
    /// fails, the content is still used, with a warning. Defaults to none.
    #[must_use]
    pub fn initial_content(mut self, content: impl Into<String>) -> Self {
        self.initial = Some(content.into());
        self
    }

    /// Sets the tool that the model is instructed to edit the memory with. Defaults to `edit_file`.
    #[must_use]
    pub fn edit_tool(mut self, name: impl Into<Arc<str>>) -> Self {
        self.edit_tool = name.into();
        self
    }

    /// Sets the hook's name. Defaults to `memory`. Several memory hooks of an agent need different
    /// names.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Returns the contents of the files that exist.
    async fn load(&self, cx: &RunContext) -> Vec<String> {
        let mut contents = Vec::new();
        let mut is_missing = true;
        let mut free_bytes = MAX_BYTES;
        for path in &self.paths {
            match self.backend.read_range(path, 0, free_bytes + 1).await {
                Ok(bytes) => {
                    is_missing = false;
                    contents.push(self.decode(cx, path, &bytes, free_bytes));
                    free_bytes = free_bytes.saturating_sub(bytes.len());
                }
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    is_missing = false;
                    self.warn(cx, path, &format!("was not read: {error}"));
                }
            }
        }

        if is_missing
            && let (Some(path), Some(initial_content)) = (self.paths.first(), &self.initial)
        {
            let content = self.create(cx, path, initial_content).await;
            contents.push(content);
        }

        contents
    }

    /// Creates a file, and returns its text: that of another file if one was created meanwhile.
    async fn create(&self, cx: &RunContext, path: &str, initial_content: &str) -> String {
        let creation = self.backend.create_new(path, initial_content.as_bytes());
        let Err(error) = creation.await else {
            return initial_content.to_owned();
        };

        if error.kind() == ErrorKind::Conflict
            && let Ok(bytes) = self.backend.read_range(path, 0, MAX_BYTES + 1).await
        {
            return self.decode(cx, path, &bytes, MAX_BYTES);
        }
        self.warn(cx, path, &format!("was not created: {error}"));
        initial_content.to_owned()
    }

    /// Returns the text of a file, of which at most `limit` bytes are used.
    fn decode(&self, cx: &RunContext, path: &str, bytes: &[u8], limit: usize) -> String {
        let mut text_bytes = bytes;
        if bytes.len() > limit {
            text_bytes = whole_characters(&bytes[..limit]);
            let text =
                format!("is cut after {limit} bytes: the files have {MAX_BYTES} bytes together");
            self.warn(cx, path, &text);
        }

        let text = String::from_utf8_lossy(text_bytes);
        if matches!(text, Cow::Owned(_)) {
            let text = "is not UTF-8; invalid bytes are shown as \u{FFFD}";
            self.warn(cx, path, text);
        }

        text.trim_start_matches('\u{feff}').to_owned()
    }

    fn warn(&self, cx: &RunContext, path: &str, problem: &str) {
        cx.warn(format!(
            "{}: {} {problem}",
            self.name,
            self.displayed_path(path)
        ));
    }

    fn displayed_path(&self, path: &str) -> String {
        workspace_path(&*self.backend, path)
    }

    /// Returns the files as the guidelines name them.
    fn file_names(&self) -> String {
        match &*self.paths {
            [path] if path == DEFAULT_PATH => format!("the {DEFAULT_PATH} file"),
            paths => {
                let paths = paths.iter().map(|path| self.displayed_path(path));
                paths.collect::<Vec<_>>().join(" or ")
            }
        }
    }
}

#[async_trait]
impl Hook for MemoryHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        "Puts AGENTS.md files into the system prompt"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::MODIFY_REQUEST
    }

    fn memory_paths(&self) -> Vec<String> {
        self.paths
            .iter()
            .filter(|_| self.has_own_paths)
            .map(|path| self.displayed_path(path))
            .collect()
    }

    async fn before_agent(&self, cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        let contents = self.load(cx).await;
        let section = section(&contents, &self.edit_tool, &self.file_names());
        prompt::set_section(&mut state, &self.name, section);
        Ok(state)
    }

    async fn modify_request(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        prompt::add_section(cx, &self.name);
        Ok(messages)
    }
}

fn section(contents: &[String], edit_tool: &str, file_names: &str) -> String {
    let contents: Vec<&str> = contents
        .iter()
        .map(|content| content.trim_end())
        .filter(|content| !content.is_empty())
        .collect();
    if contents.is_empty() {
        return String::new();
    }
    let content = escaped(&contents.join(SEPARATOR), TAG);
    let guidelines = guidelines(edit_tool, file_names);
    format!("<{TAG}>\n{content}\n</{TAG}>\n\n{guidelines}")
}

fn guidelines(edit_tool: &str, file_names: &str) -> String {
    format!(
        "Guidelines for agent memory:\n\
         - This memory persists across conversations\n\
         - You can update it by using {edit_tool} on {file_names}\n\
         - Use it to track important context, decisions, and patterns\n\
         - Keep entries concise and organized"
    )
}

/// Returns `bytes` without an incomplete last character.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}
