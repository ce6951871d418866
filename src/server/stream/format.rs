//! The choice of a stream's format.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// A format of a run's stream.
///
/// ```
/// use agentcore::server::StreamFormat;
///
/// let accept = Some("text/event-stream;format=ag-ui");
/// assert_eq!(StreamFormat::choose(None, accept)?, StreamFormat::AgUi);
/// assert_eq!(StreamFormat::choose(Some("sdk"), accept)?, StreamFormat::Sdk);
/// assert_eq!(StreamFormat::choose(None, Some("*/*"))?, StreamFormat::Events);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamFormat {
    /// [`StreamEvent`](crate::StreamEvent)s as server-sent events, including those of subagents.
    #[default]
    Events,
    /// The [`SdkMessage`](crate::SdkMessage)s as server-sent events.
    Sdk,
    /// The [`SdkMessage`](crate::SdkMessage)s as lines of JSON. Unlike server-sent events, they
    /// have no comments that keep an idle stream open.
    Ndjson,
    /// The events of AG-UI 1.0.
    AgUi,
    /// The chunks of the AI SDK's UI message stream.
    AiSdk,
}

impl StreamFormat {
    /// Chooses a format from the `format` of the query, or else from the `Accept` header: the
    /// `format` parameter of `text/event-stream`, or `application/x-ndjson`. Defaults to
    /// [`Events`](Self::Events).
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRequest`](ErrorKind::InvalidRequest) if the requested format does not
    /// exist.
    pub fn choose(query: Option<&str>, accept: Option<&str>) -> Result<Self> {
        if let Some(name) = query {
            return name.parse();
        }

        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            match parts.next().map(str::to_ascii_lowercase).as_deref() {
                Some("application/x-ndjson") => return Ok(Self::Ndjson),
                Some("text/event-stream") => {
                    let format = parts.find_map(|part| part.strip_prefix("format="));
                    return format.map_or(Ok(Self::Events), |name| name.trim_matches('"').parse());
                }
                _ => {}
            }
        }

        Ok(Self::Events)
    }

    /// Returns the name of the format in queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Sdk => "sdk",
            Self::Ndjson => "ndjson",
            Self::AgUi => "ag-ui",
            Self::AiSdk => "ai-sdk",
        }
    }

    /// Returns the `Content-Type` of the response.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            _ => "text/event-stream",
        }
    }

    /// Returns the other headers of the response: those that prevent caches and proxies from
    /// buffering events, and for [`AiSdk`](Self::AiSdk) the header that names the protocol.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        const HEADERS: [(&str, &str); 3] = [
            ("cache-control", "no-cache"),
            ("x-accel-buffering", "no"),
            ("x-vercel-ai-ui-message-stream", "v1"),
        ];
        match self {
            Self::AiSdk => &HEADERS,
            _ => &HEADERS[..2],
        }
    }

    /// Returns `true` if a call that needs approval becomes pending at once, because the format
    /// cannot ask a question while the run waits.
    pub(crate) fn leaves_calls_pending(self) -> bool {
        matches!(self, Self::AgUi | Self::AiSdk)
    }
}

impl fmt::Display for StreamFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StreamFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "events" => Self::Events,
            "sdk" => Self::Sdk,
            "ndjson" => Self::Ndjson,
            "ag-ui" => Self::AgUi,
            "ai-sdk" => Self::AiSdk,
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidRequest,
                    format!("unknown format {other:?}; use events, sdk, ndjson, ag-ui or ai-sdk"),
                ));
            }
        })
    }
}
