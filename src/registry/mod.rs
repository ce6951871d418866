//! One agent for each user (feature `config`).
//!
//! A [`Registry`] has templates: agents of a [configuration](crate::config), or builders. For each
//! user of a template it makes an [`Instance`], with a folder or a container, sessions and tools of
//! the user's own:
//!
//! ```
//! use agentcore::config::{AgentConfig, BackendCfg};
//! use agentcore::registry::Registry;
//! use agentcore::testing::ScriptedModel;
//!
//! # async fn example() -> Result<(), agentcore::Error> {
//! let registry = Registry::new().models(|_name| Ok(ScriptedModel::new().say("Hello!")));
//! let config = AgentConfig::new("any-model").with_backend(BackendCfg::state());
//! registry.register_template("default", config)?;
//!
//! let ann = registry.get_or_clone("default", "ann").await?;
//! assert_eq!(ann.session("th_1").run("Hi").await?.text, "Hello!");
//!
//! let bob = registry.get_or_clone("default", "bob").await?;
//! assert!(bob.session("th_1").state().await?.is_none());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # Users
//!
//! A user's id is any text of 1 to 256 bytes. Two users share no folder, no container, no session
//! and no tool that one of them has registered. They share the templates, the tools that were
//! registered for all, and the folders of skills and files of memory outside of the workspace,
//! which they can only read. A command of a `local` backend runs with the rights of this process
//! and can read the folders of all users, unless the backend has a
//! [sandbox](crate::config::BackendCfg::sandbox).

mod backend_store;
mod event_bus;
mod instance;
mod instances;
mod overrides;
#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod registry;
mod template;
mod tool_store;
mod user;

pub use backend_store::{BackendInfo, BackendStore, ContainerAction};
pub use event_bus::{EventBus, EventSubscription};
pub use instance::{Instance, ToolInfo};
pub use overrides::HookOverrides;
pub use registry::Registry;
pub use template::{Template, TemplateInfo};
pub use tool_store::{ToolStore, UserTools};
