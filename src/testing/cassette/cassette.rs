//! [`Cassette`], a model that is recorded to a file or replayed from one.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{Model, ModelCard, ModelProfile, ModelRequest, ModelStream};

use super::record::Recorder;
use super::replay::Player;

/// A model recorded to a file, or replayed from one.
///
/// The file has one JSON object per line: first the model, then for each call the hashes of the
/// request and every event of the answer. It contains no key and no text of a request. Replaying is
/// strict: each request must match a recorded request that has not been played yet (a request that
/// was recorded twice is played twice, in that order); any other request is an error that lists the
/// differences. Sections of the system prompt that are marked volatile are not compared.
///
/// ```
/// use agentcore::testing::{Cassette, FunctionModel};
/// use agentcore::{Model, ModelRequest};
///
/// # let run = async {
/// # let path = std::env::temp_dir().join(format!("cassette-doc-{}.jsonl", std::process::id()));
/// let real = FunctionModel::text(|_| "hello".into());
/// Cassette::record(&path, real)?.call(ModelRequest::new("hi")).await?;
///
/// let replayed = Cassette::replay(&path)?;
/// assert_eq!(replayed.call(ModelRequest::new("hi")).await?.text(), "hello");
/// replayed.verify()?;
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), agentcore::Error>(()) };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone)]
pub struct Cassette {
    mode: CassetteMode,
}

#[derive(Clone)]
enum CassetteMode {
    Record(Arc<Recorder>),
    Replay(Arc<Player>),
}

impl Cassette {
    /// Passes calls on to `model` and records them in the file at `path`, which is replaced. A call
    /// is written when it fails, at the first `Stop` or error of its stream, and when the stream
    /// ends or is dropped before that.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`](crate::ErrorKind::Io) if something that is not a regular file has
    /// the name, or the file cannot be written.
    pub fn record(path: impl AsRef<Path>, model: impl Model) -> Result<Self> {
        Ok(Self {
            mode: CassetteMode::Record(Arc::new(Recorder::create(path.as_ref(), model)?)),
        })
    }

    /// Answers from the file at `path` alone.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`](crate::ErrorKind::Io) if the file is not a regular one, has more
    /// than 64 MiB or cannot be read, [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if it is
    /// not a cassette, and [`ErrorKind::VersionTooNew`](crate::ErrorKind::VersionTooNew) if a newer
    /// version of this crate recorded it.
    pub fn replay(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self {
            mode: CassetteMode::Replay(Arc::new(Player::open(path.as_ref())?)),
        })
    }

    /// Checks that everything that was recorded has been played. It always succeeds while
    /// recording.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Other`](crate::ErrorKind::Other), with the number of calls that are
    /// left, if there are any.
    pub fn verify(&self) -> Result<()> {
        match &self.mode {
            CassetteMode::Record(_) => Ok(()),
            CassetteMode::Replay(player) => player.verify(),
        }
    }
}

impl fmt::Debug for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match &self.mode {
            CassetteMode::Record(_) => "record",
            CassetteMode::Replay(_) => "replay",
        };
        f.debug_struct("Cassette")
            .field("model", &self.id())
            .field("mode", &mode)
            .finish()
    }
}

#[async_trait]
impl Model for Cassette {
    fn id(&self) -> &str {
        match &self.mode {
            CassetteMode::Record(recorder) => recorder.model().id(),
            CassetteMode::Replay(player) => &player.card().id,
        }
    }

    fn profile(&self) -> &ModelProfile {
        match &self.mode {
            CassetteMode::Record(recorder) => recorder.model().profile(),
            CassetteMode::Replay(player) => &player.card().profile,
        }
    }

    fn card(&self, request: &ModelRequest) -> ModelCard {
        match &self.mode {
            CassetteMode::Record(recorder) => recorder.model().card(request),
            CassetteMode::Replay(player) => {
                let ModelCard { id, profile } = player.card();
                ModelCard::of(id, profile, request.model.as_deref())
            }
        }
    }

    fn cards(&self, request: &ModelRequest) -> Vec<ModelCard> {
        match &self.mode {
            CassetteMode::Record(recorder) => recorder.model().cards(request),
            CassetteMode::Replay(_) => vec![self.card(request)],
        }
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        match &self.mode {
            CassetteMode::Record(recorder) => recorder.stream(request).await,
            CassetteMode::Replay(player) => player.stream(&request),
        }
    }
}
