//! Types of subagents in Markdown files.

use serde::Deserialize;

use crate::backend::{Backend, EntryKind, is_not_found};
use crate::error::Result;
use crate::util::front_matter;
use crate::util::text::floor_char_boundary;

use super::definition::SubagentDefinition;
use super::registry::SubagentRegistry;

/// The bytes of a file that are read. A longer file is left out.
const MAX_FILE: usize = 256 * 1024;
/// The number of files that are read.
const MAX_FILES: usize = 500;
/// The bytes of a description, which is part of every request of the calling agent.
const MAX_DESCRIPTION: usize = 1_024;
/// The bytes of the texts of all files of a folder: descriptions, prompts and names of tools.
const MAX_TEXTS: usize = 1_024 * 1_024;

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
    /// At most 500 files of 256 KiB are read, and of the texts in them 1 MiB. A description is cut
    /// to 1,024 bytes.
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
        let mut room = MAX_TEXTS;
        for entry in entries {
            let file = format!("{}/{}", path.trim_end_matches('/'), entry.name);
            match self.load_file(backend, &file, &mut room).await {
                Ok(None) => {}
                Ok(Some(complaint)) => warnings.push(format!("{file:?}: {complaint}")),
                Err(reason) => warnings.push(format!("{file:?} is left out: {reason}")),
            }
        }
        Ok(warnings)
    }

    /// Adds the type of a file, whose texts take their bytes from `room`. Returns a complaint about
    /// what was cut.
    async fn load_file(
        &mut self,
        backend: &dyn Backend,
        path: &str,
        room: &mut usize,
    ) -> Result<Option<String>, String> {
        let content = backend.read_range(path, 0, MAX_FILE + 1).await;
        let content = content.map_err(|error| error.to_string())?;
        if content.len() > MAX_FILE {
            return Err(format!("it has more than {MAX_FILE} bytes"));
        }

        let fields: Fields = front_matter::read(&content)?;
        let body = std::str::from_utf8(front_matter::body(&content));
        let body = body.map_err(|_| "it is not UTF-8".to_owned())?;
        let name = required(fields.name, "name")?;
        let mut description = required(fields.description, "description")?;
        let complaint = cut(&mut description);
        let mut definition = SubagentDefinition::new(description, body.trim())
            .with_tools(fields.tools.into_list())
            .with_disallowed_tools(fields.disallowed_tools.into_list());
        definition.model = fields.model;
        definition.max_turns = fields.max_turns;
        let Some(remaining) = room.checked_sub(text_len(&definition)) else {
            let text = format!("the texts of all files have more than {MAX_TEXTS} bytes");
            return Err(text);
        };
        let registration = self.register(name, definition);
        registration.map_err(|error| error.to_string())?;
        *room = remaining;
        Ok(complaint)
    }
}

/// Cuts a description to its limit. Returns a complaint if it was longer.
fn cut(description: &mut String) -> Option<String> {
    let len = description.len();
    if len <= MAX_DESCRIPTION {
        return None;
    }
    *description = description[..floor_char_boundary(description, MAX_DESCRIPTION)].to_owned();
    Some(format!(
        "its description has {len} bytes, more than {MAX_DESCRIPTION}; the rest is left out"
    ))
}

/// The bytes of the texts of a definition.
fn text_len(definition: &SubagentDefinition) -> usize {
    let names = definition.tools.iter().chain(&definition.disallowed_tools);
    let names = names.chain(&definition.model);
    let name_len: usize = names.map(String::len).sum();
    definition.description.len() + definition.prompt.len() + name_len
}

fn required(field: Option<String>, name: &str) -> Result<String, String> {
    let field = field.filter(|text| !text.trim().is_empty());
    field.ok_or_else(|| format!("its front matter has no {name}"))
}
