//! Commands in the background, which belong to the run that started them.

use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Handle;

use crate::backend::{Backend, Command};
use crate::error::BoxError;
use crate::tool::{TaskOutcome, TaskSpec, ToolContext, ToolOutput};

use super::run::{Style, background_result, check};

/// A command that is stopped when this is dropped.
struct BackgroundCommand {
    backend: Arc<dyn Backend>,
    id: String,
    runtime: Option<Handle>,
    has_ended: bool,
}

/// Starts a command in the background. In a run it is a task: its output is reported when it ends,
/// and it is stopped when the run ends. Outside of a run it belongs to the backend.
pub(super) async fn start(
    backend: Arc<dyn Backend>,
    mut command: Command,
    cx: &ToolContext,
    style: Style,
) -> Result<ToolOutput, BoxError> {
    check(&command)?;
    command.merge_stderr = true;
    command.shell = Some(backend.shell());
    let label = command.command.clone();
    let id = backend.start(command).await?;
    let text = format!("The command runs in the background with the id {id}");
    let details = json!({"id": id});

    // A context outside of a run has no run id.
    if !cx.run_id().is_empty() {
        let spec = TaskSpec::new(label)
            .with_id(id.clone())
            .with_tool_use_id(cx.call_id());
        let command = BackgroundCommand {
            backend,
            id,
            runtime: Handle::try_current().ok(),
            has_ended: false,
        };
        cx.tasks().begin(spec, |_| command.outcome(style));
    }

    Ok(ToolOutput::new(text).with_details(details))
}

impl BackgroundCommand {
    async fn outcome(mut self, style: Style) -> TaskOutcome {
        if let Err(error) = self.backend.wait(&self.id).await {
            return TaskOutcome::Failed(error.to_string());
        }

        self.has_ended = true;
        match self.backend.poll(&self.id).await {
            Ok(output) => {
                let is_success = output.output.is_success();
                let style = style.without_second_limit(&*self.backend, None);
                let text = background_result(&output, style)
                    .content
                    .text()
                    .into_owned();
                if is_success {
                    TaskOutcome::Completed(text)
                } else {
                    TaskOutcome::Failed(text)
                }
            }
            // The status went to the call.
            Err(_) => TaskOutcome::Completed("Ended; a call has read its output.".to_owned()),
        }
    }
}

impl Drop for BackgroundCommand {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take().filter(|_| !self.has_ended) else {
            return;
        };

        let (backend, id) = (self.backend.clone(), std::mem::take(&mut self.id));
        runtime.spawn(async move {
            // An error means that it was stopped or has ended.
            drop(backend.stop(&id).await);
        });
    }
}
