//! The replies of a server, read within limits: a server is trusted with sessions, but not with the
//! memory of this program.

use std::io::{self, BufRead, BufReader, Read};

use redis::{Value, parse_redis_value};

/// The maximum length of a line in bytes: a status, an error or a number.
const MAX_LINE: usize = 64 * 1024;
/// The maximum number of values of a reply. Each takes 56 bytes.
const MAX_VALUES: usize = 256 * 1024;
/// The maximum number of arrays around a value. The deepest reply that is requested has two.
const MAX_DEPTH: usize = 8;
/// The number of bytes that are allocated before any has arrived.
const FIRST_BYTES: usize = 64 * 1024;
/// The length of a text or an array that does not exist.
const ABSENT: &[u8] = b"-1";

/// The reason why a reply was not read. The connection cannot be used again, because the rest of
/// the reply may still arrive.
#[derive(Debug)]
pub(super) enum Unread {
    Lost(io::Error),
    /// It is not a reply, or exceeds a limit.
    Refused(String),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// A reader of one reply, within its limits.
pub(super) struct ReplyReader<'a, R> {
    stream: &'a mut BufReader<R>,
    received: usize,
    max_bytes: usize,
    values: usize,
}

impl<'a, R: Read> ReplyReader<'a, R> {
    /// Creates a reader of one reply with at most `max_bytes`. The socket limits the time.
    pub(super) fn new(stream: &'a mut BufReader<R>, max_bytes: usize) -> Self {
        Self {
            stream,
            received: 0,
            max_bytes,
            values: 0,
        }
    }

    /// Returns the number of bytes that were read.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    pub(super) fn read(&mut self) -> Result<Value, Unread> {
        self.value(0)
    }

    fn value(&mut self, depth: usize) -> Result<Value, Unread> {
        let line = self.line()?;
        let (kind, text) = line.split_first().ok_or_else(malformed)?;
        Ok(match kind {
            b'+' if text == b"OK" => Value::Okay,
            b'+' => Value::SimpleString(String::from_utf8_lossy(text).into_owned()),
            b'-' => parse_redis_value(&[&line, &b"\r\n"[..]].concat()).map_err(|_| malformed())?,
            b':' => Value::Int(number(text)?),
            b'$' | b'*' if text == ABSENT => Value::Nil,
            b'$' => Value::BulkString(self.text(number(text)?)?),
            b'*' => Value::Array(self.array(number(text)?, depth)?),
            _ => return Err(malformed()),
        })
    }

    fn array(&mut self, len: usize, depth: usize) -> Result<Vec<Value>, Unread> {
        if depth >= MAX_DEPTH {
            return Err(too_large("levels of arrays", depth + 1, MAX_DEPTH));
        }
        self.values = self.values.saturating_add(len);
        if self.values > MAX_VALUES {
            return Err(too_large("values", self.values, MAX_VALUES));
        }
        // Not allocated at once: none of the values has arrived.
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(self.value(depth + 1)?);
        }
        Ok(values)
    }

    fn text(&mut self, len: usize) -> Result<Vec<u8>, Unread> {
        let end = self.received.saturating_add(len);
        if end > self.max_bytes {
            return Err(too_large("bytes", end, self.max_bytes));
        }
        let mut bytes = Vec::with_capacity(len.min(FIRST_BYTES));
        while bytes.len() < len {
            let missing = len - bytes.len();
            if bytes.len() == bytes.capacity() {
                bytes.reserve_exact(bytes.len().min(missing));
            }
            let free = (bytes.capacity() - bytes.len()).min(missing);
            let part = self.arrived()?;
            let part = &part[..part.len().min(free)];
            bytes.extend_from_slice(part);
            let count = part.len();
            self.consume(count);
        }
        if self.line()?.is_empty() {
            Ok(bytes)
        } else {
            Err(malformed())
        }
    }

    /// Returns a line without its end.
    fn line(&mut self) -> Result<Vec<u8>, Unread> {
        let mut line = Vec::new();
        loop {
            let part = self.arrived()?;
            let end = memchr::memchr(b'\n', part);
            let part = &part[..end.map_or(part.len(), |end| end + 1)];
            if line.len() + part.len() > MAX_LINE {
                return Err(too_large(
                    "bytes in a line",
                    line.len() + part.len(),
                    MAX_LINE,
                ));
            }
            line.extend_from_slice(part);
            let count = part.len();
            self.consume(count);
            if self.received > self.max_bytes {
                return Err(too_large("bytes", self.received, self.max_bytes));
            }
            if end.is_some() {
                line.pop();
                return match line.pop() {
                    Some(b'\r') => Ok(line),
                    _ => Err(malformed()),
                };
            }
        }
    }

    /// Returns the bytes that have arrived, at least one.
    fn arrived(&mut self) -> Result<&[u8], Unread> {
        let bytes = self.stream.fill_buf()?;
        if bytes.is_empty() {
            let text = "the server closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text).into());
        }
        Ok(bytes)
    }

    fn consume(&mut self, count: usize) {
        self.stream.consume(count);
        self.received = self.received.saturating_add(count);
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Result<T, Unread> {
    let text = std::str::from_utf8(text).map_err(|_| malformed())?;
    text.parse().map_err(|_| malformed())
}

fn malformed() -> Unread {
    Unread::Refused("answered with something that is no reply of Redis".into())
}

fn too_large(what: &str, count: usize, max: usize) -> Unread {
    Unread::Refused(format!(
        "answered with {count} {what} or more, of which {max} are read at most"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], max_bytes: usize) -> Result<Value, Unread> {
        let mut stream = BufReader::with_capacity(7, bytes);
        ReplyReader::new(&mut stream, max_bytes).read()
    }

    fn refused(bytes: &[u8]) -> String {
        match read(bytes, 1 << 20) {
            Err(Unread::Refused(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn replies_are_read_as_the_client_library_reads_them() {
        for bytes in [
            &b"+OK\r\n"[..],
            b"+QUEUED\r\n",
            b":-12\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"$0\r\n\r\n",
            b"$5\r\na\r\nb\0\r\n",
            b"-NOAUTH Authentication required.\r\n",
            b"-CUSTOM\r\n",
            b"*3\r\n$3\r\nabc\r\n*2\r\n:1\r\n+x\r\n-ERR no\r\n",
        ] {
            let expected = parse_redis_value(bytes).unwrap();
            assert_eq!(read(bytes, 1 << 20).unwrap(), expected);
        }
    }

    #[test]
    fn replies_over_a_limit_are_refused_at_their_header() {
        for (bytes, words) in [
            ("$4000000000\r\n".to_owned(), "bytes"),
            ("*4000000000\r\n".to_owned(), "values"),
            ("*200000\r\n*200000\r\n".to_owned(), "values"),
            ("*1\r\n".repeat(9), "levels"),
            ("x".repeat(70_000).replacen('x', "+", 1), "a line"),
            (
                "*262144\r\n".to_owned() + &"+aa\r\n".repeat(262_144),
                "bytes",
            ),
        ] {
            let text = refused(bytes.as_bytes());
            assert!(text.contains(words) && text.contains("at most"), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_replies_are_refused() {
        for bytes in [
            "HTTP/1.1 400\r\n",
            "\r\n",
            ":x\r\n",
            "$-2\r\n",
            "+a\n",
            "$1\r\nab\r\n",
            "%1\r\n",
        ] {
            assert!(refused(bytes.as_bytes()).contains("no reply"), "{bytes}");
        }
    }

    #[test]
    fn replies_that_end_early_are_lost() {
        for bytes in ["", "+O", "$5\r\nab", "*2\r\n:1\r\n"] {
            let outcome = read(bytes.as_bytes(), 1 << 20);
            assert!(matches!(outcome, Err(Unread::Lost(_))), "{outcome:?}");
        }
    }

    #[test]
    fn fuzzed_replies_are_read_without_panic() {
        let parts: [&[u8]; 14] = [
            b"+OK\r\n",
            b"-ERR a\r\n",
            b":1\r\n",
            b":-9",
            b"$3\r\nabc\r\n",
            b"$-1\r\n",
            b"*2\r\n",
            b"*999999999\r\n",
            b"$999999999\r\n",
            b"*1\r\n",
            b"\r\n",
            b"\n",
            b"a",
            b"\xff",
        ];
        crate::util::fuzz::fuzz("reply of Redis", 300, 1 << 20, |rng| {
            let mut bytes = Vec::new();
            for _ in 0..rng.usize(..2_000) {
                bytes.extend_from_slice(parts[rng.usize(..parts.len())]);
            }
            std::hint::black_box(read(&bytes, 1 << rng.u32(..20)).is_ok());
            bytes.len()
        });
    }
}
