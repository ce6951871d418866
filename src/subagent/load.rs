//! Types of subagents in Markdown files.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::backend::{Backend, EntryKind, entry_path, is_not_found};
use crate::error::Result;
use crate::tool::near_names;
use crate::util::front_matter;
use crate::util::text::{floor_char_boundary, quoted};

use super::definition::SubagentDefinition;
use super::registry::SubagentRegistry;

/// The maximum size of a file, in bytes. A larger file is omitted.
const MAX_FILE_BYTES: usize = 256 * 1024;
/// The maximum number of files that are read.
const MAX_FILES: usize = 500;
/// The maximum length of a description, in bytes. It is part of every request of the calling agent.
const MAX_DESCRIPTION_BYTES: usize = 1_024;
/// The maximum size of the texts of all files of a folder, in bytes: descriptions, prompts and
/// names of tools.
const MAX_TEXT_BYTES: usize = 1_024 * 1_024;

/// The maximum number of names of tools of a file. Each is compared with all tools when the
/// subagent starts.
const MAX_TOOL_NAMES: usize = 256;

/// The maximum number of unknown keys of a file that warnings name.
const MAX_NAMED_KEYS: usize = 8;

/// The keys that are read.
const KEYS: [&str; 6] = [
    "name",
    "description",
    "tools",
    "disallowed_tools",
    "model",
    "max_turns",
];
/// Other names of keys that are read.
const ALIASES: [&str; 2] = ["disallowedTools", "maxTurns"];
/// The keys that limit the tools.
const TOOL_KEYS: [&str; 2] = ["tools", "disallowed_tools"];
/// The keys of other programs that are similar to one of [`KEYS`] but not a misspelling.
const FOREIGN_KEYS: [&str; 2] = ["hooks", "permissionMode"];

/// The fields that are read; there may be more. A new field is also added to [`KEYS`].
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

/// Names as a list, or as one text in which commas separate them.
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
            Self::Text(text) => text
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
        }
    }
}

impl SubagentRegistry {
    /// Adds the types that the files `*.md` of a folder define, in the order of their names, and
    /// returns the warnings about them.
    ///
    /// A file begins with front matter, which is YAML between two lines `---`. The text after it is
    /// the system prompt. The front matter has these keys:
    ///
    /// | key | value |
    /// |---|---|
    /// | `name`, `description` | required |
    /// | `tools`, `disallowed_tools` or `disallowedTools` | a list, or names separated by commas |
    /// | `model` | `inherit`, `provider:name`, or an alias |
    /// | `max_turns` or `maxTurns` | a number |
    ///
    /// A folder that does not exist has no files. At most 500 files of at most 256 KiB each are
    /// read, with at most 1 MiB of texts in total. A description is cut to 1,024 bytes. A file may
    /// name 256 tools.
    ///
    /// # Warnings
    ///
    /// * A file is omitted if it is invalid or its name is registered already.
    /// * A key that is not read is ignored. If it may be a misspelling of `tools` or
    ///   `disallowed_tools`, the file is omitted, because without the key its subagent would have
    ///   more tools than intended.
    /// * A description over its limit is cut.
    /// * If `tools` is empty, the subagent has all tools of its caller.
    ///
    /// A tool that the caller does not have is a warning in the stream of the run that starts the
    /// subagent.
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
    /// Returns the backend's error if the folder cannot be listed.
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
        let mut room = MAX_TEXT_BYTES;
        for entry in entries {
            let file = entry_path(path, &entry.name);
            match self.load_file(backend, &file, &mut room).await {
                Ok(texts) => {
                    let texts = texts.into_iter();
                    warnings.extend(texts.map(|text| format!("{file:?}: {text}")));
                }
                Err(reason) => warnings.push(format!("{file:?} is left out: {reason}")),
            }
        }
        Ok(warnings)
    }

    /// Adds the type of a file, whose texts take their bytes from `room`. Returns warnings about
    /// texts that were cut and keys that were not read.
    async fn load_file(
        &mut self,
        backend: &dyn Backend,
        path: &str,
        room: &mut usize,
    ) -> Result<Vec<String>, String> {
        let content = backend
            .read_range(path, 0, MAX_FILE_BYTES + 1)
            .await
            .map_err(|error| error.to_string())?;
        if content.len() > MAX_FILE_BYTES {
            return Err(format!("it has more than {MAX_FILE_BYTES} bytes"));
        }

        let NamedDefinition {
            name,
            definition,
            warnings,
        } = parse(&content)?;
        let Some(remaining) = room.checked_sub(text_len(&definition)) else {
            let text = format!("the texts of all files have more than {MAX_TEXT_BYTES} bytes");
            return Err(text);
        };
        let registration = self.register(name, definition);
        registration.map_err(|error| error.to_string())?;
        *room = remaining;
        Ok(warnings)
    }
}

/// The type that a file defines.
struct NamedDefinition {
    name: String,
    definition: SubagentDefinition,
    warnings: Vec<String>,
}

/// Parses the content of a file.
fn parse(content: &[u8]) -> Result<NamedDefinition, String> {
    if !front_matter::is_present(content) {
        let text = "it must begin with a line ---, followed by its name and description and \
                    another line ---";
        return Err(text.to_owned());
    }
    let fields: Fields = front_matter::read(content)?;
    // Read again for the keys, of which `Fields` ignores those that it does not have.
    let keys: BTreeMap<String, IgnoredAny> = front_matter::read(content)?;
    let mut warnings = unknown_keys(&keys)?;
    let body = std::str::from_utf8(front_matter::body(content))
        .map_err(|_| "it is not UTF-8".to_owned())?;
    let name = required(fields.name, "name")?;
    let mut description = required(fields.description, "description")?;
    warnings.extend(cut(&mut description));
    let mut definition = SubagentDefinition::new(description, body.trim())
        .with_tools(fields.tools.into_list())
        .with_disallowed_tools(fields.disallowed_tools.into_list());
    let count = definition.tools.len() + definition.disallowed_tools.len();
    if count > MAX_TOOL_NAMES {
        return Err(format!(
            "it names {count} tools, more than {MAX_TOOL_NAMES}"
        ));
    }
    definition.model = fields.model;
    definition.max_turns = fields.max_turns;
    if definition.tools.is_empty() && keys.contains_key("tools") {
        let text = "its \"tools\" are empty, so it has all tools of its caller; name some, or \
                    remove the key";
        warnings.push(text.to_owned());
    }
    Ok(NamedDefinition {
        name,
        definition,
        warnings,
    })
}

/// Returns the warnings about keys that are not read.
///
/// # Errors
///
/// Returns an error if a key may be a misspelling of a key that limits the tools.
fn unknown_keys(keys: &BTreeMap<String, IgnoredAny>) -> Result<Vec<String>, String> {
    let is_read = |key: &&String| KEYS.contains(&key.as_str()) || ALIASES.contains(&key.as_str());
    let unknown_keys = keys.keys().filter(|key| !is_read(key));
    let mut warnings = Vec::new();
    let mut count = 0;
    for key in unknown_keys {
        let near_keys = if FOREIGN_KEYS.contains(&key.as_str()) {
            Vec::new()
        } else {
            near_names(key, &KEYS)
        };
        if near_keys
            .iter()
            .any(|near_key| TOOL_KEYS.contains(near_key))
        {
            return Err(format!(
                "the key {} is not known and may be meant to limit its tools; write \"tools\" or \
                 \"disallowed_tools\", or remove it",
                quoted(key)
            ));
        }
        count += 1;
        if count <= MAX_NAMED_KEYS {
            warnings.push(match near_keys.first() {
                Some(near_key) => {
                    format!("unknown key {}; did you mean {near_key:?}?", quoted(key))
                }
                None => format!("the key {} is not read", quoted(key)),
            });
        }
    }
    if count > MAX_NAMED_KEYS {
        warnings.push(format!("{} more keys are not read", count - MAX_NAMED_KEYS));
    }
    Ok(warnings)
}

/// Cuts a description to its limit. Returns a warning if it was longer.
fn cut(description: &mut String) -> Option<String> {
    let len = description.len();
    if len <= MAX_DESCRIPTION_BYTES {
        return None;
    }
    *description =
        description[..floor_char_boundary(description, MAX_DESCRIPTION_BYTES)].to_owned();
    Some(format!(
        "its description has {len} bytes, more than {MAX_DESCRIPTION_BYTES}; the rest is left out"
    ))
}

/// Returns the size of the texts of a definition, in bytes.
fn text_len(definition: &SubagentDefinition) -> usize {
    let names = definition
        .tools
        .iter()
        .chain(&definition.disallowed_tools)
        .chain(&definition.model);
    let name_len: usize = names.map(String::len).sum();
    definition.description.len() + definition.prompt.len() + name_len
}

fn required(field: Option<String>, name: &str) -> Result<String, String> {
    let field = field.filter(|text| !text.trim().is_empty());
    field.ok_or_else(|| format!("its front matter has no {name}"))
}
