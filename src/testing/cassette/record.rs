//! The recording of a cassette.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use serde::Serialize;

use crate::engine::redact_stream;
use crate::error::{Error, Result};
use crate::model::{Model, ModelCard, ModelEvent, ModelRequest, ModelStream};
use crate::util::regular_file::open_regular;
use crate::util::sync::lock;

use super::fingerprint::Fingerprint;
use super::wire::{Exchange, Header, VERSION};

pub(super) struct Recorder {
    model: Box<dyn Model>,
    file: Arc<Mutex<File>>,
    calls: AtomicUsize,
}

impl Recorder {
    pub(super) fn create(path: &Path, model: impl Model) -> Result<Self> {
        let file = open_regular(
            File::options().write(true).create(true).truncate(true),
            path,
        )
        .map_err(|error| Error::from(error).context(path.display()))?;
        let file = Arc::new(Mutex::new(file));
        let header = Header {
            cassette: VERSION,
            model: ModelCard::new(model.id(), *model.profile()).into(),
        };

        write(&file, &header)?;
        Ok(Self {
            model: Box::new(model),
            file,
            calls: AtomicUsize::new(0),
        })
    }

    pub(super) fn model(&self) -> &dyn Model {
        &*self.model
    }

    pub(super) async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        let mut exchange = Exchange {
            call: self.calls.fetch_add(1, Ordering::Relaxed),
            request: Fingerprint::of(&request),
            refused: None,
            events: Vec::new(),
        };

        let max_bytes = request.response_limits().max_bytes;
        match self.model.stream(request).await {
            Ok(inner) => Ok(RecordedStream {
                inner: redact_stream(inner, max_bytes),
                exchange: Some(exchange),
                file: self.file.clone(),
            }
            .boxed()),
            Err(error) => {
                exchange.refused = Some((&error).into());
                write(&self.file, &exchange)?;
                Err(error)
            }
        }
    }
}

/// One line in one write, so that concurrent calls never mix.
fn write(file: &Mutex<File>, line: &impl Serialize) -> Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(lock(file).write_all(&bytes)?)
}

/// Passes a stream on and writes it down when it ends.
struct RecordedStream {
    inner: ModelStream,
    /// Taken when it has been written.
    exchange: Option<Exchange>,
    file: Arc<Mutex<File>>,
}

impl RecordedStream {
    fn finish(&mut self) -> Result<()> {
        match self.exchange.take() {
            Some(exchange) => write(&self.file, &exchange),
            None => Ok(()),
        }
    }
}

impl Stream for RecordedStream {
    type Item = Result<ModelEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.inner.poll_next_unpin(cx));
        if let (Some(event), Some(exchange)) = (&next, &mut self.exchange) {
            exchange.events.push(event.into());
        }
        if matches!(next, None | Some(Err(_) | Ok(ModelEvent::Stop { .. })))
            && let Err(error) = self.finish()
        {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(next)
    }
}

impl Drop for RecordedStream {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::warn!(%error, "a cassette could not be written");
        }
    }
}
