//! The command line.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use agentcore::{Error, ErrorKind, PermissionMode};
use clap::Parser;

use super::output::{Detail, Output};
use super::tools::Tools;

/// The end of the help. The documentation of this program has the same tables.
const HELP_END: &str = "\
Exit codes:
  0    the run succeeded, the requested list or rewind was completed, or the output was closed
  1    the run failed, files could not be rewound, or the store's server did not answer
  2    the requested run, list or rewind cannot be started; nothing was run
  3    calls wait for an approval
  130  it was given up with a second Ctrl-C, SIGTERM or SIGHUP; the first ends the run with its result

Environment:
  AGENTCORE_MODEL     the model, unless --model names one
  ANTHROPIC_API_KEY   the key for anthropic: models
  OPENAI_API_KEY      the key for openai: models
  GEMINI_API_KEY      the key for gemini: models
  GOOGLE_API_KEY      the key for gemini: models, if GEMINI_API_KEY is not set
  ANTHROPIC_BASE_URL  another address for anthropic: models
  OPENAI_BASE_URL     another address for openai: models; at such a one the key may be missing
  GEMINI_BASE_URL     another address for gemini: models, with the version of the API
  OLLAMA_HOST         the address for ollama: models
  XDG_STATE_HOME      sessions are in agentcore/sessions there, unless --store names a place
  HOME                or else in .local/state/agentcore/sessions there";

/// Runs an agent on one prompt.
#[derive(Debug, Parser)]
#[command(name = "agent", version, after_help = HELP_END)]
pub(crate) struct Args {
    /// The prompt; without it, or with `-`, it is read from standard input
    prompt: Option<String>,

    /// `provider:model` (anthropic, openai, gemini, ollama), or `scripted`, which echoes and needs
    /// no key, or `scripted:FILE`, which follows a script; AGENTCORE_MODEL unless given
    #[arg(long, value_name = "SPEC")]
    pub(crate) model: Option<String>,

    /// Instructions for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// The working directory, which no file tool leaves; the current one unless given
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// The tools of the agent
    #[arg(long, value_enum, default_value_t = Tools::Coding)]
    pub(crate) tools: Tools,

    /// A folder with the subagents that it may start, a Markdown file for each, with `name` and
    /// `description` between two lines `---` and the instructions behind them
    #[arg(long, value_name = "DIR")]
    pub(crate) agents: Option<String>,

    /// The permission mode: default, plan, acceptEdits, bypassPermissions or dontAsk
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<PermissionMode>,

    /// A rule for calls that need no question, such as `Bash(git log:*)` or `Edit(src/**)`;
    /// repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,

    /// A rule for calls that are denied; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,

    /// A rule for calls that always need a question; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,

    /// A file of rules in JSON, or in YAML when it ends so: `{"allow": [..], "deny": [..],
    /// "ask": [..], "mode": ".."}`
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Lets the kernel confine commands to the working directory and the system's programs, without
    /// the network, and lists the rules of --deny that it enforces
    #[arg(long)]
    pub(crate) sandbox: bool,

    /// Gives AGENTS.md and the skills of the working directory to the model; without it, the user
    /// is asked at the terminal, once for each directory
    #[arg(long)]
    pub(crate) trust_project: bool,

    /// The form of standard output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,

    /// Adds a `stream_event` line for every piece of an answer to `--output stream-json`
    #[arg(long)]
    pub(crate) include_partial_messages: bool,

    /// The maximum number of model calls; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_turns: u32,

    /// The maximum cost of the run, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<f64>,

    /// The maximum number of tokens of one answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,

    /// The context window of the model in tokens; unless given, the one that a server other than
    /// the provider's own reports, or that of the table of models
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) context_window: Option<u64>,

    /// Leaves calls, their failures and the task list out of the notes on standard error
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,

    /// Adds the results of calls, and the tokens and the cost of the run, to the notes of `--output
    /// text`
    #[arg(long, short)]
    verbose: bool,

    /// The session to continue or to begin: a conversation of several runs
    #[arg(long, value_name = "ID", group = "which")]
    pub(crate) session: Option<String>,

    /// Continues the session of the working directory that was written last
    #[arg(long = "continue", group = "which")]
    pub(crate) latest: bool,

    /// Continues an existing session; without ID, one is picked at the terminal
    #[arg(long, value_name = "ID", group = "which", num_args = 0..=1)]
    pub(crate) resume: Option<Option<String>>,

    /// Continues a copy of the session under this id; the session itself does not change
    #[arg(long, value_name = "NEW", requires = "which")]
    pub(crate) fork: Option<String>,

    /// Ends the copy before this message, by its number in --list-messages
    #[arg(long, value_name = "MESSAGE", requires = "fork")]
    pub(crate) at: Option<usize>,

    /// The place of sessions: DIR, sqlite:PATH, postgres:URL or redis:URL; unless given,
    /// agentcore/sessions in the user's state directory
    #[arg(long, value_name = "PLACE")]
    pub(crate) store: Option<String>,

    /// Lists the sessions, the one written last first, and does nothing else
    #[arg(long, conflicts_with_all = ["which", "fork", "park", "decisions", "prompt"])]
    pub(crate) list_sessions: bool,

    /// Lists the messages of a session with their numbers, and does nothing else
    #[arg(
        long,
        requires = "which",
        conflicts_with_all = ["fork", "park", "decisions", "prompt", "list_sessions", "rewind"]
    )]
    pub(crate) list_messages: bool,

    /// Lets calls wait for an approval if no user can be asked, instead of denying them
    #[arg(long)]
    pub(crate) park: bool,

    /// Answers to calls that wait, in JSON, one or several or a list: `{"decision": "allow", "id":
    /// "..", "args_hash": ".."}`, `{"decision": "deny", "id": "..", "message": ".."}`; `--output
    /// json` prints both for each call; - is standard input
    #[arg(long, value_name = "FILE", requires = "which", conflicts_with = "fork")]
    pub(crate) decisions: Option<PathBuf>,

    /// Closes the questions about calls that wait, which are not run, and continues
    #[arg(long, requires = "which", conflicts_with_all = ["fork", "decisions"])]
    pub(crate) dismiss: bool,

    /// Stores files as they were before each message, so that they can be rewound; changes by
    /// commands are not covered
    #[arg(long)]
    pub(crate) checkpoints: bool,

    /// Restores files to their content before this message of the session, by its number in
    /// --list-messages, and does nothing else; the number of all messages undoes a rewind; without
    /// MESSAGE, lists the messages after which files were changed
    #[arg(
        long,
        value_name = "MESSAGE",
        num_args = 0..=1,
        requires = "which",
        conflicts_with_all = ["fork", "park", "decisions", "prompt", "list_sessions"]
    )]
    pub(crate) rewind: Option<Option<usize>>,

    /// Only reports the changes that --rewind would make
    #[arg(long, requires = "rewind")]
    pub(crate) dry_run: bool,

    /// Also rewinds files that others have changed since
    #[arg(long, requires = "rewind", conflicts_with = "dry_run")]
    pub(crate) overwrite: bool,

    /// Prints the calls with their starts and durations to standard error at the end
    #[arg(long)]
    pub(crate) trace: bool,
}

impl Args {
    /// Checks that the options can be combined.
    ///
    /// # Errors
    ///
    /// Returns an error if an option lacks another one that it needs, or has an empty id.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.include_partial_messages && self.output != Output::StreamJson {
            let text = "--include-partial-messages needs --output stream-json";
            return Err(usage(text.to_owned()));
        }

        if self.park && !self.has_store() {
            let text = "--park needs a session that lasts; name one with --session";
            return Err(usage(text.to_owned()));
        }

        if self.checkpoints && !self.has_store() {
            let text = "--checkpoints needs a session that lasts; name one with --session";
            return Err(usage(text.to_owned()));
        }

        let resumed_id = self.resume.as_ref().and_then(Option::as_ref);
        for (option, id) in [
            ("--session", self.session.as_ref()),
            ("--resume", resumed_id),
            ("--fork", self.fork.as_ref()),
        ] {
            if id.is_some_and(String::is_empty) {
                return Err(usage(format!("{option} needs an id that is not empty")));
            }
        }

        Ok(())
    }

    /// The detail of the notes of a run.
    pub(crate) fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Calls,
        }
    }

    /// Returns `true` if sessions are stored.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some() || self.names_session()
    }

    /// Returns `true` if a session is named.
    pub(crate) fn names_session(&self) -> bool {
        self.session.is_some() || self.latest || self.resume.is_some()
    }

    /// Returns `true` if the session that is named must exist.
    pub(crate) fn needs_session(&self) -> bool {
        self.rewind.is_some()
            || self.list_messages
            || self.fork.is_some()
            || self.decisions.is_some()
            || self.dismiss
            || self.resume.is_some()
            || self.latest
    }

    /// Returns `true` if the session is picked at the terminal.
    pub(crate) fn picks_session(&self) -> bool {
        self.resume == Some(None)
    }

    /// The prompt. `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if standard input cannot be read.
    pub(crate) fn prompt(&self) -> Result<Option<String>, Error> {
        let has_decisions = self.decisions.as_deref() == Some(Path::new("-"));
        let prompt = match self.prompt.as_deref() {
            Some("-") if has_decisions => {
                let text = "standard input is either the prompt or the decisions";
                return Err(usage(text.to_owned()));
            }
            Some(prompt) if prompt != "-" => prompt.to_owned(),
            None if has_decisions || io::stdin().is_terminal() => String::new(),
            _ => io::read_to_string(io::stdin())
                .map(|text| text.trim_end().to_owned())
                .map_err(|error| usage(format!("cannot read the prompt: {error}")))?,
        };

        Ok(Some(prompt).filter(|prompt| !prompt.trim().is_empty()))
    }

    /// The working directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is not a directory.
    pub(crate) fn cwd(&self) -> Result<String, Error> {
        let path = self.cwd.as_deref().unwrap_or(Path::new("."));
        match path.canonicalize() {
            Ok(full) if full.is_dir() => Ok(full.display().to_string()),
            Ok(_) => Err(usage(format!(
                "--cwd {} is not a directory",
                path.display()
            ))),
            Err(error) => Err(usage(format!("--cwd {}: {error}", path.display()))),
        }
    }
}

/// The error of a command line without a prompt.
pub(crate) fn no_prompt() -> Error {
    usage("there is no prompt; give one, or pipe it in".to_owned())
}

/// An error of the command line.
pub(crate) fn usage(text: String) -> Error {
    Error::new(ErrorKind::Config, text)
}
