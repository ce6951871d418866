//! [`Secret`], a string that is redacted in all output.

use std::fmt;
use std::sync::Arc;

use super::known;

/// The replacement text for a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// A key, token or password. `Debug` and `Display` print `[redacted]`; only
/// [`expose`](Secret::expose) gives the text. Clones share it.
///
/// # Redaction
///
/// As long as a secret of at least twelve bytes is alive, this crate replaces it by `[redacted]`:
///
/// | where | which spellings |
/// |---|---|
/// | [errors](crate::Error): text, context, sources, request id | all |
/// | logs, spans and events of traces, warnings | all |
/// | results, progress, details and questions of tools | all |
/// | responses of models: text, thinking, arguments of calls, ids | exact |
///
/// All spellings are: the text itself; base64 in both alphabets, wherever in a longer text the
/// secret begins, with line breaks or without; hexadecimal; percent-encoding of any of its bytes
/// and the escapes of JSON, up to three times.
///
/// Responses are redacted before hooks, readers, tools and stores receive them, even if the pieces
/// of a stream split the secret. If the first one to three bytes of a secret end a piece, these
/// bytes stay. The texts of one result are searched as one text, because readers join them.
/// Responses and results are redacted again after hooks have changed them. A tool that the model
/// calls with a secret receives `[redacted]`. A block that must go back to its provider unchanged,
/// such as signed thinking, is never edited: the call fails with
/// [`ErrorKind::SecretInAnswer`](crate::ErrorKind::SecretInAnswer).
///
/// The keys, header values and passwords in addresses that providers, tools and stores of this
/// crate are given are secrets; create a `Secret` for any other secret that a run may encounter,
/// and do not drop it. Those in the address of a tool that a user of a server registers are
/// redacted only in the results and errors of this tool. A user with a password in an HTTP address,
/// and in the variables `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`, is a secret as well, also in
/// the base64 of `Basic` authentication.
///
/// Because commands can read the environment of the process, the values of up to 256 variables are
/// secrets as well. A value is a secret if all of these are true:
///
/// * The variable's name is `API_KEY`, `APIKEY`, `ACCESS_KEY`, `SECRET_KEY`, `SECRET` or `TOKEN`,
///   in upper or lower case, or ends with `_` and one of them.
/// * The value has 16 bytes to 16 KiB without the white space around it, and at least 6 different
///   bytes.
/// * The value is no path and no address.
///
/// The environment is read once, when the first text is redacted.
///
/// These are not redacted:
///
/// * the values of other variables;
/// * shorter secrets, except in the errors of the endpoint that they belong to and, for those of a
///   proxy, of endpoints;
/// * placeholders such as `ollama` or `not-needed`;
/// * a part of a secret, unless a limit of this crate cut it off;
/// * compressed, encrypted and otherwise spelled secrets;
/// * secrets in images and documents;
/// * secrets in messages of the user, which are sent and stored unchanged.
///
/// ```
/// let key = agentcore::Secret::new("sk-1234567890");
/// assert_eq!(format!("{key:?} {key}"), "[redacted] [redacted]");
/// assert_eq!(key.expose(), "sk-1234567890");
///
/// let error = agentcore::Error::from("the key sk-1234567890 was refused");
/// assert_eq!(error.to_string(), "the key [redacted] was refused");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<RegisteredText>);

/// The text of a secret, registered for redaction until this is dropped.
#[derive(PartialEq, Eq)]
struct RegisteredText(Arc<str>);

impl RegisteredText {
    fn new(text: Arc<str>) -> Self {
        known::add(&text);
        Self(text)
    }
}

impl Drop for RegisteredText {
    fn drop(&mut self) {
        known::remove(&self.0);
    }
}

impl Secret {
    /// Registers a secret.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(RegisteredText::new(text.into())))
    }

    /// Returns the secret itself. Keep the result out of logs and messages.
    pub fn expose(&self) -> &str {
        &self.0.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}
