//! The checkpoints of files, and their rewind.

use std::io::{self, Write};

use agentcore::backend::MemoryBackend;
use agentcore::hooks::{Checkpoint, FileCheckpoints, Rewind, RewindMode};
use agentcore::{AgentState, Error, Session, serde_json};
use serde::Serialize;

use super::args::{Args, usage};
use super::confinement;
use super::output::{Output, note};
use super::sessions::{self, Store};
use super::shown;
use super::store::{self, Place};

/// The outcome of `--rewind`.
pub(crate) struct Report {
    content: Content,
    /// The reason why nothing was to be done, if there is one.
    nothing: Option<String>,
}

enum Content {
    /// The files that were rewound, or would be.
    Changes(Rewind, RewindMode),
    /// The messages after which files were changed.
    Messages(Vec<Checkpoint>),
}

/// Checks that the agent cannot change the checkpoints.
///
/// # Errors
///
/// Returns an error if their folder is inside the workspace.
pub(crate) fn check_place(place: &Place, cwd: &str) -> Result<(), Error> {
    let folder = place.checkpoints()?;
    if !store::is_beneath(&folder, cwd)? {
        return Ok(());
    }
    Err(usage(format!(
        "the folder of checkpoints, {}, would lie beneath the workspace, where the agent can \
         change it; choose another place with --store",
        folder.display()
    )))
}

/// The checkpoints of the directory.
///
/// # Errors
///
/// Returns an error if `cwd` or the folder of the checkpoints cannot be opened.
pub(crate) fn open(args: &Args, place: &Place, cwd: &str) -> Result<FileCheckpoints, Error> {
    FileCheckpoints::open(confinement::backend(args, cwd)?, place.checkpoints()?)
}

/// Copies a session with its checkpoints, also if this run stores none.
///
/// # Errors
///
/// Returns an error if either cannot be copied; then there is no copy.
pub(crate) async fn fork(
    args: &Args,
    place: &Place,
    session: &Session,
    new: &str,
) -> Result<Session, Error> {
    let fork = match args.at {
        Some(at) => session.fork_at(new, at).await?,
        None => session.fork(new).await?,
    };

    let Err(error) = copy(place, session.id(), new, args.at).await else {
        return Ok(fork);
    };

    if let Err(cause) = fork.delete().await {
        note(&format!(
            "the copy {new:?} is left without checkpoints: {cause}"
        ));
    }

    Err(error)
}

async fn copy(place: &Place, from: &str, to: &str, at: Option<usize>) -> Result<(), Error> {
    // Without a folder there are no checkpoints.
    let Some(folder) = place.checkpoints().ok().filter(|folder| folder.is_dir()) else {
        return Ok(());
    };
    // Copying touches no workspace.
    let files = FileCheckpoints::open(MemoryBackend::new(), folder)?;
    files.fork_at(from, to, at.unwrap_or(usize::MAX)).await
}

/// Checks that a session began in `cwd`: the paths of checkpoints are relative to that directory.
///
/// # Errors
///
/// Returns an error if the session began in another directory.
pub(crate) fn check_cwd(state: &AgentState, cwd: &str) -> Result<(), Error> {
    match state.cwd.as_deref().filter(|began| *began != cwd) {
        None => Ok(()),
        Some(began) => Err(usage(format!(
            "the files of this session are those of {}, where it began, not of {cwd}; name that \
             directory with --cwd",
            shown::line(began)
        ))),
    }
}

/// Rewinds the files of a session `to` a message, or lists the messages.
///
/// # Errors
///
/// Returns an error if a run of the session is in progress, if there is no such message, and if
/// checkpoints cannot be read.
pub(crate) async fn rewind(
    args: &Args,
    place: &Place,
    store: &Store,
    to: Option<usize>,
) -> Result<Report, Error> {
    let cwd = args.cwd()?;
    let id = sessions::choose(args, store, &cwd).await?;

    // No run of any process may change files meanwhile.
    let _lease = match to {
        Some(_) => Some(store.lease(&id).await?),
        None => None,
    };

    let state = store.load(&id).await?.unwrap_or_default().state;
    check_cwd(&state, &cwd)?;
    let files = if place.checkpoints()?.is_dir() {
        Some(open(args, place, &cwd)?)
    } else {
        None
    };

    let checkpoints = match &files {
        Some(files) => files.checkpoints(&id).await?,
        None => Vec::new(),
    };

    let none = "this session has no checkpoints; a run with --checkpoints makes them when it \
                changes files";
    let nothing = checkpoints.is_empty().then(|| none.to_owned());
    let Some(message) = to else {
        let content = Content::Messages(checkpoints);
        return Ok(Report { content, nothing });
    };

    let count = state.messages.len();
    if message > count
        && checkpoints
            .iter()
            .all(|checkpoint| checkpoint.message != message)
    {
        return Err(usage(format!(
            "--rewind {message}: the session has {count} messages, numbered from 0; \
             --list-messages shows them"
        )));
    }

    let mode = match (args.dry_run, args.overwrite) {
        (true, _) => RewindMode::DryRun,
        (false, true) => RewindMode::Overwrite,
        (false, false) => RewindMode::SkipChanged,
    };

    let rewind = match &files {
        Some(files) => files.rewind(&id, message, mode).await?,
        None => Rewind::default(),
    };

    let no_change = || {
        Some(format!(
            "every file is what it was before message {message}"
        ))
    };

    let nothing = if rewind.changes.is_empty() {
        nothing.or_else(no_change)
    } else {
        None
    };

    let content = Content::Changes(rewind, mode);
    Ok(Report { content, nothing })
}

impl Report {
    /// Prints the report. Returns the exit code, which is 0 if the rewind is complete.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output cannot be written.
    pub(crate) fn print(&self, output: Output) -> io::Result<u8> {
        let mut out = io::stdout().lock();
        if let Some(reason) = &self.nothing {
            note(&format!("nothing to do: {reason}"));
        }

        match (&self.content, output) {
            (Content::Changes(rewind, _), Output::Text) => write!(out, "{rewind}")?,
            (Content::Changes(rewind, _), _) => write_json(&mut out, rewind)?,
            (Content::Messages(list), Output::Text) => {
                list.iter()
                    .try_for_each(|checkpoint| write_checkpoint(&mut out, checkpoint))?;
            }
            (Content::Messages(list), _) => write_json(&mut out, list)?,
        }

        Ok(match &self.content {
            Content::Changes(rewind, mode) if *mode != RewindMode::DryRun => {
                u8::from(!rewind.is_complete())
            }
            _ => 0,
        })
    }
}

fn write_checkpoint(out: &mut impl Write, checkpoint: &Checkpoint) -> io::Result<()> {
    let title = checkpoint.title.as_deref().unwrap_or_default();
    writeln!(out, "{}  {}", checkpoint.message, shown::line(title))?;
    checkpoint
        .files
        .iter()
        .try_for_each(|file| writeln!(out, "    {}", shown::line(file)))
}

fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(value)?)
}
