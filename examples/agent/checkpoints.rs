//! Restoring files to what they were before a message.

use std::io::{self, Write};

use agentcore::backend::LocalBackend;
use agentcore::hooks::{Checkpoint, FileCheckpoints, Rewind, RewindMode};
use agentcore::{Error, serde_json};
use serde::Serialize;

use super::args::Args;
use super::output::Output;
use super::sessions::{Store, shown};
use super::store::Place;

/// The outcome of rewinding, or the messages that can be rewound to.
pub(crate) enum Report {
    Rewind(Rewind, RewindMode),
    List(Vec<Checkpoint>),
}

/// The checkpoints of the directory, if the arguments want any.
///
/// # Errors
///
/// When they cannot be kept, or would be where the agent can change them.
pub(crate) fn open(
    args: &Args,
    place: &Place,
    cwd: &str,
) -> Result<Option<FileCheckpoints>, Error> {
    if !args.checkpoints && args.rewind.is_none() {
        return Ok(None);
    }
    let files = FileCheckpoints::open(LocalBackend::new(cwd)?, place.checkpoints()?)?;
    Ok(Some(files))
}

/// Rewinds the files of a session `to` a message, or says which there are.
///
/// # Errors
///
/// When a run of the session is going on, and when checkpoints cannot be read.
pub(crate) async fn rewind(
    args: &Args,
    store: &Store,
    files: &FileCheckpoints,
    id: &str,
    to: Option<usize>,
) -> Result<Report, Error> {
    let Some(message) = to else {
        return files.checkpoints(id).await.map(Report::List);
    };
    // No run of any process may change files meanwhile.
    let _lease = store.lease(id).await?;
    let mode = match (args.dry_run, args.overwrite) {
        (true, _) => RewindMode::DryRun,
        (false, true) => RewindMode::Overwrite,
        (false, false) => RewindMode::Careful,
    };
    let done = files.rewind(id, message, mode).await?;
    Ok(Report::Rewind(done, mode))
}

impl Report {
    /// Prints it; the exit code says whether all that was to be done is done.
    ///
    /// # Errors
    ///
    /// When standard output does not take it.
    pub(crate) fn print(&self, output: Output) -> io::Result<u8> {
        let mut out = io::stdout().lock();
        match self {
            Self::Rewind(done, mode) => {
                match output {
                    Output::Text => write!(out, "{done}")?,
                    Output::Json | Output::StreamJson => line(&mut out, done)?,
                }
                let is_done = *mode == RewindMode::DryRun || done.is_complete();
                Ok(u8::from(!is_done))
            }
            Self::List(list) => {
                match output {
                    Output::Text => list.iter().try_for_each(|one| told(&mut out, one))?,
                    Output::Json | Output::StreamJson => line(&mut out, list)?,
                }
                Ok(0)
            }
        }
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
