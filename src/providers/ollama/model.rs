//! [`Ollama`], a model called through Ollama's chat API.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use serde_json::json;

use crate::error::Result;
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};
use crate::util::Secret;

use super::super::builder::{bearer_methods, connection_methods};
use super::super::connection::Connection;
use super::super::decode::{EventOptions, Framing, recorded};
use super::super::encode::EncodedCalls;
use super::super::env;
use super::super::hosted::left_out_warning;
use super::super::media::{Target, check};
use super::super::send::{ProviderRequest, send_request};
use super::super::window;
use super::PROVIDER;
use super::body::{Options, body};
use super::decode::ChatDecoder;
use super::messages::takes;
use super::think::remedy;

/// The address of Ollama without `OLLAMA_HOST`.
const BASE_URL: &str = "http://127.0.0.1:11434";
const PATH: &str = "/api/chat";

/// Ollama's port, for a host that is given without one.
const PORT: u16 = 11434;

/// The context length with which a server loads a model by default, in tokens.
const DEFAULT_CONTEXT: u64 = 4_096;

/// A model called through Ollama's own API (`POST {base}/api/chat`), always streamed.
///
/// Ollama silently cuts a prompt that is longer than its context length. That length is 4,096
/// tokens by default, as in the profile; [`num_ctx`](Self::num_ctx) changes both.
///
/// `keep_alive` and other fields belong in the request's `extra`, whose `options` are merged with
/// the options of the request. Cheap to clone.
///
/// # Calls
///
/// Servers that send no ids of calls get generated ids, the same ones for the same answer. Ids are
/// sent back with calls and results; the results are in the order of the calls, for servers that
/// ignore ids. A tool cannot be forced.
///
/// # Thinking
///
/// A model thinks as [`ThinkingMode`](crate::model::ThinkingMode) sets:
///
/// * The efforts `low`, `medium`, `high` and `max` are levels; `minimal` is `low`, and `xhigh` is
///   `max`.
/// * The effort `none` disables thinking.
/// * Any other effort is a [`Config`](crate::ErrorKind::Config) error.
/// * A model without levels thinks without one, with a warning.
///
/// # Examples
///
/// ```
/// use agentcore::Model;
/// use agentcore::providers::Ollama;
///
/// let model = Ollama::new("llama3.1:8b").num_ctx(32_768);
/// assert_eq!(model.id(), "ollama:llama3.1:8b");
/// assert_eq!(model.profile().context_window, 32_768);
/// ```
#[derive(Clone, Debug)]
pub struct Ollama {
    connection: Connection,
    num_ctx: Option<u64>,
}

impl Ollama {
    /// Creates the model of this name, on the server in `OLLAMA_HOST` or else on this machine.
    ///
    /// `OLLAMA_HOST` may be a URL, `host:port` or a host. Requests to `0.0.0.0`, on which a server
    /// listens, are sent to `127.0.0.1`.
    pub fn new(model: impl Into<Arc<str>>) -> Self {
        let base = match env::var("OLLAMA_HOST") {
            Some(host) => address(&host),
            None => BASE_URL.to_owned(),
        };

        let mut connection = Connection::new(PROVIDER, model.into(), &base, PATH);
        connection.profile = ModelProfile::assumed(&connection.model)
            .with_context_window(DEFAULT_CONTEXT)
            .with_max_output_tokens(DEFAULT_CONTEXT as u32 / 2);
        Self {
            connection,
            num_ctx: None,
        }
    }

    /// Sets the server: a URL, `host:port` or a host. A wrong one is a
    /// [`Config`](crate::ErrorKind::Config) error of the first request.
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Self {
        self.connection = self.connection.base_url(&address(url.as_ref()));
        self
    }

    /// Sets the context length, in tokens, in every request and in the profile. Unlike this,
    /// [`context_window`](Self::context_window) changes the profile only, for a server that was
    /// started with another length; [`read_context_window`](Self::read_context_window) asks the
    /// server for it.
    #[must_use]
    pub fn num_ctx(mut self, tokens: u64) -> Self {
        self.num_ctx = Some(tokens);
        self.connection.profile.context_window = tokens;
        self
    }
}

connection_methods!(Ollama);
bearer_methods!(Ollama);

impl Ollama {
    /// Requests the context window of the model from the server, in tokens. Returns `None` if the
    /// server reports none.
    ///
    /// * Without [`num_ctx`](Self::num_ctx), the window of a loaded model is reported (`/api/ps`).
    /// * Otherwise, this is the window with which the model will be loaded (`/api/show`):
    ///   `num_ctx`, or else the window in the model file, or else the default of 4,096, and at most
    ///   the model's maximum. A default that was set at the start of the server is not reported.
    ///
    /// Takes at most ten seconds for each of the two requests. Changes nothing: use
    /// [`context_window`](Self::context_window) to set the window.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached, does not answer in time, or refuses the
    /// key.
    pub async fn read_context_window(&self) -> Result<Option<u64>> {
        let Connection {
            endpoint, model, ..
        } = &self.connection;
        let base = endpoint.base();
        if self.num_ctx.is_none() {
            let loaded = endpoint.look_up(&format!("{base}/api/ps"), None).await?;
            let loaded = loaded.and_then(|loaded| window::of_loaded(&loaded, model));
            if loaded.is_some() {
                return Ok(loaded);
            }
        }

        let body = json!({"model": &**model}).to_string();
        let address = format!("{base}/api/show");
        let description = endpoint.look_up(&address, Some(body.into())).await?;
        Ok(description
            .and_then(|description| window::of_shown(&description, self.num_ctx, DEFAULT_CONTEXT)))
    }
}

/// Returns the URL for a URL, `host:port` or a host.
fn address(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = match host.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("http", host),
    };

    let rest = match rest.strip_prefix("0.0.0.0") {
        Some(port) => format!("127.0.0.1{port}"),
        None => rest.to_owned(),
    };

    // A bare host gets Ollama's port, a URL the port of its scheme.
    let has_port = rest
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.contains(']'));
    if host.contains("://") || has_port || rest.contains('/') {
        return format!("{scheme}://{rest}");
    }

    format!("{scheme}://{rest}:{PORT}")
}

impl Model for Ollama {
    fn id(&self) -> &str {
        &self.connection.id
    }

    fn profile(&self) -> &ModelProfile {
        &self.connection.profile
    }

    // Written by hand, so that the future does not hold the request.
    fn stream<'a: 'b, 'b>(&'a self, request: ModelRequest) -> BoxFuture<'b, Result<ModelStream>>
    where
        Self: 'b,
    {
        let options = Options {
            model: &self.connection.model,
            kept_body: &self.connection.kept_body,
            num_ctx: self.num_ctx,
            takes_images: self.connection.takes_images(&request),
            max_output_tokens: self.connection.max_output_tokens(&request),
        };

        let target = Target {
            model: request.model.as_deref().unwrap_or(options.model),
            takes_images: options.takes_images,
            api: "Ollama",
        };
        let media = check(&request, target, takes);
        let encoded = match media.and_then(|()| body(&request, &options)) {
            Ok(encoded) => encoded,
            Err(error) => return Box::pin(ready(Err(error))),
        };

        let provider_request = ProviderRequest {
            endpoint: &self.connection.endpoint,
            body: encoded.body,
            framing: Framing::Lines,
            event_options: EventOptions::of(&request),
            warnings: left_out_warning(&request.hosted_tools, None)
                .into_iter()
                .collect(),
            max_body: usize::MAX,
            remedy: Some(Box::new(remedy)),
        };
        let decoder = |id, secrets| ChatDecoder::new(id, encoded.calls, secrets);
        send_request(provider_request, decoder)
    }
}

/// Returns the events of a recorded answer: the body of an `/api/chat` response, streamed or not,
/// in pieces cut anywhere.
///
/// If `body` may be pending, the stream must be polled inside a tokio runtime.
///
/// ```
/// use agentcore::model::ModelEvent;
/// use agentcore::providers::ollama;
/// use futures::{StreamExt, executor::block_on, stream};
///
/// let recording = concat!(
///     "{\"model\":\"m\",\"message\":{\"content\":\"Hello\"},\"done\":false}\n",
///     "{\"model\":\"m\",\"done\":true,\"done_reason\":\"stop\"}\n",
/// );
/// let body = stream::iter([Ok(recording.into())]);
/// let events: Vec<_> = block_on(ollama::decode(body).collect());
/// assert!(matches!(events[1], Ok(ModelEvent::Text(ref text)) if text == "Hello"));
/// ```
pub fn decode(body: impl Stream<Item = Result<Bytes>> + Send + 'static) -> ModelStream {
    recorded(PROVIDER, Framing::Lines, body, |secrets| {
        ChatDecoder::new(None, EncodedCalls::default(), secrets)
    })
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn every_form_of_a_host_becomes_a_url() {
        for (host, url) in [
            ("localhost", "http://localhost:11434"),
            ("localhost:8080", "http://localhost:8080"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::1]", "http://[::1]:11434"),
            ("[::1]:80", "http://[::1]:80"),
            ("https://ollama.example/", "https://ollama.example"),
            ("http://host:1/prefix", "http://host:1/prefix"),
        ] {
            assert_eq!(address(host), url);
        }
    }
}
