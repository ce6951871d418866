//! A request as the server received it.

use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;

/// One request as it arrived.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received {
    /// The method, such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The number of the connection it arrived on, from 0.
    pub connection: usize,
}

impl Received {
    /// Returns the first header with this name. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; `null` when it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Takes one whole request off the front of `buffer`, if it is complete.
    pub(super) fn take(buffer: &mut BytesMut, connection: usize) -> Option<Self> {
        let head_len = memchr::memmem::find(buffer, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&buffer[..head_len]).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ').map(str::to_owned);
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut request = Self {
            method: first.next()?,
            path: first.next()?,
            headers,
            body: Bytes::new(),
            connection,
        };

        let remaining = &buffer[head_len..];
        let (body, wire_len) = if request.header("transfer-encoding") == Some("chunked") {
            dechunk(remaining)?
        } else {
            let len = match request.header("content-length") {
                Some(len) => len.parse().ok()?,
                None => 0,
            };

            (Bytes::copy_from_slice(remaining.get(..len)?), len)
        };

        request.body = body;
        buffer.advance(head_len + wire_len);
        Some(request)
    }
}

/// Returns the body of a chunked request and its length on the wire, once it is complete.
fn dechunk(wire: &[u8]) -> Option<(Bytes, usize)> {
    let mut body = BytesMut::new();
    let mut offset = 0;
    loop {
        let line = memchr::memmem::find(&wire[offset..], b"\r\n")?;
        let size = std::str::from_utf8(&wire[offset..offset + line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        offset += line + 2;
        body.extend_from_slice(wire.get(offset..offset.checked_add(size)?)?);
        offset += size + 2;
        if wire.len() < offset {
            return None;
        }

        if size == 0 {
            return Some((body.freeze(), offset));
        }
    }
}
