//! Types of subagents in Markdown files.

use serde::Deserialize;

use crate::backend::{Backend, EntryKind, is_not_found};
use crate::error::Result;
use crate::util::front_matter;

use super::definition::SubagentDefinition;
use super::registry::SubagentRegistry;

/// The bytes of a file that are read. A longer file is left out.
const MAX_FILE: usize = 256 * 1024;
/// The number of files that are read.
const MAX_FILES: usize = 500;

/// The fields that are read; there may be more.
#[derive(Debug, Default, Deserialize)]
struct Fields {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    tools: Names,
    #[serde(default, alias = "disallowedTools")]
    disallowed_tools: Names,
    model: Option<String>,
    #[serde(alias = "maxTurns")]
    max_turns: Option<u32>,
}

/// Names as a list, or in one text with commas between.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Names {
    List(Vec<String>),
    Text(String),
}

impl Default for Names {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Names {
    fn into_list(self) -> Vec<String> {
        match self {
            Self::List(names) => names,
            Self::Text(text) => {
                let names = text.split(',').map(|name| name.trim().to_owned());
                names.filter(|name| !name.is_empty()).collect()
            }
        }
    }
}

impl SubagentRegistry {
    /// Adds the types that the files `*.md` of a folder define, in the order of their names, and
    /// returns warnings about those that are left out.
    ///
    /// A file has front matter, which is YAML between two lines `---`, with `name` and
    /// `description`, and perhaps `tools` and `disallowed_tools` (a list, or names with commas
    /// between), `model` and `max_turns`; `disallowedTools` and `maxTurns` are read as well. The
    /// text behind it is the system prompt. A broken file, and one whose name is registered
    /// already, causes a warning. A folder that does not exist has no files.
    ///
    /// ```
    /// use agentcore::backend::{Backend, MemoryBackend};
    /// use agentcore::subagent::SubagentRegistry;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let files = MemoryBackend::new();
    /// let scout = "---\nname: scout\ndescription: Looks around\n---\nYou look around.\n";
    /// files.write("agents/scout.md", scout.as_bytes()).await?;
    ///
    /// let mut agents = SubagentRegistry::new();
    /// let warnings = agents.load_dir(&files, "agents").await?;
    /// assert!(warnings.is_empty());
    /// assert_eq!(agents.get("scout").unwrap().prompt, "You look around.");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The backend's error if the folder cannot be listed.
    pub async fn load_dir(&mut self, backend: &dyn Backend, path: &str) -> Result<Vec<String>> {
        let mut entries = match backend.list(path).await {
            Ok(entries) => entries,
            Err(error) if is_not_found(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error.context(format!("subagents in {path}"))),
        };
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.retain(|entry| entry.kind == EntryKind::File && entry.name.ends_with(".md"));

        let mut warnings = Vec::new();
        if entries.len() > MAX_FILES {
            let count = entries.len() - MAX_FILES;
            warnings.push(format!(
                "{path}: {count} files are left out, beyond {MAX_FILES}"
            ));
            entries.truncate(MAX_FILES);
        }
        for entry in entries {
            let file = format!("{}/{}", path.trim_end_matches('/'), entry.name);
            if let Err(reason) = self.load_file(backend, &file).await {
                warnings.push(format!("{file:?} is left out: {reason}"));
            }
        }
        Ok(warnings)
    }

    async fn load_file(&mut self, backend: &dyn Backend, path: &str) -> Result<(), String> {
        let content = backend.read_range(path, 0, MAX_FILE + 1).await;
        let content = content.map_err(|error| error.to_string())?;
        if content.len() > MAX_FILE {
            return Err(format!("it has more than {MAX_FILE} bytes"));
        }

        let fields: Fields = front_matter::read(&content)?;
        let body = std::str::from_utf8(front_matter::body(&content));
        let body = body.map_err(|_| "it is not UTF-8".to_owned())?;
        let name = required(fields.name, "name")?;
        let description = required(fields.description, "description")?;
        let mut definition = SubagentDefinition::new(description, body.trim())
            .with_tools(fields.tools.into_list())
            .with_disallowed_tools(fields.disallowed_tools.into_list());
        definition.model = fields.model;
        definition.max_turns = fields.max_turns;
        self.register(name, definition)
            .map_err(|error| error.to_string())
    }
}

fn required(field: Option<String>, name: &str) -> Result<String, String> {
    let field = field.filter(|text| !text.trim().is_empty());
    field.ok_or_else(|| format!("its front matter has no {name}"))
}
