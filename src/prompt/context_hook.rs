//! [`ContextBuilder`] as a hook.

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::message::Messages;
use crate::model::Stability;
use crate::run::RunContext;
use crate::session::AgentState;

use super::context_builder::{ContextBuilder, STABLE, VOLATILE, join_parts};
use super::conversation::Conversation;
use super::identity::session_section;

/// The parts of the prompt that were read at the beginning of a run, as a value of the run.
struct Loaded {
    files: String,
    time: String,
}

#[async_trait]
impl Hook for ContextBuilder {
    fn name(&self) -> &str {
        "context"
    }

    fn description(&self) -> &str {
        "Puts the identity, the tools and files of the workspace into the system prompt"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::MODIFY_REQUEST
    }

    async fn before_agent(&self, cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        let parts = self.read_parts().await.map(|part| {
            let faults = part.faults();
            faults.for_each(|fault| cx.warn(format!("context: {fault}")));
            if let Some(version) = part.memory_version {
                state.values.insert(version);
            }
            part.text
        });
        let (files, time) = (join_parts(parts), self.time()?);
        state.values.insert(Loaded { files, time });
        Ok(state)
    }

    async fn modify_request(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        let Some(loaded) = cx.value::<Loaded>() else {
            return Ok(messages);
        };

        let stable = self.stable_section(&cx.tools().definitions(), &loaded.files);
        cx.system().set(STABLE, stable, Stability::Stable);
        let conversation = cx.value::<Conversation>();
        let volatile = session_section(&loaded.time, conversation.as_deref());
        cx.system().set(VOLATILE, volatile, Stability::Volatile);
        Ok(messages)
    }
}
