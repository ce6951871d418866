//! The command line.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use agentcore::{Error, ErrorKind, PermissionMode};
use clap::Parser;

use super::output::{Detail, Output};
use super::tools::Tools;

/// What the help ends with. The documentation of this program has the same tables.
const AFTER: &str = "\
Exit codes:
  0    the run succeeded, or what was asked for was shown or done
  1    the run failed, files could not be rewound, or the store's server did not answer
  2    what was asked for cannot be started; nothing was run
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
#[command(name = "agent", version, after_help = AFTER)]
pub(crate) struct Args {
    /// What to do; `-`, or nothing at all, reads it from standard input
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

    /// The tools it has
    #[arg(long, value_enum, default_value_t = Tools::Coding)]
    pub(crate) tools: Tools,

    /// A folder with the subagents it may start, a Markdown file each, with `name` and
    /// `description` between two lines `---` and the instructions behind them
    #[arg(long, value_name = "DIR")]
    pub(crate) agents: Option<String>,

    /// How much needs no question: default, plan, acceptEdits, bypassPermissions or dontAsk
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<PermissionMode>,

    /// A rule for what needs no question, such as `Bash(git log:*)` or `Edit(src/**)`; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,

    /// A rule for what is never done; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,

    /// A rule for what is always asked about; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,

    /// A file of rules in JSON, or in YAML when it ends so: `{"allow": [..], "deny": [..],
    /// "ask": [..], "mode": ".."}`
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Confines commands to the working directory and the system's programs, without the network,
    /// by the kernel, and lists the rules of --deny that it holds them to
    #[arg(long)]
    pub(crate) sandbox: bool,

    /// Gives AGENTS.md and the skills of the working directory to the model; without it, that is
    /// asked at the terminal, once for each directory
    #[arg(long)]
    pub(crate) trust_project: bool,

    /// What standard output gets
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,

    /// Adds a `stream_event` line for every piece of an answer to `--output stream-json`
    #[arg(long)]
    pub(crate) include_partial_messages: bool,

    /// How many times the model may be asked; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_turns: u32,

    /// The most the run may cost, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<f64>,

    /// The most tokens of one answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,

    /// How many tokens fit into the model's context; unless given, what a server that is not the
    /// provider's own tells, or what is known of the model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) context_window: Option<u64>,

    /// Leaves calls, why they failed and the task list out of the notes on standard error
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,

    /// Adds to the notes of `--output text` what calls returned, and the tokens and costs of the
    /// run
    #[arg(long, short)]
    verbose: bool,

    /// The session to go on with, or to begin: a conversation that lasts longer than one run
    #[arg(long, value_name = "ID", group = "which")]
    pub(crate) session: Option<String>,

    /// Goes on with the session that was written last of those of the working directory
    #[arg(long = "continue", group = "which")]
    pub(crate) latest: bool,

    /// Goes on with a session that exists; without ID, one is picked at the terminal
    #[arg(long, value_name = "ID", group = "which", num_args = 0..=1)]
    pub(crate) resume: Option<Option<String>>,

    /// Goes on with a copy under this id; the session itself stays as it is
    #[arg(long, value_name = "NEW", requires = "which")]
    pub(crate) fork: Option<String>,

    /// Ends the copy before this message, by its number in --list-messages: where to take another
    /// turn
    #[arg(long, value_name = "MESSAGE", requires = "fork")]
    pub(crate) at: Option<usize>,

    /// Where sessions are: DIR, sqlite:PATH, postgres:URL or redis:URL; unless given,
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

    /// Calls that need an answer nobody is there to give wait for it, instead of being denied
    #[arg(long)]
    pub(crate) park: bool,

    /// Answers to calls that wait, in JSON, one or several or a list: `{"decision": "allow", "id":
    /// "..", "args_hash": ".."}`, `{"decision": "deny", "id": "..", "message": ".."}`; `--output
    /// json` prints both for each call; - is standard input
    #[arg(long, value_name = "FILE", requires = "which", conflicts_with = "fork")]
    pub(crate) decisions: Option<PathBuf>,

    /// Closes the questions about calls that wait, which are not run, and goes on
    #[arg(long, requires = "which", conflicts_with_all = ["fork", "decisions"])]
    pub(crate) dismiss: bool,

    /// Keeps files as they were before each message, so that they can be rewound; what commands
    /// change is not seen
    #[arg(long)]
    pub(crate) checkpoints: bool,

    /// Makes files what they were before this message of the session, by its number in
    /// --list-messages, and does nothing else; the number of all messages takes back what was
    /// rewound; without MESSAGE, lists the messages after which files were changed
    #[arg(
        long,
        value_name = "MESSAGE",
        num_args = 0..=1,
        requires = "which",
        conflicts_with_all = ["fork", "park", "decisions", "prompt", "list_sessions"]
    )]
    pub(crate) rewind: Option<Option<usize>>,

    /// Only says what --rewind would do
    #[arg(long, requires = "rewind")]
    pub(crate) dry_run: bool,

    /// Also rewinds files that somebody else has changed since
    #[arg(long, requires = "rewind", conflicts_with = "dry_run")]
    pub(crate) overwrite: bool,

    /// Prints what was called, when and for how long, to standard error at the end
    #[arg(long)]
    pub(crate) trace: bool,
}

impl Args {
    /// Whether the options go together.
    ///
    /// # Errors
    ///
    /// When they do not.
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

        let resumed = self.resume.as_ref().and_then(Option::as_ref);
        for (option, id) in [
            ("--session", self.session.as_ref()),
            ("--resume", resumed),
            ("--fork", self.fork.as_ref()),
        ] {
            if id.is_some_and(String::is_empty) {
                return Err(usage(format!("{option} needs an id that is not empty")));
            }
        }

        Ok(())
    }

    /// What the notes of a run say.
    pub(crate) fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Calls,
        }
    }

    /// Whether sessions are kept.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some() || self.names_session()
    }

    /// Whether a session is named.
    pub(crate) fn names_session(&self) -> bool {
        self.session.is_some() || self.latest || self.resume.is_some()
    }

    /// Whether the session that is named has to exist.
    pub(crate) fn needs_session(&self) -> bool {
        self.rewind.is_some()
            || self.list_messages
            || self.fork.is_some()
            || self.decisions.is_some()
            || self.dismiss
            || self.resume.is_some()
            || self.latest
    }

    /// Whether the session is picked at the terminal.
    pub(crate) fn picks(&self) -> bool {
        self.resume == Some(None)
    }

    /// What to do; `None` when nothing is said.
    ///
    /// # Errors
    ///
    /// When standard input cannot be read.
    pub(crate) fn prompt(&self) -> Result<Option<String>, Error> {
        let is_taken = self.decisions.as_deref() == Some(Path::new("-"));
        let prompt = match self.prompt.as_deref() {
            Some("-") if is_taken => {
                let text = "standard input is either the prompt or the decisions";
                return Err(usage(text.to_owned()));
            }
            Some(prompt) if prompt != "-" => prompt.to_owned(),
            None if is_taken || io::stdin().is_terminal() => String::new(),
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
    /// When it is not a directory.
    pub(crate) fn cwd(&self) -> Result<String, Error> {
        let given = self.cwd.as_deref().unwrap_or(Path::new("."));
        match given.canonicalize() {
            Ok(full) if full.is_dir() => Ok(full.display().to_string()),
            Ok(_) => Err(usage(format!(
                "--cwd {} is not a directory",
                given.display()
            ))),
            Err(error) => Err(usage(format!("--cwd {}: {error}", given.display()))),
        }
    }
}

pub(crate) fn no_prompt() -> Error {
    usage("there is no prompt; give one, or pipe it in".to_owned())
}

pub(crate) fn usage(text: String) -> Error {
    Error::new(ErrorKind::Config, text)
}
