//! The texts of the system prompt that come from no file.

use std::env::consts::{ARCH, OS};
use std::fmt::Write as _;

use crate::model::ToolDefinition;

use super::conversation::Conversation;
use super::skills::one_line;

/// The maximum length of the id of a channel or a chat, in characters.
const MAX_ID: usize = 200;

/// Returns the identity of an agent: its name, its system, its workspace and the rules it works by.
pub(super) fn identity(name: &str, root: &str, skill_folders: &[String]) -> String {
    let skills: String = skill_folders
        .iter()
        .map(|folder| format!("\n- Skills: {folder}/NAME/SKILL.md"))
        .collect();
    format!(
        "# {name}\n\n\
         You are {name}, a helpful AI assistant.\n\n\
         ## Runtime\n{OS} {ARCH}\n\n\
         ## Workspace\nYour workspace is at: {root}\n\
         - Memory: memory/MEMORY.md\n\
         - Daily notes: memory/YYYYMM/YYYYMMDD.md{skills}\n\n\
         ## Important Rules\n\
         1. Act with tools. Never report an action that no tool has performed.\n\
         2. Explain in a few words what a tool is used for.\n\
         3. Keep what should last in memory/MEMORY.md."
    )
}

/// Returns the list of the tools; empty without tools.
pub(super) fn tools_section(tools: &[ToolDefinition]) -> String {
    if tools.is_empty() {
        return String::new();
    }

    let mut text = "## Available Tools\n".to_owned();
    for tool in tools {
        let summary = tool.description.lines().next().unwrap_or_default();
        let _ = write!(text, "\n- `{}` - {summary}", tool.name);
    }
    text
}

/// Returns the list of the skills, which `elements` has; empty without skills.
pub(super) fn skills_section(elements: &str) -> String {
    if elements.is_empty() {
        return String::new();
    }
    format!(
        "# Skills\n\nThese skills extend what you can do. To use one, read the file at its location \
         first.\n\n{elements}"
    )
}

/// Returns the time, and the chat if there is one. Sections are joined by an empty line.
pub(super) fn session_section(time: &str, conversation: Option<&Conversation>) -> String {
    let mut text = format!("---\n\n## Current Time\n{time}");
    if let Some(conversation) = conversation {
        // The ids come from the service of the channel.
        let channel = one_line(&conversation.channel, MAX_ID).0;
        let chat_id = one_line(&conversation.chat_id, MAX_ID).0;
        let _ = write!(
            text,
            "\n\n## Current Session\nChannel: {channel}\nChat ID: {chat_id}"
        );
    }
    text
}
