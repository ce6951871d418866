//! The stream of a server, whose messages are checked before they are read: the client allocates as
//! much as the head of a message asks for.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::types::Type;

use crate::session::remote::PIECE;
use crate::util::sync::lock;

/// The maximum size of a message, in bytes: a row has at most a piece of a log and its position.
const MAX_MESSAGE: u64 = PIECE + 1024 * 1024;
/// The maximum size, in bytes, of the settings, notices and notifications between two complete
/// answers.
const MAX_NOTICES: u64 = 1024 * 1024;
/// The maximum size of a connection's settings, in bytes. The client keeps them.
const MAX_SETTINGS: u64 = 4 * 1024 * 1024;

/// The maximum size of a description of rows, in bytes. Rows have up to four columns.
const MAX_DESCRIPTION: u64 = 16 * 1024;

/// The tag of a message that describes the columns of rows.
const DESCRIPTION: u8 = b'T';
/// The tag of a message with a setting.
const SETTING: u8 = b'S';
const NOTICE: u8 = b'N';
const NOTIFICATION: u8 = b'A';
/// The tag of the message that ends an answer.
const READY: u8 = b'Z';
/// The bytes of a message's tag and length. The length counts itself.
const HEAD: usize = 5;

/// The bytes that describe a column, after its name.
const COLUMN: usize = 18;

/// The reason why a stream was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The answer was refused, and another attempt would have the same answer.
    Refused(String),
    /// The connection is used up; another one can be opened.
    Worn(String),
}

/// The reason why a stream was ended, shared by the stream and its connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ProblemSlot(Arc<Mutex<Option<Problem>>>);

impl ProblemSlot {
    pub(super) fn take(&self) -> Option<Problem> {
        lock(&self.0).take()
    }
}

/// A stream that ends with an error at a message over the limits.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    problem: ProblemSlot,
    /// `None` if the messages are encrypted: the stream inside TLS checks them.
    messages: Option<Messages>,
}

/// The position in a stream of messages, and the bytes that count against limits.
#[derive(Debug, Default)]
struct Messages {
    /// True while the answer to the request for TLS is awaited, which is one byte.
    awaits_tls: bool,
    head: [u8; HEAD],
    head_len: usize,
    /// The remaining bytes of the message.
    remaining: u64,
    notice_bytes: u64,
    setting_bytes: u64,
    /// The bytes of the description that is being read.
    description: Option<Vec<u8>>,
}

impl<S> Bounded<S> {
    /// Creates the stream of a connection. With `awaits_tls`, it begins with the answer to the
    /// request for TLS.
    pub(super) fn new(stream: S, problem: ProblemSlot, awaits_tls: bool) -> Self {
        let messages = Messages {
            awaits_tls,
            ..Messages::default()
        };
        Self {
            stream,
            problem,
            messages: Some(messages),
        }
    }

    /// Ends the checks, because the messages are encrypted from now on. Returns the slot for the
    /// stream inside TLS.
    #[cfg(feature = "tls")]
    pub(super) fn end_checks(&mut self) -> ProblemSlot {
        self.messages = None;
        self.problem.clone()
    }
}

impl Messages {
    /// Follows the messages through these bytes.
    fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        if self.awaits_tls && !bytes.is_empty() {
            self.awaits_tls = false;
            bytes = &bytes[1..];
        }

        while !bytes.is_empty() {
            let skipped = usize::try_from(self.remaining)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            self.remaining -= skipped as u64;
            if let Some(description) = &mut self.description {
                description.extend_from_slice(&bytes[..skipped]);
            }
            bytes = &bytes[skipped..];
            if self.remaining == 0
                && let Some(description) = self.description.take()
            {
                check_columns(&description)?;
            }

            let count = (HEAD - self.head_len).min(bytes.len());
            self.head[self.head_len..self.head_len + count].copy_from_slice(&bytes[..count]);
            self.head_len += count;
            bytes = &bytes[count..];
            if self.head_len == HEAD {
                self.head_len = 0;
                self.begin()?;
            }
        }

        Ok(())
    }

    /// Begins the message of a head.
    fn begin(&mut self) -> Result<(), Problem> {
        let [tag, len @ ..] = self.head;
        let len = u64::from(u32::from_be_bytes(len));
        if len > MAX_MESSAGE {
            return Err(Problem::Refused(format!(
                "answered with a message of {len} bytes, of which {MAX_MESSAGE} are read at most"
            )));
        }

        if tag == DESCRIPTION && len > MAX_DESCRIPTION {
            return Err(Problem::Refused(format!(
                "described the columns of rows in {len} bytes, of which {MAX_DESCRIPTION} are read \
                 at most"
            )));
        }
        self.description = (tag == DESCRIPTION).then(Vec::new);

        match tag {
            READY => self.notice_bytes = 0,
            SETTING | NOTICE | NOTIFICATION => self.notice_bytes += len,
            _ => {}
        }
        if self.notice_bytes > MAX_NOTICES {
            return Err(Problem::Refused(format!(
                "answered with settings and notices of {} bytes, of which {MAX_NOTICES} are read at \
                 most",
                self.notice_bytes
            )));
        }

        if tag == SETTING {
            self.setting_bytes += len;
        }
        if self.setting_bytes > MAX_SETTINGS {
            return Err(Problem::Worn(format!(
                "sent settings of {} bytes on one connection",
                self.setting_bytes
            )));
        }

        // The client refuses a length that does not count itself.
        self.remaining = len.saturating_sub(4);
        Ok(())
    }
}

/// Checks that the columns of rows have built-in types. The client looks up the definitions of all
/// other types, at any depth that the server nests them, and stores them.
fn check_columns(description: &[u8]) -> Result<(), Problem> {
    let unreadable = || Problem::Refused("described the columns of rows unreadably".to_owned());
    let mut fields = description.get(2..).ok_or_else(unreadable)?;
    while !fields.is_empty() {
        let name_len = memchr::memchr(0, fields).ok_or_else(unreadable)?;
        let (field, next_fields) = fields[name_len + 1..]
            .split_first_chunk::<COLUMN>()
            .ok_or_else(unreadable)?;
        // The type follows the ids of the table and of the column.
        let type_oid = u32::from_be_bytes([field[6], field[7], field[8], field[9]]);
        if Type::from_oid(type_oid).is_none() {
            return Err(Problem::Refused(format!(
                "answered with a column of the type {type_oid}, which is not built into PostgreSQL; \
                 the tables are not as they were made"
            )));
        }
        fields = next_fields;
    }
    Ok(())
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = buffer.filled().len();
        std::task::ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let bytes = &buffer.filled()[start..];
        let outcome = match &mut this.messages {
            Some(messages) => messages.follow(bytes),
            None => Ok(()),
        };
        Poll::Ready(outcome.map_err(|problem| {
            *lock(&this.problem.0) = Some(problem);
            io::Error::new(io::ErrorKind::InvalidData, "a message is over a limit")
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u32 = 1024;
    const ROW: u8 = b'D';

    fn message(tag: u8, len: u32) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend(len.to_be_bytes());
        bytes.resize(1 + len as usize, b'x');
        bytes
    }

    /// Follows the bytes in pieces of several sizes.
    fn follow(bytes: &[u8], awaits_tls: bool) -> Result<(), Problem> {
        let outcomes = [1, 2, 3, 7, 4096, usize::MAX].map(|size| {
            let mut messages = Messages {
                awaits_tls,
                ..Messages::default()
            };
            let mut pieces = bytes.chunks(size.min(bytes.len()));
            pieces.try_for_each(|piece| messages.follow(piece))
        });
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
        outcomes[0].clone()
    }

    fn refused(bytes: &[u8]) -> String {
        match follow(bytes, false) {
            Err(Problem::Refused(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_within_the_limit_pass_wherever_they_are_cut() {
        let lens = [4, 5, 2 * KIB * KIB, 4, 99];
        let messages = lens.into_iter().flat_map(|len| message(ROW, len));
        let bytes: Vec<u8> = messages.collect();
        assert_eq!(follow(&bytes, false), Ok(()));
        assert_eq!(follow(&[b"N", &bytes[..]].concat(), true), Ok(()));
    }

    #[test]
    fn message_over_the_limit_is_refused_at_its_head() {
        for before in [0, 3] {
            let mut bytes = message(ROW, 100).repeat(before);
            bytes.push(ROW);
            bytes.extend((2 * KIB * KIB + 1).to_be_bytes());
            let text = refused(&bytes);
            assert!(text.contains("a message of 2097153 bytes"), "{text}");
        }
    }

    #[test]
    fn notices_are_limited_until_an_answer_is_complete() {
        for tag in [SETTING, NOTICE, NOTIFICATION] {
            let notice = message(tag, KIB);
            let row = message(ROW, KIB);
            let most = [notice.repeat(1024), row].concat();
            assert_eq!(follow(&most, false), Ok(()));
            let text = refused(&[&most[..], &notice].concat());
            assert!(text.contains("1049600 bytes"), "{text}");
        }
        let complete = [message(NOTICE, KIB).repeat(1024), message(READY, 5)].concat();
        assert_eq!(follow(&complete.repeat(8), false), Ok(()));
    }

    /// Returns the description of rows with columns of these types.
    fn description(type_oids: &[u32]) -> Vec<u8> {
        let mut body = u16::try_from(type_oids.len())
            .unwrap()
            .to_be_bytes()
            .to_vec();
        for type_oid in type_oids {
            body.extend(b"name\0");
            body.extend([0; 6]);
            body.extend(type_oid.to_be_bytes());
            body.extend([0; 8]);
        }
        let mut bytes = vec![DESCRIPTION];
        bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn column_of_a_type_that_is_not_built_in_is_refused() {
        let built_in = [20, 23, 25, 17].as_slice();
        let pieces = [description(&[]), description(built_in), message(ROW, 9)];
        let bytes = pieces.concat();
        assert_eq!(follow(&bytes.repeat(2), false), Ok(()));
        for types in [[100_000, 20], [20, 100_000]] {
            let text = refused(&[&bytes[..], &description(&types)].concat());
            assert!(text.contains("the type 100000"), "{text}");
        }
    }

    #[test]
    fn description_that_is_cut_or_too_long_is_refused() {
        let bytes = description(&[23]);
        for len in [1, bytes.len() - 6] {
            let mut body = bytes[HEAD..HEAD + len].to_vec();
            let mut cut_bytes = vec![DESCRIPTION];
            cut_bytes.extend(u32::try_from(len + 4).unwrap().to_be_bytes());
            cut_bytes.append(&mut body);
            let text = refused(&cut_bytes);
            assert!(text.contains("unreadably"), "{text}");
        }
        let text = refused(&message(DESCRIPTION, 17 * KIB));
        assert!(text.contains("in 17408 bytes"), "{text}");
    }

    #[test]
    fn connection_with_too_many_settings_is_given_up() {
        let complete = [message(SETTING, KIB).repeat(1024), message(READY, 5)].concat();
        assert_eq!(follow(&complete.repeat(4), false), Ok(()));
        let outcome = follow(&complete.repeat(5), false);
        assert!(matches!(outcome, Err(Problem::Worn(_))), "{outcome:?}");
    }
}
