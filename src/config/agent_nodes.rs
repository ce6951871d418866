//! The values of a configuration file, divided into its agents.

use crate::util::text::quoted;

use super::check::check_agent_id;
use super::source::{Entry, Fault, Node, Tree, unknown_name};

/// The id of the agent in a file with the keys of one agent.
const DEFAULT_AGENT: &str = "default";

/// The trust in a configuration.
#[derive(Clone, Copy)]
pub(super) enum Trust {
    /// A configuration that describes agents. Each has a model and passes all checks.
    Trusted,
    /// A configuration that restricts the agents of another one. It may be empty, its agents may
    /// have no model, and they may have only these keys.
    Untrusted(&'static [&'static str]),
}

/// The maximum size of the defaults that all agents of a file receive together, in bytes.
const MAX_COPIED_BYTES: usize = 32 * 1024 * 1024;

/// The values of a file.
#[derive(Default)]
pub(super) struct Nodes {
    /// The values of each agent by its id, without the defaults of the file.
    pub(super) agents: Vec<(String, Node)>,
    pub(super) defaults: Option<Node>,
}

/// Splits the values of a file by agent.
pub(super) fn agent_nodes(root: Node) -> Result<Nodes, Fault> {
    let has_agents = root.entry("agents").is_some() || root.entry("defaults").is_some();
    if !has_agents {
        return Ok(Nodes {
            agents: vec![(DEFAULT_AGENT.to_owned(), root)],
            defaults: None,
        });
    }

    let mut defaults = None;
    let mut agents = None;
    let Tree::Map(entries) = root.tree else {
        return Ok(Nodes::default());
    };
    for entry in entries {
        match entry.key.as_str() {
            "defaults" => defaults = Some(entry.value),
            "agents" => agents = Some(entry),
            key => {
                let text = unknown_name("key", key, &["agents", "defaults"]);
                return Err(Fault::new(text).at(entry.position));
            }
        }
    }

    let Some(agents) = agents else {
        return Err(Fault::new("the key \"agents\" is missing").at(root.position));
    };
    let agents_position = agents.value.position;
    let Tree::Map(agents) = agents.value.tree else {
        let text = "\"agents\": expected a map of agents by their ids";
        return Err(Fault::new(text).at(agents_position));
    };

    let mut nodes = Vec::new();
    for Entry {
        key,
        position,
        value,
    } in agents
    {
        check_agent_id(&key).map_err(|text| Fault::new(text).at(position))?;
        nodes.push((key, value));
    }
    Ok(Nodes {
        agents: nodes,
        defaults,
    })
}

/// Adds the keys of `defaults` that an agent lacks, and the size of their values to
/// `copied_bytes`.
pub(super) fn with_defaults(
    mut node: Node,
    defaults: Option<&Node>,
    copied_bytes: &mut usize,
) -> Result<Node, Fault> {
    // An agent without keys has all of the defaults.
    if node.tree == Tree::Null {
        node.tree = Tree::Map(Vec::new());
    }
    if let (Tree::Map(entries), Some(defaults)) = (&mut node.tree, defaults) {
        for entry in defaults.entries() {
            let names = names_of_key(&entry.key);
            if !entries.iter().any(|own| names.contains(&&*own.key)) {
                *copied_bytes += entry.value.size();
                if *copied_bytes > MAX_COPIED_BYTES {
                    let text = format!(
                        "the defaults of all agents have more than {MAX_COPIED_BYTES} bytes; \
                         shorten them, or divide the agents between files"
                    );
                    return Err(Fault::new(text).at(entry.position));
                }
                entries.push(entry.clone());
            }
        }
    }
    Ok(node)
}

/// Returns the names of a key. `middleware` is an alias of `hooks`.
fn names_of_key(key: &str) -> [&str; 2] {
    match key {
        "middleware" | "hooks" => ["hooks", "middleware"],
        _ => [key, key],
    }
}

/// Checks the keys of an agent, or of the defaults.
pub(super) fn check_keys(node: &Node, trust: Trust) -> Result<(), Fault> {
    if let Some(entry) = node.entry("mcp") {
        let text = "the key \"mcp\" needs a client of the Model Context Protocol, which this \
                    version of agentcore does not have; remove the key, and register the tools in \
                    Rust";
        return Err(Fault::new(text).at(entry.position));
    }
    let Trust::Untrusted(allowed_keys) = trust else {
        return Ok(());
    };
    for entry in node.entries() {
        if !allowed_keys.contains(&entry.key.as_str()) {
            let text = format!(
                "a configuration that is not trusted must not have the key {}; it may have: {}",
                quoted(&entry.key),
                allowed_keys.join(", ")
            );
            return Err(Fault::new(text).at(entry.position));
        }
    }
    Ok(())
}
