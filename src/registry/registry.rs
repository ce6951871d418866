//! The registry of agents.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use crate::agent::AgentBuilder;
use crate::config::{Config, Parts, StoreKey, Workspace, check_agent_id};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::session::{SessionStore, ThreadStore};
use crate::tool::near_names;
use crate::util::sync::{lock, read, write};
use crate::util::text::quoted;

use super::backend_store::BackendStore;
use super::event_bus::EventBus;
#[cfg(feature = "server")]
use super::instance::describing_workspace;
use super::instance::{Current, Instance, build_agent, start_workspace};
use super::instances::{Cell, Instances, Key};
use super::template::{SharedTemplate, Template, TemplateInfo};
use super::tool_store::ToolStore;
use super::user::folder_of;

/// A function that completes the builder of an agent.
pub(super) type CompleteBuilder = Arc<dyn Fn(AgentBuilder) -> AgentBuilder + Send + Sync>;

/// Templates of agents, and an agent of each template for each user. Clones share one registry.
///
/// An [`Instance`] to which the program has no handle is dropped an hour after its last use, or
/// earlier while there are more than 1,024, the least recently used first. The next
/// [`get_or_clone`](Self::get_or_clone) makes it again, with the hooks that were switched: these
/// are remembered for up to 65,536 instances. An instance whose backend was changed with
/// [`set_backend`](Instance::set_backend) is not dropped.
///
/// A use is a call of `get_or_clone`. Such a call, for any agent, also drops the instances whose
/// time has passed: a registry that is not used keeps them.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    templates: RwLock<BTreeMap<Arc<str>, Arc<SharedTemplate>>>,
    instances: Mutex<Instances>,
    parts: RwLock<Parts>,
    /// The function of [`Registry::complete_with`].
    complete: RwLock<CompleteBuilder>,
    /// The settings of a server, which apply after `complete`.
    finish: RwLock<CompleteBuilder>,
    default_store: RwLock<Arc<dyn SessionStore>>,
    /// The stores of configurations, which agents share.
    stores: Mutex<HashMap<StoreKey, Arc<dyn SessionStore>>>,
    tools: ToolStore,
    backends: BackendStore,
    events: EventBus,
}

impl Registry {
    /// Creates a registry without templates.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            templates: RwLock::default(),
            instances: Mutex::default(),
            parts: RwLock::new(Parts::new()),
            complete: RwLock::new(Arc::new(|builder| builder)),
            finish: RwLock::new(Arc::new(|builder| builder)),
            default_store: RwLock::new(Arc::new(ThreadStore::of_agent())),
            stores: Mutex::default(),
            tools: ToolStore::new(),
            backends: BackendStore::new(),
            events: EventBus::new(),
        }))
    }

    /// Sets the store of the agents whose configuration or builder has none. Defaults to a
    /// [`ThreadStore`] of at most 1,000 sessions and 64 MiB, shared by all agents. Existing
    /// instances keep their store.
    #[must_use]
    pub fn store(self, store: impl SessionStore) -> Self {
        *write(&self.0.default_store) = Arc::new(store);
        self
    }

    /// Sets the function that makes a model from its name. Defaults to
    /// [`providers::resolve`](crate::providers::resolve). Existing instances keep their models.
    #[must_use]
    pub fn models<M: Model>(
        self,
        make: impl Fn(&str) -> Result<M> + Send + Sync + 'static,
    ) -> Self {
        let mut parts = write(&self.0.parts);
        *parts = parts.clone().models(make);
        drop(parts);
        self
    }

    /// Sets a function that completes the builder of every agent, of configurations and of
    /// builders: limits and settings of the program. A second call replaces the first function.
    /// Existing instances are not changed.
    ///
    /// After this function, a server of this registry applies its own setting for questions: a call
    /// without an answer is stored for a later decision.
    ///
    /// ```
    /// use agentcore::registry::Registry;
    ///
    /// let registry = Registry::new().complete_with(|builder| builder.max_turns(10));
    /// # drop(registry);
    /// ```
    #[must_use]
    pub fn complete_with(
        self,
        complete: impl Fn(AgentBuilder) -> AgentBuilder + Send + Sync + 'static,
    ) -> Self {
        *write(&self.0.complete) = Arc::new(complete);
        self
    }

    /// Sets the function that applies after the function of [`complete_with`](Self::complete_with).
    #[cfg(feature = "server")]
    pub(crate) fn finish_with(
        self,
        finish: impl Fn(AgentBuilder) -> AgentBuilder + Send + Sync + 'static,
    ) -> Self {
        *write(&self.0.finish) = Arc::new(finish);
        self
    }

    /// Creates a model from its name, as for a configuration.
    ///
    /// # Errors
    ///
    /// Returns the errors of the function set with [`models`](Self::models).
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>> {
        let parts = read(&self.0.parts).clone();
        (parts.make_model)(name)
    }

    /// Returns the tools that are registered while agents run.
    pub fn tools(&self) -> &ToolStore {
        &self.0.tools
    }

    /// Returns the backends of users.
    pub fn backends(&self) -> &BackendStore {
        &self.0.backends
    }

    /// Returns the events for clients that watch the registry: `agents_changed`, `tools_changed`,
    /// `hooks_changed:AGENT` and `container_status:USER`. If your program changes the
    /// [`tools`](Self::tools), it has to publish the events about tools.
    pub fn events(&self) -> &EventBus {
        &self.0.events
    }

    /// Adds a template.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] if the id is not `[A-Za-z0-9_-]{1,64}`, or is a part
    /// of the addresses of a server, such as `stream`, [`ErrorKind::Conflict`] if there is a
    /// template with this id, and the errors of
    /// [`AgentConfig::check`](crate::config::AgentConfig::check).
    pub fn register_template(&self, id: &str, template: impl Into<Template>) -> Result<()> {
        let template = checked(id, template.into())?;
        {
            let mut templates = write(&self.0.templates);
            if templates.contains_key(id) {
                let text = format!("there is already an agent {id:?}; remove it first");
                return Err(Error::new(ErrorKind::Conflict, text));
            }
            templates.insert(id.into(), SharedTemplate::new(template));
        }
        self.0.events.publish("agents_changed");
        Ok(())
    }

    /// Adds a template and replaces the template with the same id, if there is one. The instances
    /// of the earlier template are dropped; the next [`get_or_clone`](Self::get_or_clone) creates
    /// new ones.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`register_template`](Self::register_template), except that the
    /// id may be taken.
    pub fn replace_template(&self, id: &str, template: impl Into<Template>) -> Result<()> {
        let template = checked(id, template.into())?;
        let template = SharedTemplate::new(template);
        write(&self.0.templates).insert(id.into(), template);
        self.invalidate(id, None);
        self.0.events.publish("agents_changed");
        Ok(())
    }

    /// Adds the agents of a configuration, in the order of their ids.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`register_template`](Self::register_template), for the first
    /// agent that cannot be added. The agents before it stay registered.
    pub fn register_config(&self, config: &Config) -> Result<()> {
        for (id, agent) in config.agents() {
            self.register_template(id, agent.clone())?;
        }
        Ok(())
    }

    /// Checks that the tools that configurations name exist, as tools of this crate or as tools
    /// that are registered for all users. Logs a warning for each permission rule that matches no
    /// tool. A server that starts logs an unknown tool as a warning, because tools may be
    /// registered later; until then, it is an error of [`get_or_clone`](Self::get_or_clone).
    ///
    /// ```
    /// use agentcore::config::Config;
    /// use agentcore::registry::Registry;
    ///
    /// let registry = Registry::new();
    /// let config = Config::from_yaml("model: gpt-6-luna\ntools: [lookup_order]")?;
    /// registry.register_config(&config)?;
    /// let error = registry.check_tools().unwrap_err().to_string();
    /// assert!(error.starts_with(r#"config:2:9: unknown tool "lookup_order""#));
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] for the first tool that does not exist, with its position in
    /// the file.
    pub fn check_tools(&self) -> Result<()> {
        let parts = read(&self.0.parts).clone();
        let registered = self.0.tools.common_names();
        for template in read(&self.0.templates).values() {
            if let Some(config) = template.config() {
                config.check_tool_names(&parts, &registered)?;
            }
        }
        Ok(())
    }

    /// Removes a template and its instances. Returns `false` if there was none. Sessions, folders
    /// and containers stay; files in memory are lost.
    pub fn remove(&self, id: &str) -> bool {
        let is_removed = write(&self.0.templates).remove(id).is_some();
        self.invalidate(id, None);
        self.0.backends.remove_agent(id);
        if is_removed {
            self.0.events.publish("agents_changed");
        }
        is_removed
    }

    /// Returns the descriptions of all templates, sorted by id.
    pub fn list(&self) -> Vec<TemplateInfo> {
        let templates = read(&self.0.templates);
        templates
            .iter()
            .map(|(id, template)| template.info(id))
            .collect()
    }

    /// Returns the template with this id.
    pub fn get(&self, id: &str) -> Option<Template> {
        let templates = read(&self.0.templates);
        templates.get(id).map(|shared| shared.template.clone())
    }

    /// Returns the description of a template.
    pub fn info(&self, id: &str) -> Option<TemplateInfo> {
        read(&self.0.templates)
            .get(id)
            .map(|template| template.info(id))
    }

    /// Returns the agent of a user, and creates it from its template if there is none yet.
    /// Concurrent calls create one agent.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if there is no such template, [`ErrorKind::InvalidRequest`]
    /// if the user's id is empty or longer than 256 bytes, [`ErrorKind::QuotaExhausted`] if there
    /// are 1,024 backends with files in memory, one for each agent and user, and the errors of
    /// [`AgentConfig::builder`](crate::config::AgentConfig::builder) and [`AgentBuilder::build`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it creates the agent, the next call begins again.
    pub async fn get_or_clone(&self, agent: &str, user: &str) -> Result<Arc<Instance>> {
        folder_of(user)?;
        // Agents that do not exist get no entry.
        self.template(agent)?;
        let key: Key = (agent.into(), user.into());
        let (cell, unused) = {
            let mut instances = lock(&self.0.instances);
            let (cell, unused) = instances.cell(&key);
            self.remove_backends(&unused);
            (cell, unused)
        };
        drop(unused);
        let instance = cell.get_or_try_init(|| self.make(&key)).await?;
        Ok(instance.clone())
    }

    /// Returns the store of the sessions of an agent's users, and opens it if no agent uses it yet.
    /// No backend is started and no model is created, so that histories can be read and changed
    /// even if these fail.
    ///
    /// ```
    /// use agentcore::AgentBuilder;
    /// use agentcore::registry::Registry;
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let registry = Registry::new();
    /// registry.register_template("default", AgentBuilder::new(ScriptedModel::new()))?;
    /// let store = registry.session_store("default").await?;
    /// assert!(store.list().await?.is_empty());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if there is no such template, and the errors of the store.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it opens the store, the next call begins again.
    pub async fn session_store(&self, agent: &str) -> Result<Arc<dyn SessionStore>> {
        let template = self.template(agent)?;
        self.store_of(&template).await
    }

    /// Returns the agent of a user, to be described: the existing instance, or a temporary instance
    /// that runs nothing and has no files in a container or in memory.
    #[cfg(feature = "server")]
    pub(crate) async fn described(&self, agent: &str, user: &str) -> Result<Arc<Instance>> {
        folder_of(user)?;
        let template = self.template(agent)?;
        let key: Key = (agent.into(), user.into());
        let instance = lock(&self.0.instances).get(&key);
        if let Some(instance) = instance {
            return Ok(instance);
        }
        let workspace = match &template.config {
            Some(config) => {
                let parts = read(&self.0.parts).clone();
                describing_workspace(config, &parts, &self.0.backends, agent, user).await?
            }
            None => Workspace::default(),
        };
        let store = Arc::new(ThreadStore::new());
        self.assemble(&key, template, store, workspace)
    }

    /// Drops the instances of an agent, for one user or for all, so that the next
    /// [`get_or_clone`](Self::get_or_clone) makes new ones. Runs in progress continue. Hooks that
    /// users switched are reset to the template. The backends are removed from
    /// [`backends`](Self::backends), unless their files are in memory.
    pub fn invalidate(&self, agent: &str, user: Option<&str>) {
        let removed = {
            let mut instances = lock(&self.0.instances);
            let removed = instances.remove(agent, user);
            self.remove_backends(&removed);
            removed
        };
        drop(removed);
    }

    /// Drops the less recently used half of the instances, as far as they are not in use: each
    /// keeps folders open, and the process may have no file descriptors left.
    #[cfg(feature = "server")]
    pub(crate) fn drop_unused(&self) {
        let unused = {
            let mut instances = lock(&self.0.instances);
            let unused = instances.take_older_half();
            self.remove_backends(&unused);
            unused
        };
        drop(unused);
    }

    /// Removes the backends of instances that are dropped. Called under the lock of the instances,
    /// so that the backend of an instance that is made afterwards is not removed.
    fn remove_backends(&self, removed: &[(Key, Cell)]) {
        for (key, _) in removed {
            self.0.backends.remove_idle(key);
        }
    }

    fn template(&self, id: &str) -> Result<Arc<SharedTemplate>> {
        let template = read(&self.0.templates).get(id).cloned();
        template.ok_or_else(|| self.unknown_agent(id))
    }

    async fn make(&self, key: &Key) -> Result<Arc<Instance>> {
        let (id, user) = key;
        // Read after the entry was added: replacing the template removes the entry, so that no
        // instance of the old template stays.
        let template = self.template(id)?;
        let store = self.store_of(&template).await?;
        let workspace = match &template.config {
            Some(config) => {
                let parts = read(&self.0.parts).clone();
                start_workspace(config, &parts, &self.0.backends, id, user).await?
            }
            None => Workspace::default(),
        };
        self.assemble(key, template, store, workspace)
    }

    /// Creates an instance from its parts.
    fn assemble(
        &self,
        key: &Key,
        template: Arc<SharedTemplate>,
        store: Arc<dyn SessionStore>,
        workspace: Workspace,
    ) -> Result<Arc<Instance>> {
        let (id, user) = key;
        let parts = read(&self.0.parts).clone();
        let overrides = lock(&self.0.instances).overrides_of(key);
        let builder = match &**template {
            Template::Config(config) => {
                let registered = self.0.tools.names(user);
                let is_on = |name: &str| overrides.is_on(name, config.hooks.has(name));
                config.assemble(&parts, &workspace, &registered, &is_on)?
            }
            Template::Builder(builder) => {
                let builder = (**builder).clone();
                builder.retain_hooks(|name| overrides.is_on(name, true))
            }
        };
        let (complete, finish) = (read(&self.0.complete).clone(), read(&self.0.finish).clone());
        let complete: CompleteBuilder = Arc::new(move |builder| finish(complete(builder)));
        let current = Current {
            agent: build_agent(complete(builder), id, &store, &self.0.tools, user)?,
            workspace,
            overrides,
            config: template.config.clone(),
        };
        Ok(Arc::new(Instance {
            id: id.clone(),
            user: user.clone(),
            template,
            parts,
            complete,
            store,
            tools: self.0.tools.clone(),
            backends: self.0.backends.clone(),
            events: self.0.events.clone(),
            current: RwLock::new(current),
            changes: tokio::sync::Mutex::new(()),
        }))
    }

    /// Returns the store of an agent's sessions. Agents whose configurations name the same one
    /// share it.
    async fn store_of(&self, template: &Template) -> Result<Arc<dyn SessionStore>> {
        let default_store = || read(&self.0.default_store).clone();
        let config = match template {
            Template::Config(config) => config,
            Template::Builder(builder) => {
                return Ok(builder.own_store().unwrap_or_else(default_store));
            }
        };
        let Some(key) = config.store_key() else {
            return Ok(default_store());
        };
        let known_store = lock(&self.0.stores).get(&key).cloned();
        if let Some(store) = known_store {
            return Ok(store);
        }
        let store = config.open_store().await?;
        Ok(lock(&self.0.stores).entry(key).or_insert(store).clone())
    }

    fn unknown_agent(&self, agent: &str) -> Error {
        let templates = read(&self.0.templates);
        let ids: Vec<&str> = templates.keys().map(|id| &**id).collect();
        let mut text = format!("there is no agent {}", quoted(agent));
        if let Some(near) = near_names(agent, &ids).first() {
            text.push_str(&format!("; did you mean {near:?}?"));
        }
        Error::new(ErrorKind::NotFound, text)
    }
}

/// Checks a template, and names an agent without a name after its id.
fn checked(id: &str, mut template: Template) -> Result<Template> {
    check_agent_id(id).map_err(|text| Error::new(ErrorKind::InvalidRequest, text))?;
    if let Template::Config(config) = &mut template {
        config.check()?;
        config.name.get_or_insert_with(|| id.to_owned());
    }
    Ok(template)
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("templates", &read(&self.0.templates).keys())
            .field("instances", &lock(&self.0.instances).len())
            .finish_non_exhaustive()
    }
}
