//! The replies of the server.

use std::time::Duration;

use bytes::Bytes;

/// One action of a reply on its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Writes these bytes of the body at once.
    Send(Bytes),
    /// Waits on tokio's clock.
    Pause(Duration),
    /// Keeps the connection open and sends nothing more, until the client closes it.
    Stall,
    /// Ends the connection with a TCP reset.
    Reset,
    /// Closes the connection with a TCP FIN, even if more bytes were announced.
    Close,
    /// Writes bytes that look random and are the same for the same seed.
    Garbage {
        /// The number of bytes.
        len: usize,
        /// The start of the sequence.
        seed: u64,
    },
}

/// The way the client detects the end of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// Each write is a chunk; the connection stays open.
    #[default]
    Chunked,
    /// The length is announced in a header; the connection stays open.
    ContentLength,
    /// The end of the connection is the end of the body.
    UntilClose,
}

/// A scripted reply: status, headers and actions.
///
/// ```
/// use std::time::Duration;
/// use agentcore::testing::Reply;
///
/// let torn = Reply::sse(["data: {\"a\":1}\n\n", "data: [DONE]\n\n"])
///     .split_at([3, 9])
///     .pause(Duration::from_millis(10))
///     .reset();
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) actions: Vec<Action>,
    pub(super) framing: Framing,
    /// True if a status line and headers are written.
    pub(super) has_head: bool,
}

impl Reply {
    /// Creates an empty reply with this status.
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            actions: Vec::new(),
            framing: Framing::default(),
            has_head: true,
        }
    }

    /// Creates a reply without a status line: only the sent bytes are written.
    pub fn raw() -> Self {
        Self {
            has_head: false,
            framing: Framing::UntilClose,
            ..Self::new(0)
        }
    }

    /// Creates a reply with a body of JSON text, and with its length in a header.
    pub fn json(status: u16, body: impl Into<String>) -> Self {
        Self::new(status)
            .header("content-type", "application/json")
            .framing(Framing::ContentLength)
            .send(body.into())
    }

    /// Creates a reply with a stream of server-sent events, one write for each item. The items are
    /// the text of the events as they are, `data: ` and empty lines included.
    pub fn sse<I: IntoIterator<Item = S>, S: Into<String>>(events: I) -> Self {
        events.into_iter().fold(
            Self::new(200).header("content-type", "text/event-stream"),
            |reply, event| reply.send(event.into()),
        )
    }

    /// Creates a reply with a stream of JSON lines, one write for each item. Line ends are added.
    pub fn ndjson<I: IntoIterator<Item = S>, S: Into<String>>(lines: I) -> Self {
        lines.into_iter().fold(
            Self::new(200).header("content-type", "application/x-ndjson"),
            |reply, line| reply.send(line.into() + "\n"),
        )
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the framing.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Adds an action that writes `bytes`.
    #[must_use]
    pub fn send(self, bytes: impl Into<Bytes>) -> Self {
        self.then(Action::Send(bytes.into()))
    }

    /// Adds an action that waits on tokio's clock.
    #[must_use]
    pub fn pause(self, wait: Duration) -> Self {
        self.then(Action::Pause(wait))
    }

    /// Adds an action that keeps the connection open and sends nothing more.
    #[must_use]
    pub fn stall(self) -> Self {
        self.then(Action::Stall)
    }

    /// Adds an action that resets the connection.
    #[must_use]
    pub fn reset(self) -> Self {
        self.then(Action::Reset)
    }

    /// Adds an action that closes the connection, even when the body is not complete.
    #[must_use]
    pub fn close(self) -> Self {
        self.then(Action::Close)
    }

    /// Adds an action that writes `len` bytes of garbage.
    #[must_use]
    pub fn garbage(self, len: usize, seed: u64) -> Self {
        self.then(Action::Garbage { len, seed })
    }

    /// Adds an action.
    #[must_use]
    pub fn then(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Cuts all writes so far at these offsets of the body, and nowhere else. All other actions so
    /// far come before the writes, so add pauses and the end of the connection afterwards.
    #[must_use]
    pub fn split_at(mut self, offsets: impl IntoIterator<Item = usize>) -> Self {
        let mut offsets: Vec<usize> = offsets.into_iter().collect();
        offsets.sort_unstable();
        let mut body = self.take_body();
        let mut position = 0;
        for offset in offsets {
            let piece = body.split_to(offset.saturating_sub(position).min(body.len()));
            position += piece.len();
            self = self.send_some(piece);
        }
        self.send_some(body)
    }

    /// Cuts all writes so far into pieces of `len` bytes, like [`split_at`](Self::split_at).
    ///
    /// # Panics
    ///
    /// Panics if `len` is 0.
    #[must_use]
    pub fn every(self, len: usize) -> Self {
        assert!(len > 0, "a piece has at least one byte");
        let total = self.body_len();
        self.split_at((len..total).step_by(len))
    }

    /// Replaces all actions so far with one write of the first `len` bytes of the body.
    #[must_use]
    pub fn truncate(mut self, len: usize) -> Self {
        let body = self.take_body();
        self.actions.clear();
        let end = len.min(body.len());
        self.send_some(body.slice(..end))
    }

    /// Returns the actions, in order.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns the number of scripted bytes of the body.
    pub fn body_len(&self) -> usize {
        self.actions
            .iter()
            .map(|action| match action {
                Action::Send(bytes) => bytes.len(),
                Action::Garbage { len, .. } => *len,
                _ => 0,
            })
            .sum()
    }

    fn send_some(self, bytes: Bytes) -> Self {
        if bytes.is_empty() {
            self
        } else {
            self.send(bytes)
        }
    }

    fn take_body(&mut self) -> Bytes {
        let mut body = Vec::new();
        self.actions.retain(|action| match action {
            Action::Send(bytes) => {
                body.extend_from_slice(bytes);
                false
            }
            Action::Garbage { len, seed } => {
                body.extend_from_slice(&garbage(*len, *seed));
                false
            }
            _ => true,
        });
        body.into()
    }
}

/// `len` bytes of a xorshift sequence.
pub(super) fn garbage(len: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}
