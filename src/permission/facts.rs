//! The facts about a call before it runs.

use serde_json::Value;

use crate::message::ToolCall;
use crate::tool::{Access, Tool};

use super::links::destination;
use super::named::NamedPaths;
use super::parse::{Family, family};
use super::paths::Places;
use super::shell::{Analysis, analyse};

/// A call, and what it touches.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) tool: &'a str,
    pub(super) args: &'a Value,
    pub(super) read_only: bool,
    pub(super) touches: Vec<Touch>,
    /// True if the touched paths are only guessed, from the arguments of an unknown tool.
    pub(super) guessed: bool,
}

/// One thing a call touches.
#[derive(Debug)]
pub(super) enum Touch {
    Command(Box<Command>),
    Read(String),
    Write(String),
    Url(String),
}

/// A shell command, taken apart.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) text: String,
    pub(super) analysis: Analysis,
    pub(super) names: NamedPaths,
}

impl<'a> Facts<'a> {
    pub(super) fn of(call: &'a ToolCall, tool: &dyn Tool, places: &Places) -> Self {
        let read_only = tool.side_effect().is_read_only();
        let mut touches = tool
            .accesses(&call.args)
            .into_iter()
            .map(|access| touch(access, places))
            .collect::<Vec<_>>();
        let mut guessed = false;
        if touches.is_empty() {
            guessed = family(&call.name) == Family::Other;
            touches = named(&call.name, &call.args, read_only, places);
        }
        if places.follows_links {
            let targets: Vec<_> = touches
                .iter()
                .filter_map(|touch| touch.led(places))
                .collect();
            touches.extend(targets);
        }
        Self {
            tool: &call.name,
            args: &call.args,
            read_only,
            guessed: guessed && !touches.is_empty(),
            touches,
        }
    }

    pub(super) fn of_command(command: &str, places: &Places) -> Facts<'static> {
        const NO_ARGUMENTS: &Value = &Value::Null;
        Facts {
            tool: "Bash",
            args: NO_ARGUMENTS,
            read_only: false,
            touches: vec![Touch::command(command, places)],
            guessed: false,
        }
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.touches.iter().filter_map(|touch| match touch {
            Touch::Command(command) => Some(&**command),
            _ => None,
        })
    }
}

impl Touch {
    fn command(text: &str, places: &Places) -> Self {
        let analysis = analyse(text);
        let names = NamedPaths::of(&analysis, places);
        let text = text.to_owned();
        Self::Command(Box::new(Command {
            text,
            analysis,
            names,
        }))
    }

    /// The touch of the link's target, if links lead elsewhere.
    fn led(&self, places: &Places) -> Option<Self> {
        match self {
            Self::Read(path) => destination(path, places).map(Self::Read),
            Self::Write(path) => destination(path, places).map(Self::Write),
            Self::Command(_) | Self::Url(_) => None,
        }
    }
}

fn touch(access: Access, places: &Places) -> Touch {
    match access {
        Access::Command(text) => Touch::command(&text, places),
        Access::Read(path) => Touch::Read(path.to_string()),
        Access::Write(path) => Touch::Write(path.to_string()),
        Access::Url(url) => Touch::Url(url.to_string()),
    }
}

/// The touches by arguments with well-known names, for tools that do not declare them.
fn named(tool: &str, args: &Value, read_only: bool, places: &Places) -> Vec<Touch> {
    let text = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| args.get(name)?.as_str())
            .map(str::to_owned)
    };
    let mut touches = Vec::new();
    if let Some(command) = text(&["command", "cmd"]) {
        touches.push(Touch::command(&command, places));
    }
    if let Some(path) = text(&["file_path", "filePath", "path", "notebook_path"]) {
        let is_read = match family(tool) {
            Family::Read => true,
            Family::Write => false,
            _ => read_only,
        };
        touches.push(if is_read {
            Touch::Read(path)
        } else {
            Touch::Write(path)
        });
    }
    if let Some(url) = text(&["url"]) {
        touches.push(Touch::Url(url));
    }
    touches
}
