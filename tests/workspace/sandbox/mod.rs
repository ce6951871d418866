//! Commands in a sandbox: the actions that it denies, and truthful reports of its limits.
//!
//! Where the kernel has no Landlock or an old version, the tests print that they are skipped, and
//! pass.

mod denied;
mod files;
mod network;
mod processes;
mod report;

use agentcore::backend::{Backend, Command, CommandOutput, LocalBackend, Sandbox};

use crate::kit::workspace::Workspace;

/// Returns `true` if this machine supports all limits of a sandbox.
fn is_able() -> bool {
    let report = Sandbox::new().check();
    if !report.is_complete() {
        eprintln!("skipped: this machine cannot keep a sandbox: {report}");
    }
    report.is_complete()
}

/// A workspace whose commands run in a sandbox.
struct Confined {
    workspace: Workspace,
    backend: LocalBackend,
}

impl Confined {
    fn new() -> Self {
        Self::with(|sandbox| sandbox)
    }

    fn with(change: impl FnOnce(Sandbox) -> Sandbox) -> Self {
        let workspace = Workspace::new();
        let sandbox = change(Sandbox::workspace(&workspace.root));
        let backend = workspace.backend.clone().with_sandbox(sandbox);
        Self { workspace, backend }
    }

    async fn run(&self, command: &str) -> CommandOutput {
        let run = self.backend.execute(Command::new(command)).await;
        run.unwrap()
    }

    /// Runs a command that the kernel must refuse.
    async fn refused(&self, command: &str) {
        let output = self.run(command).await;
        assert!(!output.is_success(), "{command}: {output:?}");
        let errors = output.stderr.text();
        let reasons = [
            "Permission denied",
            "Operation not permitted",
            "cross-device",
        ];
        assert!(
            reasons.iter().any(|text| errors.contains(text)),
            "{command}: {errors}"
        );
    }
}
