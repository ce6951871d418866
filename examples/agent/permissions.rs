//! The permission rules of the command line.

use std::fs;
use std::path::Path;

use agentcore::permission::{Behavior, PermissionConfig, PermissionRules, Rule};
use agentcore::{Error, PermissionMode};

use super::args::Args;

/// The rules of the command line and of `--rules`, for work in `cwd`, and the mode.
///
/// # Errors
///
/// Returns an error for the first rule that can never match, with a correction.
pub(crate) fn rules(args: &Args, cwd: &str) -> Result<(PermissionRules, PermissionMode), Error> {
    let mut permissions = PermissionRules::new().workspace(cwd);
    let options = [
        (Behavior::Deny, "--deny", &args.deny),
        (Behavior::Ask, "--ask", &args.ask),
        (Behavior::Allow, "--allow", &args.allow),
    ];
    for (behavior, option, rules) in options {
        for text in rules {
            let rule = Rule::new(behavior, text).map_err(|error| error.context(option))?;
            permissions = permissions.rule(rule.with_source(option));
        }
    }

    let mut mode = args.permission_mode;
    if let Some(file) = &args.rules {
        let name = file.display();
        let mut config = read(file).map_err(|error| error.context(format!("--rules {name}")))?;

        // The mode of the command line takes precedence. It is the run's mode, which can be
        // changed.
        mode = mode.or(config.mode.take());
        permissions = permissions.config(&config, &name.to_string())?;

        // The agent must not change its own rules.
        permissions = permissions.protect(absolute(file)?);
    }

    Ok((permissions, mode.unwrap_or_default()))
}

fn absolute(file: &Path) -> Result<String, Error> {
    Ok(file.canonicalize()?.display().to_string())
}

fn read(file: &Path) -> Result<PermissionConfig, Error> {
    let text = fs::read_to_string(file)?;
    let is_yaml = file
        .extension()
        .is_some_and(|ending| ending == "yaml" || ending == "yml");
    if is_yaml {
        PermissionConfig::from_yaml(&text)
    } else {
        PermissionConfig::from_json(&text)
    }
}
