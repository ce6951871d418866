//! Keeping files as they were, and restoring them.

use std::io::{self, Write};

use agentcore::backend::MemoryBackend;
use agentcore::hooks::{Checkpoint, FileCheckpoints, Rewind, RewindMode};
use agentcore::{AgentState, Error, Session, serde_json};
use serde::Serialize;

use super::args::{Args, usage};
use super::confinement;
use super::output::{Output, note};
use super::sessions::{self, Store, shown};
use super::store::{self, Place};

/// What was rewound, or could be.
pub(crate) struct Report {
    found: Found,
    /// Why there is nothing to do, if so.
    nothing: Option<String>,
}

enum Found {
    Changes(Rewind, RewindMode),
    Messages(Vec<Checkpoint>),
}

/// Whether checkpoints may be where they would be.
///
/// # Errors
///
/// When the agent could change them there.
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
/// When they cannot be kept.
pub(crate) fn open(args: &Args, place: &Place, cwd: &str) -> Result<FileCheckpoints, Error> {
    FileCheckpoints::open(confinement::backend(args, cwd)?, place.checkpoints()?)
}

/// Copies a session with its checkpoints, whether or not this run keeps any.
///
/// # Errors
///
/// When either cannot be copied; then neither is there.
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

    if let Err(left) = fork.delete().await {
        note(&format!(
            "the copy {new:?} is left without checkpoints: {left}"
        ));
    }

    Err(error)
}

async fn copy(place: &Place, from: &str, to: &str, at: Option<usize>) -> Result<(), Error> {
    // Where there is no place for any, there are none.
    let Some(folder) = place.checkpoints().ok().filter(|folder| folder.is_dir()) else {
        return Ok(());
    };
    // Copying touches no workspace.
    let files = FileCheckpoints::open(MemoryBackend::new(), folder)?;
    files.fork_at(from, to, at.unwrap_or(usize::MAX)).await
}

/// Whether the files of a session are those of `cwd`: paths are kept as they are beneath the
/// directory it began in.
///
/// # Errors
///
/// When they are others.
pub(crate) fn check_cwd(state: &AgentState, cwd: &str) -> Result<(), Error> {
    match state.cwd.as_deref().filter(|began| *began != cwd) {
        None => Ok(()),
        Some(began) => Err(usage(format!(
            "the files of this session are those of {}, where it began, not of {cwd}; name that \
             directory with --cwd",
            shown(began)
        ))),
    }
}

/// Rewinds the files of a session `to` a message, or says which there are.
///
/// # Errors
///
/// When a run of the session is going on, when there is no such message, and when checkpoints
/// cannot be read.
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

    let kept = match &files {
        Some(files) => files.checkpoints(&id).await?,
        None => Vec::new(),
    };

    let none = "this session has no checkpoints; a run with --checkpoints makes them when it \
                changes files";
    let nothing = kept.is_empty().then(|| none.to_owned());
    let Some(message) = to else {
        let found = Found::Messages(kept);
        return Ok(Report { found, nothing });
    };

    let count = state.messages.len();
    if message > count && kept.iter().all(|one| one.message != message) {
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

    let done = match &files {
        Some(files) => files.rewind(&id, message, mode).await?,
        None => Rewind::default(),
    };

    let same = || {
        Some(format!(
            "every file is what it was before message {message}"
        ))
    };

    let nothing = if done.changes.is_empty() {
        nothing.or_else(same)
    } else {
        None
    };

    let found = Found::Changes(done, mode);
    Ok(Report { found, nothing })
}

impl Report {
    /// Prints it; the exit code says whether all that was to be done is done.
    ///
    /// # Errors
    ///
    /// When standard output does not take it.
    pub(crate) fn print(&self, output: Output) -> io::Result<u8> {
        let mut out = io::stdout().lock();
        if let Some(why) = &self.nothing {
            note(&format!("nothing to do: {why}"));
        }

        match (&self.found, output) {
            (Found::Changes(done, _), Output::Text) => write!(out, "{done}")?,
            (Found::Changes(done, _), _) => line(&mut out, done)?,
            (Found::Messages(list), Output::Text) => {
                list.iter().try_for_each(|one| told(&mut out, one))?;
            }
            (Found::Messages(list), _) => line(&mut out, list)?,
        }

        Ok(match &self.found {
            Found::Changes(done, mode) if *mode != RewindMode::DryRun => {
                u8::from(!done.is_complete())
            }
            _ => 0,
        })
    }
}

fn told(out: &mut impl Write, one: &Checkpoint) -> io::Result<()> {
    let title = one.title.as_deref().unwrap_or_default();
    writeln!(out, "{}  {}", one.message, shown(title))?;
    one.files
        .iter()
        .try_for_each(|file| writeln!(out, "    {}", shown(file)))
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(value)?)
}
