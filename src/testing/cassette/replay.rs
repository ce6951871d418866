//! The replay of a cassette.

use std::path::Path;
use std::sync::Mutex;

use futures::{StreamExt, stream};
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelCard, ModelRequest, ModelStream};
use crate::util::regular_file::read_text;
use crate::util::sync::lock;

use super::fingerprint::Fingerprint;
use super::wire::{Exchange, Header, VERSION};

/// The maximum size of a cassette, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

pub(super) struct Player {
    card: ModelCard,
    /// The calls that have not been played.
    exchanges: Mutex<Vec<Exchange>>,
}

impl Player {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let location = |line: usize| format!("{}:{}", path.display(), line + 1);
        let text = read_text(path, MAX_BYTES)
            .map_err(|error| Error::from(error).context(path.display()))?;
        let mut lines = text.lines().enumerate();
        let (_, first) = lines
            .next()
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{}: empty", path.display())))?;
        let header: Header = parse(first).map_err(|error| error.context(location(0)))?;
        if header.cassette > VERSION {
            return Err(Error::new(
                ErrorKind::VersionTooNew,
                format!(
                    "{}: version {} of the format",
                    path.display(),
                    header.cassette
                ),
            ));
        }

        let mut exchanges: Vec<Exchange> = lines
            .map(|(line, text)| parse(text).map_err(|error| error.context(location(line))))
            .collect::<Result<_>>()?;

        // Lines are in the order in which the answers ended.
        exchanges.sort_by_key(|exchange| exchange.call);
        Ok(Self {
            card: header.model.into(),
            exchanges: Mutex::new(exchanges),
        })
    }

    pub(super) fn card(&self) -> &ModelCard {
        &self.card
    }

    pub(super) fn verify(&self) -> Result<()> {
        match lock(&self.exchanges).len() {
            0 => Ok(()),
            count => Err(Error::new(
                ErrorKind::Other,
                format!("{count} recorded call(s) were not played"),
            )),
        }
    }

    pub(super) fn stream(&self, request: &ModelRequest) -> Result<ModelStream> {
        let fingerprint = Fingerprint::of(request);
        let mut exchanges = lock(&self.exchanges);
        let Some(index) = exchanges
            .iter()
            .position(|exchange| exchange.request == fingerprint)
        else {
            let text = match exchanges.first() {
                None => "the cassette has no call left".to_owned(),
                Some(next) => format!(
                    "the request is not the recorded call {}: {}",
                    next.call + 1,
                    fingerprint.differences(&next.request)
                ),
            };

            return Err(Error::new(ErrorKind::Other, text));
        };

        let exchange = exchanges.remove(index);
        drop(exchanges);
        if let Some(error) = &exchange.refused {
            return Err(error.into());
        }

        Ok(stream::iter(exchange.events)
            .map(|event| event.event())
            .boxed())
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line)
        .map_err(|error| Error::new(ErrorKind::Corrupt, error.to_string()).with_source(error))
}
