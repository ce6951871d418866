//! The start of a command under a sandbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

use super::super::denied::DeniedPath;
use super::policy::Sandbox;
use super::private::PrivateFolder;
use super::report::SandboxReport;

/// A sandbox and the private folder of its commands. Clones share the folder.
#[derive(Clone, Debug)]
pub(in super::super) struct Confined {
    sandbox: Sandbox,
    private: Arc<Mutex<Option<Arc<PrivateFolder>>>>,
}

impl Confined {
    pub(in super::super) fn new(sandbox: Sandbox) -> Self {
        Self {
            sandbox,
            private: Arc::default(),
        }
    }

    pub(in super::super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the environment variables for commands, as defaults.
    pub(in super::super) fn environment(&self) -> Result<BTreeMap<String, String>> {
        let mut environment = BTreeMap::new();
        if let Some(folder) = self.private_folder()? {
            let path = folder.path().to_str().ok_or_else(|| {
                let text = "the path of the system's temporary folder is not UTF-8";
                Error::new(ErrorKind::Config, text)
            })?;
            for name in ["TMPDIR", "HOME"] {
                environment.insert(name.to_owned(), path.to_owned());
            }
        }
        Ok(environment)
    }

    /// Runs `start` on a thread of its own. The sandbox and the denied paths restrict this thread
    /// and all processes that `start` starts.
    ///
    /// The thread ends with `start`, because its restrictions cannot be removed.
    pub(in super::super) async fn run<T: Send + 'static>(
        &self,
        denied: Vec<DeniedPath>,
        start: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let report = self.sandbox.check();
        if !report.is_complete() && !self.sandbox.best_effort {
            let text = format!(
                "the command was not run: this machine cannot enforce all that the sandbox \
                 asks for. Missing: {}. Ask for less, or run with what there is: `best_effort(true)`",
                report.shortfall()
            );
            return Err(Error::new(ErrorKind::Config, text));
        }

        let confinement = self.clone();
        let runtime = Handle::current();
        let (sender, outcome) = oneshot::channel();
        let work = move || {
            // A process is registered with the runtime of the thread that starts it.
            let _entered = runtime.enter();
            let result = confinement
                .restrict(&report, &denied)
                .and_then(|()| start());

            // The folder is removed with its last owner, which is not to be this thread.
            drop(confinement);

            // If the receiver is gone, the result and the started child are dropped.
            drop(sender.send(result));
        };

        let thread = std::thread::Builder::new().name("agentcore-sandbox".to_owned());
        thread.spawn(work).map_err(|error| {
            let text = format!("no thread for the sandbox: {error}");
            Error::new(ErrorKind::Io, text).with_source(error)
        })?;

        outcome.await.unwrap_or_else(|_| {
            let text = "the thread of the sandbox ended early";
            Err(Error::new(ErrorKind::Other, text))
        })
    }

    #[cfg(target_os = "linux")]
    fn restrict(&self, report: &SandboxReport, denied: &[DeniedPath]) -> Result<()> {
        if report.abi > 0 {
            let private_folder = self.private_folder()?;
            let private_folder = private_folder.as_ref().map(|folder| folder.path());
            super::landlock::restrict(&self.sandbox, denied, private_folder, report.abi)?;
        }
        if report.seccomp {
            super::filter::restrict(&self.sandbox)?;
        }
        Ok(())
    }

    /// Only with [`Sandbox::best_effort`]: there is nothing to restrict with.
    #[cfg(not(target_os = "linux"))]
    fn restrict(&self, _report: &SandboxReport, _denied: &[DeniedPath]) -> Result<()> {
        Ok(())
    }

    fn private_folder(&self) -> Result<Option<Arc<PrivateFolder>>> {
        if !self.sandbox.private_folder {
            return Ok(None);
        }
        let mut folder = lock(&self.private);
        if folder.is_none() {
            *folder = Some(Arc::new(PrivateFolder::new()?));
        }
        Ok(folder.clone())
    }
}
