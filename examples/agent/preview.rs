//! The change that a call would make to a file, shown with the question about it.

use std::sync::Arc;
use std::time::Duration;

use agentcore::backend::Backend;
use agentcore::serde_json::Value;
use agentcore::tool::{Asking, Confirmer};
use agentcore::tools::ask::InteractorConfirmer;
use agentcore::{Answer, PermissionRequest, async_trait, text};
use similar::TextDiff;

/// The maximum number of lines that are shown.
const MAX_LINES: usize = 60;
/// The maximum length of a line, in characters.
const MAX_LINE: usize = 200;
/// The maximum size of a text that is compared, in bytes.
const MAX_TEXT: usize = 256 * 1024;
/// The time of a comparison, after which its result is coarser.
const DIFF_TIMEOUT: Duration = Duration::from_millis(300);

/// A confirmer that shows the difference above the question.
pub(crate) struct PreviewConfirmer {
    pub(crate) confirmer: InteractorConfirmer,
    pub(crate) backend: Arc<dyn Backend>,
}

#[async_trait]
impl Confirmer for PreviewConfirmer {
    async fn confirm(&self, request: &PermissionRequest, asking: &Asking) -> Answer {
        let mut request = request.clone();
        let (name, input) = (&request.tool_name, &request.input);
        request.question = question(&*self.backend, name, input, &request.question).await;
        self.confirmer.confirm(&request, asking).await
    }
}

/// The question about a call, after the change that the call would make.
pub(crate) async fn question(
    backend: &dyn Backend,
    name: &str,
    input: &Value,
    question: &str,
) -> String {
    match difference(backend, name, input).await {
        Some(difference) => format!("{difference}\n{question}"),
        None => question.to_owned(),
    }
}

async fn difference(backend: &dyn Backend, name: &str, input: &Value) -> Option<String> {
    let field = |names: [&str; 2]| names.iter().find_map(|name| input.get(name)?.as_str());
    let path = field(["file_path", "path"])?;
    match name {
        "Edit" | "edit_file" => {
            let before = field(["old_string", "old_text"])?;
            let after = field(["new_string", "new_text"])?;
            Some(diff_text(before, after, false))
        }
        "Write" | "write_file" => {
            let after = field(["content", "content"])?;
            let metadata = backend.stat(path).await.ok();
            if metadata.is_some_and(|file| file.size > MAX_TEXT as u64) {
                return Some(too_large());
            }

            let before = backend.read(path).await.unwrap_or_default();
            Some(diff_text(&String::from_utf8_lossy(&before), after, true))
        }
        "append_file" => Some(diff_text("", field(["content", "content"])?, false)),
        _ => None,
    }
}

/// The lines that differ, with the lines around them. The numbers of lines are those of a file if
/// `is_file`.
fn diff_text(before: &str, after: &str, is_file: bool) -> String {
    if before.len() > MAX_TEXT || after.len() > MAX_TEXT {
        return too_large();
    }

    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(before, after);
    let diff = diff.unified_diff().missing_newline_hint(false).to_string();
    let mut lines = diff
        .lines()
        .filter(|line| is_file || !line.starts_with("@@"))
        // The question escapes invisible characters, and a tab is harmless.
        .map(|line| text::truncate(&line.replace('\t', "    "), MAX_LINE).into_owned());
    let mut shown_lines: Vec<String> = lines.by_ref().take(MAX_LINES).collect();
    let more_count = lines.count();
    if more_count > 0 {
        shown_lines.push(format!("... ({more_count} more lines)"));
    }

    if shown_lines.is_empty() {
        shown_lines.push("(no line changes)".to_owned());
    }

    shown_lines.join("\n")
}

fn too_large() -> String {
    "(the difference is too large to show)".to_owned()
}
