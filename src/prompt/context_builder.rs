//! The system prompt of an agent that lives in a workspace.

use std::sync::Arc;
use std::time::SystemTime;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::message::{Content, Message, Messages, ToolCall};
use crate::model::{Stability, SystemPrompt, ToolDefinition};
use crate::tool::ToolRegistry;

use super::bootstrap::read_files;
use super::conversation::Conversation;
use super::identity::{self, session_section, skills_section};
use super::memory_store::{MemoryContext, MemoryStore, MemoryVersion, cut_note};
use super::skills::{Skill, elements, find};

const NAME: &str = "assistant";
const SKILLS: &str = "skills";
/// The id of the section that stays the same while tools and files do.
pub(super) const STABLE: &str = "context";
/// The id of the section with the time and the chat.
pub(super) const VOLATILE: &str = "context_now";
const SEPARATOR: &str = "\n\n---\n\n";

/// The system prompt of an agent that lives in a workspace: a hook, and the texts it consists of.
///
/// In an agent, it sets two sections. The first has these parts, with a line `---` between them:
///
/// 1. the identity: name, system, workspace and rules, and the tools that the model can call;
/// 2. the files `AGENTS.md`, `SOUL.md`, `USER.md` and `IDENTITY.md` of the workspace, of which
///    missing ones are omitted;
/// 3. the skills below the folder `skills`, as [`SkillsHook`](crate::hooks::SkillsHook) finds them;
/// 4. the memory: `memory/MEMORY.md` and the notes of three days ([`MemoryStore`]).
///
/// The second is [volatile](Stability::Volatile): the time, and the [`Conversation`] that the run
/// was given. Files and time are read at the beginning of a run, so that the requests of a run
/// begin with the same bytes while the tools stay the same. A file that cannot be read is omitted,
/// with a warning of the run.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::backend::{Backend, MemoryBackend};
/// use agentcore::prompt::{ContextBuilder, Conversation};
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let workspace = MemoryBackend::new();
/// workspace.write("SOUL.md", b"You are kind.").await?;
/// let model = ScriptedModel::new().say("Hello.");
/// let agent = AgentBuilder::new(model.clone()).hook(ContextBuilder::new(workspace)).build()?;
/// let session = agent.session("telegram:123").with(Conversation::new("telegram", "123"));
/// session.run("Hi").await?;
///
/// let system = model.requests()[0].system.to_string();
/// assert!(system.contains("## SOUL.md\n\nYou are kind."));
/// assert!(system.ends_with("## Current Session\nChannel: telegram\nChat ID: 123"));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Requests by hand
///
/// [`build_messages`](Self::build_messages) returns the whole list for a request that no agent
/// makes, with the tools that were given to [`tools`](Self::tools).
#[derive(Clone, Debug)]
pub struct ContextBuilder {
    name: Arc<str>,
    workspace: Arc<dyn Backend>,
    memory: MemoryStore,
    skill_folders: Vec<String>,
    tools: Vec<ToolDefinition>,
}

/// The skills of a workspace, for a start page or a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillsInfo {
    /// The number of skills.
    pub total: usize,
    /// Their names, in the order of the prompt.
    pub names: Vec<String>,
}

/// A part of the prompt, and the faults in it.
#[derive(Debug, Default)]
pub(super) struct PromptPart {
    pub(super) text: String,
    pub(super) warnings: Vec<String>,
    /// The errors of files that could not be read.
    pub(super) errors: Vec<Error>,
    /// The version of long-term memory, in the part about memory.
    pub(super) memory_version: Option<MemoryVersion>,
}

impl PromptPart {
    /// Returns the warnings and the errors, as texts.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let errors = self.errors.iter().map(ToString::to_string);
        self.warnings.iter().cloned().chain(errors)
    }
}

impl ContextBuilder {
    /// Creates a builder for the agent of a workspace, with its memory and its folder `skills`.
    pub fn new(workspace: impl Backend) -> Self {
        let workspace: Arc<dyn Backend> = Arc::new(workspace);
        Self {
            name: NAME.into(),
            memory: MemoryStore::new(workspace.clone()),
            workspace,
            skill_folders: vec![SKILLS.to_owned()],
            tools: Vec::new(),
        }
    }

    /// Sets the name of the agent. Defaults to `assistant`.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the memory, whose clock and time zone are also used for the prompt. Defaults to the
    /// memory of the workspace, in the time zone of the system.
    #[must_use]
    pub fn memory(mut self, store: &MemoryStore) -> Self {
        self.memory = store.clone();
        self
    }

    /// Returns the memory.
    #[cfg(feature = "gateway")]
    pub(crate) fn memory_store(&self) -> &MemoryStore {
        &self.memory
    }

    /// Sets the folders that are searched for skills. Defaults to `skills`.
    #[must_use]
    pub fn skills<P: Into<String>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.skill_folders = folders.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the tools of requests by hand. In an agent, the prompt lists the tools of the request.
    #[must_use]
    pub fn tools(mut self, registry: &ToolRegistry) -> Self {
        self.tools = registry.definitions();
        self
    }

    /// Sets the clock, such as a fixed one in tests. Defaults to the system clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.memory = self.memory.with_clock(clock);
        self
    }

    /// Returns the identity of the agent: its name, its system, its workspace and the rules it
    /// works by.
    pub fn identity(&self) -> String {
        identity::identity(&self.name, self.workspace.root(), &self.skill_folders)
    }

    /// Returns the list of the [tools](Self::tools), each with the first line of its description;
    /// empty without tools.
    pub fn tools_section(&self) -> String {
        identity::tools_section(&self.tools)
    }

    /// Reads `AGENTS.md`, `SOUL.md`, `USER.md` and `IDENTITY.md`, each below its name. A file that
    /// is missing or empty is omitted. Together, they have at most 256 KiB; the remaining text is
    /// cut.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, of the first file that cannot be read. The prompt of an agent
    /// only omits that file.
    pub async fn load_bootstrap_files(&self) -> Result<String> {
        let mut part = read_files(&*self.workspace).await;
        if part.errors.is_empty() {
            Ok(log_faults(part))
        } else {
            Err(part.errors.swap_remove(0))
        }
    }

    /// Returns the skills, in the order of the folders and of their paths.
    pub async fn list_skills(&self) -> Vec<Skill> {
        find(&*self.workspace, &self.skill_folders).await.skills
    }

    /// Returns the list of the skills as it is in the prompt, of at most 32 KiB: `<skills>` with a
    /// `<skill>` for each, which has `<name>`, `<description>`, `<location>` and `<source>`. Empty
    /// without skills.
    pub async fn skills_summary(&self) -> String {
        elements(&self.list_skills().await).0
    }

    /// Returns the number and the names of the skills.
    pub async fn skills_info(&self) -> SkillsInfo {
        let skills = self.list_skills().await.into_iter();
        let names: Vec<String> = skills.map(|skill| skill.name).collect();
        let total = names.len();
        SkillsInfo { total, names }
    }

    /// Returns the system prompt of a request by hand: the two sections that an agent's requests
    /// have. Warnings, also about files that cannot be read, are logged with `tracing`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Other`](crate::ErrorKind::Other) if the clock is outside the calendar.
    pub async fn build_system_prompt(
        &self,
        conversation: Option<&Conversation>,
    ) -> Result<SystemPrompt> {
        let parts = self.read_parts().await.map(log_faults);
        let stable = self.stable_section(&self.tools, &join_parts(parts));
        let volatile = session_section(&self.time()?, conversation);
        let mut prompt = SystemPrompt::new();
        prompt.set(STABLE, stable, Stability::Stable);
        prompt.set(VOLATILE, volatile, Stability::Volatile);
        Ok(prompt)
    }

    /// Returns the messages of a request by hand: a system message with the
    /// [prompt](Self::build_system_prompt) and the summary of what came before, the history, and
    /// the message of the user with its media. Results at the beginning of the history, whose calls
    /// it does not have, are omitted.
    ///
    /// An agent needs no such list: its engine adds the history and the summary.
    ///
    /// ```
    /// use agentcore::Messages;
    /// use agentcore::backend::MemoryBackend;
    /// use agentcore::prompt::ContextBuilder;
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// let context = ContextBuilder::new(MemoryBackend::new());
    /// let history = Messages::new().human("I am Ann.").ai("Hello Ann.");
    /// let messages = context.build_messages(&history, Some("They met."), "And I?", None).await?;
    /// assert_eq!(messages.len(), 4);
    /// assert!(messages.get(0).unwrap().text().ends_with("Conversation\n\nThey met."));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`build_system_prompt`](Self::build_system_prompt).
    pub async fn build_messages(
        &self,
        history: &Messages,
        summary: Option<&str>,
        user_message: impl Into<Content>,
        conversation: Option<&Conversation>,
    ) -> Result<Messages> {
        let mut system = self.build_system_prompt(conversation).await?.to_string();
        if let Some(summary) = summary.filter(|summary| !summary.is_empty()) {
            system.push_str("\n\n## Summary of Previous Conversation\n\n");
            system.push_str(summary);
        }

        let mut messages = Messages::new().system(system);
        let is_result = |message: &&Arc<Message>| message.as_tool_result().is_some();
        for message in history.as_slice().iter().skip_while(is_result) {
            messages.push(message.clone());
        }
        Ok(messages.human(user_message))
    }

    /// Adds the result of a call to messages by hand.
    pub fn add_tool_result(
        messages: Messages,
        call_id: impl Into<Arc<str>>,
        tool_name: impl Into<Arc<str>>,
        result: impl Into<Content>,
    ) -> Messages {
        messages.tool(call_id, tool_name, result)
    }

    /// Adds a response of the model to messages by hand: its text, which may be empty, and its
    /// calls.
    pub fn add_assistant_message(
        messages: Messages,
        text: impl Into<String>,
        calls: impl IntoIterator<Item = ToolCall>,
    ) -> Messages {
        messages.ai_calling(text, calls)
    }

    /// Returns the parts of the prompt that come from files, in its order.
    pub(super) async fn read_parts(&self) -> [PromptPart; 3] {
        [
            read_files(&*self.workspace).await,
            self.read_skills().await,
            self.read_memory().await,
        ]
    }

    async fn read_skills(&self) -> PromptPart {
        let search = find(&*self.workspace, &self.skill_folders).await;
        let (elements, omitted_count) = elements(&search.skills);
        let mut warnings = search.warnings;
        if omitted_count > 0 {
            let count = search.skills.len();
            warnings.push(format!("{omitted_count} of {count} skills are not listed"));
        }
        PromptPart {
            text: skills_section(&elements),
            warnings,
            ..PromptPart::default()
        }
    }

    async fn read_memory(&self) -> PromptPart {
        let MemoryContext {
            text,
            version,
            errors,
            ..
        } = self.memory.read_context().await;
        let heading = if text.is_empty() { "" } else { "# Memory\n\n" };
        let is_cut = matches!(version, Some(MemoryVersion::Start));
        PromptPart {
            text: format!("{heading}{text}"),
            warnings: is_cut.then(cut_note).into_iter().collect(),
            errors,
            memory_version: version,
        }
    }

    /// Returns the first section of the prompt.
    pub(super) fn stable_section(&self, tools: &[ToolDefinition], files: &str) -> String {
        let identity = [self.identity(), identity::tools_section(tools)].join("\n\n");
        join_parts([identity.trim_end().to_owned(), files.to_owned()])
    }

    /// Returns the present time, for the second section.
    pub(super) fn time(&self) -> Result<String> {
        self.memory.now()
    }
}

/// The parts that are not empty, with a line `---` between them.
pub(super) fn join_parts(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(SEPARATOR)
}

/// Logs the faults of a part, and returns its text.
fn log_faults(part: PromptPart) -> String {
    for fault in part.faults() {
        tracing::warn!("context: {fault}");
    }
    part.text
}
