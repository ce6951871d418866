//! The parts of an agent that the program provides.

use std::fmt;
use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Result;
use crate::model::{self, Model};
use crate::providers;
use crate::session::SessionStore;
use crate::tool::Tool;

use super::open_folders::OpenFolders;

/// A function that creates a model from its name.
pub(crate) type MakeModel = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>> + Send + Sync>;

/// The parts of an agent that the program provides and a configuration file cannot: tools, a
/// backend, a store, and the function that creates models.
#[derive(Clone)]
#[must_use]
pub struct Parts {
    pub(crate) make_model: MakeModel,
    pub(super) tools: Vec<Arc<dyn Tool>>,
    pub(super) backend: Option<Arc<dyn Backend>>,
    pub(super) store: Option<Arc<dyn SessionStore>>,
    /// The folders of this machine that the agents share.
    pub(super) folders: OpenFolders,
}

impl Parts {
    /// Creates parts without tools, with the models of [`providers::resolve`], and with the backend
    /// and the store of the configuration.
    pub fn new() -> Self {
        Self {
            make_model: Arc::new(providers::resolve),
            tools: Vec::new(),
            backend: None,
            store: None,
            folders: OpenFolders::default(),
        }
    }

    /// Sets the function that creates a model from its name. Defaults to [`providers::resolve`].
    ///
    /// ```
    /// use agentcore::config::{AgentConfig, Parts};
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let parts = Parts::new().models(|_name| Ok(ScriptedModel::new().say("Hello!")));
    /// let agent = AgentConfig::new("any-model").builder(&parts).await?.build()?;
    /// assert_eq!(agent.run("Hi").await?.text, "Hello!");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn models<M: Model>(
        mut self,
        make: impl Fn(&str) -> Result<M> + Send + Sync + 'static,
    ) -> Self {
        self.make_model = Arc::new(move |name| make(name).map(model::erase));
        self
    }

    /// Adds a tool, which the agent has whether or not its configuration names it.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Sets the backend, which replaces the configured backend.
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.backend = Some(Arc::new(backend));
        self
    }

    /// Sets the session store of an agent whose configuration has none.
    pub fn store(mut self, store: impl SessionStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
        f.debug_struct("Parts")
            .field("tools", &tools)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}
