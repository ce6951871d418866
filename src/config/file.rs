//! A configuration file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::util::regular_file::open_regular;

use super::agent::AgentConfig;
use super::agent_nodes::{Trust, agent_nodes, check_keys, with_defaults};
use super::origin::{Origin, located};
use super::source::{Fault, MAX_BYTES, Node, parse_json, parse_yaml, read};

/// The agents of a configuration file.
///
/// ```
/// use agentcore::config::Config;
///
/// let config = Config::from_yaml("
/// defaults: { debug: true }
/// agents:
///   default: { model: 'ollama:llama3.1:8b', system_prompt: Be brief. }
///   strict: { model: gpt-6-luna, debug: false }
/// ")?;
/// let agent = config.agent("default").expect("it is in the file");
/// assert!(agent.debug);
/// assert_eq!(agent.model, "ollama:llama3.1:8b");
/// assert_eq!(config.agents().count(), 2);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub(super) agents: BTreeMap<String, AgentConfig>,
}

/// The format of a text.
#[derive(Clone, Copy)]
pub(super) enum Format {
    Yaml,
    Json,
}

impl Config {
    /// Reads a file: JSON if its name ends in `.json`, YAML otherwise. Relative paths in it are
    /// relative to its folder. Blocks the calling thread. The file may have at most 1 MiB.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`] if the file cannot be read, and [`ErrorKind::Config`] with the
    /// position of the first fault in the file, such as:
    ///
    /// * a key that does not exist or occurs twice;
    /// * a value of the wrong type, or a combination of values that cannot work;
    /// * an API key that is written out;
    /// * a variable that is not set;
    /// * a feature that is not compiled in.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        read_file(path.as_ref(), Trust::Trusted)
    }

    /// Reads YAML. Relative paths in it are relative to the working directory of the process.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] as [`load`](Self::load) does; the name of the file is
    /// `config`.
    pub fn from_yaml(yaml: &str) -> Result<Self> {
        Self::read(yaml, Format::Yaml, "config", None, Trust::Trusted)
    }

    /// Reads JSON with the same keys. Relative paths in it are relative to the working directory of
    /// the process.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`from_yaml`](Self::from_yaml).
    pub fn from_json(json: &str) -> Result<Self> {
        Self::read(json, Format::Json, "config", None, Trust::Trusted)
    }

    /// Reads the agents in a text. `name` is the name of the file in errors; relative paths are
    /// relative to `folder`.
    pub(super) fn read(
        text: &str,
        format: Format,
        name: &str,
        folder: Option<&Path>,
        trust: Trust,
    ) -> Result<Self> {
        let to_error = |fault: Fault| located(name, &fault);
        let is_trusted = matches!(trust, Trust::Trusted);
        let root = parse(text, format).map_err(to_error)?;
        if is_trusted && root.is_empty() {
            let text = "it is empty; describe the agents under the key \"agents\", each with a \
                        \"model\"";
            return Err(to_error(Fault::new(text).at(root.position)));
        }
        let mut agents = BTreeMap::new();
        let nodes = agent_nodes(root).map_err(to_error)?;
        if let Some(defaults) = &nodes.defaults {
            check_keys(defaults, trust).map_err(to_error)?;
            // A default that no agent uses must be valid, too.
            read::<AgentConfig>(defaults).map_err(to_error)?;
        }
        let paths = folder.map_or_else(Vec::new, |folder| paths_of(&folder.join(name)));
        let mut copied_bytes = 0;
        for (id, node) in nodes.agents {
            check_keys(&node, trust).map_err(to_error)?;
            let node = with_defaults(node, nodes.defaults.as_ref(), &mut copied_bytes);
            let node = node.map_err(to_error)?;
            let mut agent: AgentConfig = read(&node).map_err(to_error)?;
            agent.origin = Some(Arc::new(Origin {
                name: name.into(),
                folder: folder.map(Path::to_owned),
                paths: paths.clone(),
                node,
            }));
            agent.name.get_or_insert_with(|| id.clone());
            if is_trusted {
                agent.check()?;
            }
            agents.insert(id, agent);
        }
        Ok(Self { agents })
    }

    /// Returns the agents, sorted by id.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &AgentConfig)> {
        self.agents.iter().map(|(id, agent)| (id.as_str(), agent))
    }

    /// Returns the agent with this id.
    pub fn agent(&self, id: &str) -> Option<&AgentConfig> {
        self.agents.get(id)
    }

    /// Returns the JSON Schema of a file.
    ///
    /// ```
    /// let schema = agentcore::config::Config::schema();
    /// assert_eq!(schema["$defs"]["AgentConfig"]["properties"]["debug"]["type"], "boolean");
    /// ```
    pub fn schema() -> Value {
        let mut generator = schemars::SchemaGenerator::default();
        let agent = generator.subschema_for::<AgentConfig>();
        let definitions = generator.take_definitions(true);
        serde_json::json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "agents.yaml",
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "defaults": agent,
                        "agents": {"type": "object", "additionalProperties": agent}
                    },
                    "required": ["agents"],
                    "additionalProperties": false
                },
                agent
            ],
            "$defs": definitions
        })
    }
}

/// Reads a file, as [`Config::read`] does.
pub(super) fn read_file(path: &Path, trust: Trust) -> Result<Config> {
    let text = read_text(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    let has_json_name = path.extension().is_some_and(|end| end == "json");
    let format = if has_json_name {
        Format::Json
    } else {
        Format::Yaml
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = std::path::absolute(folder).map_err(|error| {
        let text = format!("cannot find {}: {error}", folder.display());
        Error::new(ErrorKind::Io, text)
    })?;
    Config::read(&text, format, &name.to_string_lossy(), Some(&folder), trust)
}

/// Returns three paths of a file: the absolute one, its name in its folder without links, and its
/// real path. The last two differ if the file itself is a link.
fn paths_of(file: &Path) -> Vec<String> {
    let real_path = fs::canonicalize(file).ok();
    let real_folder = file
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    let in_real_folder = real_folder
        .zip(file.file_name())
        .map(|(folder, name)| folder.join(name));
    let paths = [Some(file.to_owned()), in_real_folder, real_path];
    let mut paths: Vec<String> = paths
        .into_iter()
        .flatten()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Reads the configuration of one agent.
pub(super) fn read_agent(json: &str) -> Result<AgentConfig> {
    const NAME: &str = "agent";
    let node = parse_json(json).map_err(|fault| located(NAME, &fault))?;
    check_keys(&node, Trust::Trusted).map_err(|fault| located(NAME, &fault))?;
    let mut agent: AgentConfig = read(&node).map_err(|fault| located(NAME, &fault))?;
    agent.origin = Some(Arc::new(Origin {
        name: NAME.into(),
        folder: None,
        paths: Vec::new(),
        node,
    }));
    agent.check()?;
    Ok(agent)
}

fn parse(text: &str, format: Format) -> Result<Node, Fault> {
    match format {
        Format::Yaml => parse_yaml(text),
        Format::Json => parse_json(text),
    }
}

/// Reads the text of a file of at most [`MAX_BYTES`].
fn read_text(path: &Path) -> Result<String> {
    let fail = |problem: String| {
        let text = format!("cannot read {}: {problem}", path.display());
        Error::new(ErrorKind::Io, text)
    };
    // Checked before the file is opened, since opening a device may have side effects.
    let metadata = fs::metadata(path).map_err(|error| fail(error.to_string()))?;
    if !metadata.is_file() {
        return Err(fail("it is not a regular file".to_owned()));
    }
    let file =
        open_regular(File::options().read(true), path).map_err(|error| fail(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| fail(error.to_string()))?;
    // Checked before the bytes are decoded: a longer file was cut at any byte.
    if bytes.len() > MAX_BYTES {
        return Err(fail(format!("it has more than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| fail(error.to_string()))
}
