//! The accesses of a call, known before it runs.

use serde_json::Value;

use crate::backend::Shell;
use crate::message::ToolCall;
use crate::tool::{Access, Tool};

use super::command_paths::CommandPaths;
use super::disk::Disk;
use super::links::destination;
use super::parse::{Family, family};
use super::path_words::paths_of_url;
use super::paths::PathContext;
use super::shell::{Analysis, analyse};

/// The arguments that are paths, of a tool that does not declare its accesses.
pub(super) const PATH_ARGUMENTS: &[&str] =
    &["file_path", "filePath", "path", "notebook_path", "paths"];

/// The arguments that are addresses, of a tool that does not declare its accesses.
pub(super) const URL_ARGUMENTS: &[&str] = &["url", "urls", "uri"];

/// A call and its accesses.
#[derive(Debug)]
pub(super) struct CallAccesses<'a> {
    pub(super) tool: &'a str,
    pub(super) args: &'a Value,
    pub(super) read_only: bool,
    pub(super) accesses: Vec<CallAccess>,
    /// The accesses that any text in the arguments may mean, of an unknown tool that declares none.
    pub(super) possible: Vec<CallAccess>,
    /// True if there are more of these than are examined.
    pub(super) has_more: bool,
    /// True if the accesses are only guessed, from the arguments of an unknown tool.
    pub(super) is_guessed: bool,
}

/// One access of a call.
#[derive(Debug)]
pub(super) enum CallAccess {
    Command(Box<Command>),
    Read(String),
    Write(String),
    Url(String),
    Agent(String),
}

/// A shell command, taken apart.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) text: String,
    pub(super) analysis: Analysis,
    pub(super) paths: CommandPaths,
}

impl<'a> CallAccesses<'a> {
    pub(super) fn of(
        call: &'a ToolCall,
        tool: &dyn Tool,
        context: &PathContext,
        disk: &Disk,
    ) -> Self {
        let read_only = tool.side_effect().is_read_only();
        let shell = tool.shell();
        let mut accesses = tool
            .accesses(&call.args)
            .into_iter()
            .map(|access| CallAccess::new(access, shell, context, disk))
            .collect::<Vec<_>>();
        let mut is_guessed = false;
        let mut possible = Vec::new();
        let mut has_more = false;
        if accesses.is_empty() {
            is_guessed = family(&call.name) == Family::Other;
            accesses = accesses_by_argument(call, read_only, shell, context, disk);
            if is_guessed {
                (possible, has_more) = possible_accesses(call, shell, context, disk);
            }
        }

        if context.follows_links {
            let targets: Vec<_> = accesses
                .iter()
                .filter_map(|access| access.link_target(context))
                .collect();
            accesses.extend(targets);
        }

        Self {
            tool: &call.name,
            args: &call.args,
            read_only,
            is_guessed: is_guessed && !accesses.is_empty(),
            accesses,
            possible,
            has_more,
        }
    }

    pub(super) fn of_command(
        command: &str,
        shell: Shell,
        context: &PathContext,
        disk: &Disk,
    ) -> CallAccesses<'static> {
        const NO_ARGUMENTS: &Value = &Value::Null;
        CallAccesses {
            tool: "Bash",
            args: NO_ARGUMENTS,
            read_only: false,
            accesses: vec![CallAccess::command(command, shell, context, disk)],
            possible: Vec::new(),
            has_more: false,
            is_guessed: false,
        }
    }

    /// Returns the names of the agents that the call starts.
    pub(super) fn agents(&self) -> impl Iterator<Item = &str> {
        self.accesses.iter().filter_map(|access| match access {
            CallAccess::Agent(name) => Some(name.as_str()),
            _ => None,
        })
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.accesses.iter().filter_map(|access| match access {
            CallAccess::Command(command) => Some(&**command),
            _ => None,
        })
    }
}

impl Command {
    fn of(text: &str, shell: Shell, context: &PathContext, disk: &Disk) -> Self {
        let analysis = analyse(text, shell);
        Self {
            text: text.to_owned(),
            paths: CommandPaths::of(&analysis, context, disk),
            analysis,
        }
    }
}

impl CallAccess {
    /// Returns the length of the path that is read or written, in bytes.
    pub(super) fn path_len(&self) -> Option<usize> {
        match self {
            Self::Read(path) | Self::Write(path) => Some(path.len()),
            Self::Command(_) | Self::Url(_) | Self::Agent(_) => None,
        }
    }

    fn new(access: Access, shell: Shell, context: &PathContext, disk: &Disk) -> Self {
        match access {
            Access::Command(text) => Self::command(&text, shell, context, disk),
            Access::Read(path) => Self::Read(path.to_string()),
            Access::Write(path) => Self::Write(path.to_string()),
            Access::Url(url) => Self::Url(url.to_string()),
            Access::Agent(name) => Self::Agent(name.to_string()),
        }
    }

    fn command(text: &str, shell: Shell, context: &PathContext, disk: &Disk) -> Self {
        Self::Command(Box::new(Command::of(text, shell, context, disk)))
    }

    /// Returns the access to the link's target, if links lead elsewhere.
    fn link_target(&self, context: &PathContext) -> Option<Self> {
        match self {
            Self::Read(path) => destination(path, context).map(Self::Read),
            Self::Write(path) => destination(path, context).map(Self::Write),
            Self::Command(_) | Self::Url(_) | Self::Agent(_) => None,
        }
    }
}

/// Returns the accesses by arguments with well-known names, for tools that do not declare them.
fn accesses_by_argument(
    call: &ToolCall,
    read_only: bool,
    shell: Shell,
    context: &PathContext,
    disk: &Disk,
) -> Vec<CallAccess> {
    let values = |names: &[&str]| {
        let values = names.iter().filter_map(|name| call.args.get(name));
        values.map(texts).collect::<Vec<_>>()
    };
    let is_reader = family(&call.name) == Family::Read || read_only;
    let access = |path: String| match family(&call.name) {
        Family::Write => vec![CallAccess::Write(path)],
        _ if is_reader => vec![CallAccess::Read(path)],
        // It may do either.
        _ => vec![CallAccess::Write(path.clone()), CallAccess::Read(path)],
    };

    // The words of one command may be a list.
    let commands = values(&["command", "cmd"]).into_iter();
    let commands = commands.map(|words| words.join(" "));
    let commands = commands.chain(values(&["commands"]).concat());
    let commands = commands.filter(|command| !command.is_empty());
    let mut accesses = commands
        .map(|command| CallAccess::command(&command, shell, context, disk))
        .collect::<Vec<_>>();

    let paths = values(PATH_ARGUMENTS).concat().into_iter();
    accesses.extend(paths.flat_map(access));
    let urls = values(URL_ARGUMENTS).concat().into_iter();
    accesses.extend(urls.flat_map(|url| {
        let paths = paths_of_url(&url);
        let mut accesses = paths.into_iter().flat_map(access).collect::<Vec<_>>();
        if accesses.is_empty() {
            accesses.push(CallAccess::Url(url));
        }
        accesses
    }));
    accesses
}

/// Returns the text, or the texts in the list.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The maximum number of texts in arguments that are examined.
const MAX_TEXTS: usize = 256;
/// The maximum length of a text that may be a path, a command or an address. A longer one is
/// content.
const MAX_TEXT_LEN: usize = 4096;
/// The maximum number of words of the commands that the texts may be.
const MAX_TEXT_WORDS: usize = 32 * 1024;

/// Returns the accesses that any text in the arguments may mean, for rules to deny and to ask, and
/// `true` if there are more texts, or more words in them, than are examined.
fn possible_accesses(
    call: &ToolCall,
    shell: Shell,
    context: &PathContext,
    disk: &Disk,
) -> (Vec<CallAccess>, bool) {
    let mut texts = all_texts(&call.args);
    let mut has_more = texts.len() > MAX_TEXTS;
    texts.retain(|text| text.len() <= MAX_TEXT_LEN);
    texts.truncate(MAX_TEXTS);
    let mut accesses = Vec::new();
    let mut words = 0;
    for text in texts {
        let command = Command::of(&text, shell, context, disk);
        let commands = command.analysis.commands.iter();
        words += commands.map(|command| command.argv.len()).sum::<usize>();
        if words > MAX_TEXT_WORDS {
            has_more = true;
            break;
        }

        let mut paths = paths_of_url(&text);
        if paths.is_empty() {
            paths.push(text.clone());
        }

        for path in paths {
            accesses.extend([CallAccess::Write(path.clone()), CallAccess::Read(path)]);
        }
        accesses.extend([
            CallAccess::Url(text),
            CallAccess::Command(Box::new(command)),
        ]);
    }
    (accesses, has_more)
}

/// Returns the texts in a value, and each list of texts as the words of one, up to one more than
/// the maximum.
fn all_texts(value: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    let mut values = vec![value];
    while let Some(value) = values.pop().filter(|_| texts.len() <= MAX_TEXTS) {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(items) => {
                let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                if words.len() > 1 {
                    texts.push(words.join(" "));
                }
                values.extend(items);
            }
            Value::Object(fields) => values.extend(fields.values()),
            _ => {}
        }
    }
    texts
}
