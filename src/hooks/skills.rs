//! The list of skills in the system prompt.

use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::Backend;
use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::message::Messages;
use crate::prompt::skills;
use crate::run::RunContext;
use crate::session::AgentState;

use super::prompt;

const DEFAULT_PATH: &str = "skills";

/// Lists the available skills in the system prompt, so that the model can read the skill it needs.
///
/// A skill is a folder with a `SKILL.md` that begins with front matter:
///
/// ```text
/// ---
/// name: csv-analyzer
/// description: Analyze CSV files and generate charts
/// ---
/// Instructions, of any length.
/// ```
///
/// Only name, description and path go into the system prompt, one line per skill:
/// `- [csv-analyzer] Analyze CSV files and generate charts → Read
/// /workspace/skills/csv-analyzer/SKILL.md for full instructions`. The agent therefore needs a tool
/// that reads files.
///
/// The folders are searched at the beginning of each run, in the order given and then by name,
/// eight folders deep. A symbolic link to the folder of a skill is followed, but the folders below
/// it are not searched. A missing folder is skipped. At most 64 KiB of each file are read.
///
/// These problems are warnings of the run:
///
/// * front matter that is not UTF-8, not closed or not valid: the skill is omitted;
/// * a name that an earlier skill has: the later one is omitted;
/// * a name of more than 64 characters, which is cut;
/// * no description, or one of more than 1024 characters, which is cut;
/// * a list of more than 32 KiB: the last skills are omitted.
///
/// A name is shown as it is, on one line; without one, the folder's name is used.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::backend::{Backend, MemoryBackend};
/// use agentcore::hooks::SkillsHook;
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let backend = MemoryBackend::new();
/// let skill = b"---\nname: greet\ndescription: Greet in many languages\n---\nSay hello.";
/// backend.write("skills/greet/SKILL.md", skill).await?;
/// let model = ScriptedModel::new().say("Hello");
/// let agent = AgentBuilder::new(model.clone()).hook(SkillsHook::new(backend)).build()?;
/// agent.run("Hi").await?;
///
/// assert_eq!(
///     model.requests()[0].system.to_string(),
///     "Available Skills:\n\
///      - [greet] Greet in many languages → Read /workspace/skills/greet/SKILL.md \
///      for full instructions",
/// );
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SkillsHook {
    name: Arc<str>,
    backend: Arc<dyn Backend>,
    paths: Vec<String>,
}

impl SkillsHook {
    /// Creates a hook that searches the folder `skills` of the workspace.
    pub fn new(backend: impl Backend) -> Self {
        Self {
            name: "skills".into(),
            backend: Arc::new(backend),
            paths: vec![DEFAULT_PATH.to_owned()],
        }
    }

    /// Sets the folders to search, in this order. Defaults to `skills`.
    #[must_use]
    pub fn paths<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.paths = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the hook's name. Defaults to `skills`. An agent with skills in several backends needs a
    /// name for each.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }
}

#[async_trait]
impl Hook for SkillsHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        "Lists the SKILL.md files for the model"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::MODIFY_REQUEST
    }

    async fn before_agent(&self, cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        let search = skills::find(&*self.backend, &self.paths).await;
        for warning in &search.warnings {
            cx.warn(format!("{}: {warning}", self.name));
        }
        cx.describe(|init| {
            let names = search.skills.iter().map(|skill| skill.name.as_str().into());
            init.skills.extend(names);
        });
        let (catalog, omitted_count) = skills::catalog(&search.skills);
        if omitted_count > 0 {
            cx.warn(format!(
                "{}: {omitted_count} of {} skills are not listed: the list is limited to \
                 {} bytes",
                self.name,
                search.skills.len(),
                skills::MAX_CATALOG
            ));
        }
        prompt::set_section(&mut state, &self.name, catalog);
        Ok(state)
    }

    async fn modify_request(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        prompt::add_section(cx, &self.name);
        Ok(messages)
    }
}
