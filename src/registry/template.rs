//! The templates of agents.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;

use crate::agent::AgentBuilder;
use crate::config::AgentConfig;

/// A template of the agents of users: a configuration, or a builder.
///
/// The users of a [`Builder`](Self::Builder) template share its backend, hooks and store, and each
/// has sessions of its own.
#[derive(Clone)]
#[non_exhaustive]
pub enum Template {
    /// A configuration.
    Config(Box<AgentConfig>),
    /// A builder.
    Builder(Box<AgentBuilder>),
}

impl Template {
    /// Returns the configuration, if it is one.
    pub fn config(&self) -> Option<&AgentConfig> {
        match self {
            Self::Config(config) => Some(config),
            Self::Builder(_) => None,
        }
    }

    /// Returns the description of the agents.
    pub(super) fn info(&self, id: &str) -> TemplateInfo {
        match self {
            Self::Config(config) => TemplateInfo {
                id: id.to_owned(),
                name: config.name.clone().unwrap_or_else(|| id.to_owned()),
                description: config.description.clone().unwrap_or_default(),
                model: config.model.clone(),
                system_prompt: Some(config.system_prompt.clone()).filter(|text| !text.is_empty()),
                tools: config.tools.clone(),
                subagents: config
                    .subagents
                    .iter()
                    .map(|agent| agent.name.clone())
                    .collect(),
                backend_type: config.backend.as_ref().map(|backend| backend.kind.as_str()),
                debug: config.debug,
            },
            Self::Builder(builder) => TemplateInfo {
                id: id.to_owned(),
                name: builder.agent_name().to_owned(),
                description: String::new(),
                model: builder.model_id().to_owned(),
                system_prompt: None,
                tools: builder.tool_names(),
                subagents: Vec::new(),
                backend_type: None,
                debug: false,
            },
        }
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(config) => f.debug_tuple("Config").field(config).finish(),
            Self::Builder(builder) => f.debug_tuple("Builder").field(builder).finish(),
        }
    }
}

impl From<AgentConfig> for Template {
    fn from(config: AgentConfig) -> Self {
        Self::Config(Box::new(config))
    }
}

impl From<AgentBuilder> for Template {
    fn from(builder: AgentBuilder) -> Self {
        Self::Builder(Box::new(builder))
    }
}

/// A registered template. Its instances share it.
pub(super) struct SharedTemplate {
    pub(super) template: Template,
    /// The configuration, if the template is one, in a form that the instances share.
    pub(super) config: Option<Arc<AgentConfig>>,
}

impl SharedTemplate {
    pub(super) fn new(template: Template) -> Arc<Self> {
        let config = template.config().cloned().map(Arc::new);
        Arc::new(Self { template, config })
    }
}

impl Deref for SharedTemplate {
    type Target = Template;

    fn deref(&self) -> &Template {
        &self.template
    }
}

/// The description of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TemplateInfo {
    /// Its id.
    pub id: String,
    /// The name of its agents.
    pub name: String,
    /// The description; empty if there is none.
    pub description: String,
    /// The name of the model.
    pub model: String,
    /// The system prompt, if the template is a configuration with one.
    pub system_prompt: Option<String>,
    /// The names of its own tools, sorted for a builder, else in the order of the configuration.
    pub tools: Vec<String>,
    /// The names of its subagents.
    pub subagents: Vec<String>,
    /// The type of the backend, if the template is a configuration with one.
    pub backend_type: Option<&'static str>,
    /// True if spans have the texts of conversations.
    pub debug: bool,
}
