//! A reader's position in a run's stream.

use std::sync::Arc;

/// The id of the last event that a reader received: `RUN:SEQ` or `RUN:SEQ.N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) run_id: Arc<str>,
    /// The sequence number of the message.
    pub(crate) seq: u64,
    /// The index of the event among the events of the message.
    pub(crate) index: usize,
}

impl Position {
    /// Returns the position of the reader that sent this `Last-Event-ID`. If the value is not an id
    /// of this server, this is a position in a run that does not exist: the reader is not new, and
    /// receives a snapshot.
    pub(crate) fn of_reader(id: &str) -> Self {
        Self::parse(id).unwrap_or_else(|| Self {
            run_id: Arc::default(),
            seq: 0,
            index: 0,
        })
    }

    /// Parses the value of a `Last-Event-ID` header; `None` if it is not an id of this server.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (run_id, place) = id.rsplit_once(':')?;
        let (seq, index) = match place.split_once('.') {
            Some((seq, index)) => (seq, index.parse().ok()?),
            None => (place, 0),
        };
        Some(Self {
            run_id: run_id.into(),
            seq: seq.parse().ok()?,
            index,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_read_from_ids_alone() {
        let position = |seq, index| {
            Some(Position {
                run_id: "r:1".into(),
                seq,
                index,
            })
        };
        assert_eq!(Position::parse("r:1:7"), position(7, 0));
        assert_eq!(Position::parse("r:1:7.2"), position(7, 2));
        for id in [
            "",
            "7",
            "r:",
            "r:x",
            "r:1.",
            "r:-1",
            "r:1.x",
            "r:99999999999999999999",
        ] {
            assert_eq!(Position::parse(id), None, "{id}");
            assert!(Position::of_reader(id).run_id.is_empty(), "{id}");
        }
    }
}
