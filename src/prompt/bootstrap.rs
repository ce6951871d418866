//! The files of a workspace that are part of the system prompt.

use crate::backend::{Backend, is_not_found};

use super::context_builder::PromptPart;

/// The files, in the order of the prompt.
const FILES: [&str; 4] = ["AGENTS.md", "SOUL.md", "USER.md", "IDENTITY.md"];
/// The maximum size of these files together, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Returns the texts of the files that can be read, each below its name.
pub(super) async fn read_files(workspace: &dyn Backend) -> PromptPart {
    let mut sections = Vec::new();
    let mut free_bytes = MAX_BYTES;
    let mut part = PromptPart::default();
    for file in FILES {
        let content = match workspace.read_range(file, 0, free_bytes + 1).await {
            Ok(content) => content,
            Err(error) if is_not_found(&error) => continue,
            Err(error) => {
                part.errors.push(error);
                continue;
            }
        };

        if content.len() > free_bytes {
            let warning = format!("{file} is cut: the files have {MAX_BYTES} bytes together");
            part.warnings.push(warning);
        }

        let content = &content[..content.len().min(free_bytes)];
        free_bytes -= content.len();
        let text = String::from_utf8_lossy(content);
        let text = text.trim_start_matches('\u{feff}').trim_end();
        if !text.is_empty() {
            sections.push(format!("## {file}\n\n{text}"));
        }
    }

    part.text = sections.join("\n\n");
    part
}
