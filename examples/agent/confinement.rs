//! The sandbox of commands, and the rules that the kernel enforces.

use agentcore::Error;
use agentcore::backend::LocalBackend;
#[cfg(feature = "sandbox")]
use agentcore::backend::Sandbox;
use agentcore::permission::PermissionRules;

use super::args::Args;
#[cfg(feature = "sandbox")]
use super::output::note;

/// The files and commands of `cwd`, with `--sandbox` confined to it.
///
/// # Errors
///
/// Returns an error if `cwd` cannot be opened.
pub(crate) fn backend(args: &Args, cwd: &str) -> Result<LocalBackend, Error> {
    let backend = LocalBackend::new(cwd)?;
    #[cfg(feature = "sandbox")]
    if args.sandbox {
        return Ok(backend.with_sandbox(Sandbox::workspace(cwd)));
    }
    Ok(backend)
}

/// Reports the limits that the kernel enforces with `--sandbox`, and for each rule that denies
/// files whether the kernel enforces it.
///
/// # Errors
///
/// Returns an error if this program was built without the sandbox.
#[cfg(feature = "sandbox")]
pub(crate) fn report(args: &Args, cwd: &str, permissions: &PermissionRules) -> Result<(), Error> {
    if !args.sandbox {
        return Ok(());
    }

    let sandbox = Sandbox::workspace(cwd);
    note(&format!("sandbox: {}", sandbox.check()));
    for rule in permissions.kernel_enforcement(&sandbox) {
        note(&rule.to_string());
    }
    Ok(())
}

#[cfg(not(feature = "sandbox"))]
pub(crate) fn report(args: &Args, _cwd: &str, _permissions: &PermissionRules) -> Result<(), Error> {
    if args.sandbox {
        let text = "--sandbox needs an agent that was built with the feature `sandbox`";
        return Err(super::args::usage(text.to_owned()));
    }
    Ok(())
}
