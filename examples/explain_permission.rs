//! Explains the decisions of permission rules about shell commands: reads lines `rules<TAB>command`
//! from standard input, and writes `decision<TAB>reason` for each.
//!
//! Rules are separated by ` ;; `; the item `mode:NAME` sets the mode. `\\ \n \r \t \0 \e` in the
//! command are escapes. A first line `rule<TAB>command..` is skipped as a header; further columns
//! are ignored.
//!
//! ```sh
//! printf 'allow:Bash(git:*) ;; deny:Bash(git push:*)\tgit -C sub push\n' \
//!     | cargo run --example explain_permission
//! ```

use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;

use agentcore::PermissionMode;
use agentcore::permission::{Explanation, PermissionRules, Rule};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "explain_permission: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        if number == 0 && line.starts_with("rule\tcommand") {
            continue;
        }

        let mut columns = line.split('\t');
        let (Some(rules), Some(command)) = (columns.next(), columns.next()) else {
            return Err(format!("line {}: expected rules, a tab and a command", number + 1).into());
        };

        let explanation = explain(rules, &unescape(command))
            .map_err(|error| format!("line {}: {error}", number + 1))?;
        let reason = explanation.why.replace(['\t', '\n'], " ");
        writeln!(out, "{}\t{reason}", explanation.decision)?;
    }

    Ok(())
}

fn explain(rules: &str, command: &str) -> agentcore::Result<Explanation> {
    let mut permissions = PermissionRules::new();
    if let Ok(directory) = std::env::current_dir() {
        permissions = permissions.workspace(directory.to_string_lossy());
    }

    for item in rules
        .split(";;")
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        permissions = match item.strip_prefix("mode:") {
            Some(name) => permissions.mode(mode(name.trim())?),
            None => permissions.rule(item.parse::<Rule>()?),
        };
    }

    Ok(permissions.explain_command(command))
}

/// Reads a mode by its name, in any case, or by a short form of it.
fn mode(name: &str) -> agentcore::Result<PermissionMode> {
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "bypass" | "bypasspermissions" => Ok(PermissionMode::BypassPermissions),
        "plan" => Ok(PermissionMode::Plan),
        "acceptedits" => Ok(PermissionMode::AcceptEdits),
        "dontask" | "headless" => Ok(PermissionMode::DontAsk),
        _ => name.parse(),
    }
}

/// Replaces the escapes of a command.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }

        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('0') => out.push('\0'),
            Some('e') => out.push('\x1b'),
            Some('\\') | None => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
        }
    }

    out
}
