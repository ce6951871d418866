//! [`Gemini`], a model called through the Gemini API.

use std::borrow::Cow;
use std::future::ready;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Model, ModelProfile, ModelRequest, ModelStream};
use crate::util::Secret;

use super::super::builder::connection_methods;
use super::super::connection::Connection;
use super::super::decode::{EventOptions, Framing};
use super::super::encode::Encoded;
use super::super::env;
use super::super::gemini_family::family_of;
use super::super::http::{Endpoint, is_path_segment};
use super::super::media::{Target, check};
use super::super::send::{ProviderRequest, send_request};
use super::body::{Options, body};
use super::chunks::PROVIDER;
use super::contents::Backend;
use super::decode::ChunkDecoder;
use super::remedy::remedy;

const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1";

/// The locations of Vertex AI that are more than one region.
const MULTI_REGIONS: &[&str] = &["us", "eu"];

/// The maximum length of a body, in bytes.
const MAX_BODY: usize = 20 * 1024 * 1024;

/// The fields of a body from which Vertex AI counts its tokens.
const COUNTED_FIELDS: &[&str] = &["contents", "systemInstruction", "tools", "generationConfig"];

/// A model called through the Gemini API (`POST {base}/models/{model}:streamGenerateContent`),
/// always streamed: on Google's own server for it, or on Vertex AI.
///
/// A seed has 31 bits. `parallel_tool_calls` has no counterpart. A field of the request's `extra`
/// replaces the field of the body, and `null` removes it; the fields of `generationConfig` are
/// replaced one by one. Cheap to clone.
///
/// # Thinking
///
/// * From Gemini 3 on, [`ThinkingMode::Effort`](crate::model::ThinkingMode::Effort) becomes the
///   thinking level; for earlier models, it becomes a budget.
/// * A mode that a model does not have is an error.
///
/// Thoughts and signatures of earlier answers are sent back to the server that gave them. Calls of
/// other models, and of the other server, get the documented placeholder. If the server refuses a
/// signature, the request is sent once more without the old signatures, with a warning.
///
/// # Examples
///
/// ```
/// use agentcore::Model;
/// use agentcore::providers::Gemini;
///
/// let model = Gemini::new("gemini-3.8-flash", "key");
/// assert_eq!(model.id(), "gemini:gemini-3.8-flash");
/// let vertex = Gemini::vertex("gemini-3.8-flash", "my-project", "global", "token");
/// assert_eq!(vertex.id(), "google-vertex:gemini-3.8-flash");
/// ```
#[derive(Clone, Debug)]
pub struct Gemini {
    connection: Connection,
    backend: Backend,
}

connection_methods!(Gemini);

impl Gemini {
    /// Creates the model of this name, with this API key.
    pub fn new(model: impl Into<Arc<str>>, key: impl Into<Secret>) -> Self {
        let connection = new_connection(PROVIDER, &model.into(), BASE_URL);
        Self {
            connection: connection.key("x-goog-api-key", "", &key.into()),
            backend: Backend::GeminiApi,
        }
    }

    /// Creates the model of this name on Vertex AI: of a project, at a location such as `global` or
    /// `europe-west4`. The token is an OAuth access token; it is not renewed.
    pub fn vertex(
        model: impl Into<Arc<str>>,
        project: impl AsRef<str>,
        location: impl AsRef<str>,
        token: impl Into<Secret>,
    ) -> Self {
        let (project, location) = (project.as_ref(), location.as_ref());
        let base_url = vertex_url(project, location);
        let mut connection = new_connection(Backend::Vertex.provider(), &model.into(), &base_url);
        if !is_path_segment(location) || !project.split(':').all(is_path_segment) {
            let text = format!("{project:?} and {location:?} are no project and location");
            connection.endpoint = connection.endpoint.with_mistake(text);
        }

        Self {
            connection: connection.bearer(&token.into()),
            backend: Backend::Vertex,
        }
    }

    /// Creates the model of this name, with the key in `GEMINI_API_KEY`, or else `GOOGLE_API_KEY`,
    /// and the address in `GEMINI_BASE_URL`, if it is set: scheme, host and version, such as
    /// `https://generativelanguage.googleapis.com/v1beta`.
    ///
    /// # Errors
    ///
    /// Returns [`Auth`](crate::ErrorKind::Auth) if there is no key, and
    /// [`Config`](crate::ErrorKind::Config) if the address or the name cannot be used.
    pub fn from_env(model: impl Into<Arc<str>>) -> Result<Self> {
        let key = match env::var("GOOGLE_API_KEY") {
            Some(key) if env::var("GEMINI_API_KEY").is_none() => key.into(),
            _ => env::key(PROVIDER, "GEMINI_API_KEY")?,
        };
        let mut model = Self::new(model, key);
        if let Some(url) = env::var("GEMINI_BASE_URL") {
            model = model.base_url(url);
        }

        model.connection.endpoint.check()?;
        Ok(model)
    }

    /// Sets the address in front of `/models`, with the version of the API. A wrong one is a
    /// [`Config`](crate::ErrorKind::Config) error of the first request.
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Self {
        self.connection = self.connection.base_url(url.as_ref());
        self
    }

    /// Returns the name of the model that a request is for.
    fn name<'a>(&'a self, request: &'a ModelRequest) -> &'a str {
        match request.model.as_deref() {
            Some(name) => name.strip_prefix("models/").unwrap_or(name),
            None => &self.connection.model,
        }
    }

    /// Returns the place to which requests for the model of this name go.
    fn endpoint(&self, name: &str) -> Result<Cow<'_, Endpoint>> {
        let endpoint = &self.connection.endpoint;
        if *name == *self.connection.model {
            return Ok(Cow::Borrowed(endpoint));
        }

        let path = path_of(name).map_err(|text| Error::new(ErrorKind::Config, text))?;
        Ok(Cow::Owned(endpoint.clone().path(path)))
    }

    fn encode(&self, request: &ModelRequest) -> Result<(Encoded, Vec<String>)> {
        let takes = |part: &_| self.backend.takes(part);
        let name = self.name(request);
        let takes_images = self.connection.takes_images(request);
        let target = Target {
            model: name,
            takes_images,
            api: "the Gemini API",
        };
        check(request, target, takes)?;
        let options = Options {
            model: name,
            kept_body: &self.connection.kept_body,
            family: family_of(name),
            backend: self.backend,
            takes_images,
            max_output_tokens: self.connection.max_output_tokens(request),
        };
        body(request, &options)
    }

    /// Returns the number of tokens of `request`, as the server counts them.
    async fn count(&self, request: ModelRequest) -> Result<Option<u64>> {
        let name = self.name(&request).to_owned();
        let (encoded, _) = self.encode(&request)?;
        drop(request);
        let mut fields: Map<String, Value> = serde_json::from_slice(&encoded.body)?;
        let fields = match self.backend {
            Backend::GeminiApi => {
                fields.insert("model".to_owned(), format!("models/{name}").into());
                json!({"generateContentRequest": fields})
            }
            Backend::Vertex => {
                fields.retain(|name, _| COUNTED_FIELDS.contains(&&**name));
                Value::from(fields)
            }
        };

        let endpoint = self.endpoint(&name)?;
        let url = format!("{}/models/{name}:countTokens", endpoint.base());
        let body = serde_json::to_vec(&fields)?;
        let count = endpoint.ask_json(&url, body.into()).await?;
        Ok(count.and_then(|count| count.get("totalTokens")?.as_u64()))
    }
}

/// Returns the connection to a model. A name that cannot be part of an address is an error of the
/// first request.
fn new_connection(provider: &str, model: &str, base_url: &str) -> Connection {
    let name = model.strip_prefix("models/").unwrap_or(model);
    let (path, mistake) = match path_of(name) {
        Ok(path) => (path, None),
        Err(text) => (String::new(), Some(text)),
    };

    let mut connection = Connection::new(provider, name.into(), base_url, &path);
    connection.endpoint = connection.endpoint.query("alt", "sse");
    if let Some(text) = mistake {
        connection.endpoint = connection.endpoint.with_mistake(text);
    }

    connection
}

/// Returns the path of requests to the model of this name, or the mistake in it.
fn path_of(name: &str) -> Result<String, String> {
    if is_path_segment(name) {
        return Ok(format!("/models/{name}:streamGenerateContent"));
    }
    Err(format!(
        "{name:?} is no name of a model; it has letters, digits, `.`, `_` and `-`"
    ))
}

/// Returns the address in front of `/models` on Vertex AI.
fn vertex_url(project: &str, location: &str) -> String {
    let host = match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        location if MULTI_REGIONS.contains(&location) => {
            format!("aiplatform.{location}.rep.googleapis.com")
        }
        location => format!("{location}-aiplatform.googleapis.com"),
    };
    format!("https://{host}/v1beta1/projects/{project}/locations/{location}/publishers/google")
}

impl Model for Gemini {
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
        let endpoint = self.endpoint(self.name(&request));
        let prepared = endpoint.and_then(|endpoint| Ok((endpoint, self.encode(&request)?)));
        let (endpoint, (encoded, warnings)) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Box::pin(ready(Err(error))),
        };

        let event_options = EventOptions::of(&request);
        drop(request);
        let tag: Arc<str> = self.backend.tag().into();
        Box::pin(async move {
            let Encoded {
                body,
                calls: encoded_calls,
                reasoning,
                ..
            } = encoded;
            let provider_request = ProviderRequest {
                endpoint: &endpoint,
                body,
                framing: Framing::Sse,
                event_options,
                warnings,
                max_body: MAX_BODY,
                remedy: Some(Box::new(move |error, body| remedy(error, body, &reasoning))),
            };
            let decoder = |id, secrets| ChunkDecoder::new(tag, id, encoded_calls, secrets);
            send_request(provider_request, decoder).await
        })
    }

    fn count_tokens<'a: 'b, 'b>(
        &'a self,
        request: ModelRequest,
    ) -> BoxFuture<'b, Result<Option<u64>>>
    where
        Self: 'b,
    {
        Box::pin(self.count(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Catalog;

    #[test]
    fn prices_are_found_by_the_id() {
        for model in [
            Gemini::new("gemini-3.8-flash", "key"),
            Gemini::vertex("gemini-3.8-flash", "p", "global", "token"),
        ] {
            let profile = Catalog::builtin().lookup(model.id());
            assert!(profile.is_some_and(|profile| profile.prices.is_some()));
            assert!(model.profile().prices.is_some());
        }
    }

    #[test]
    fn address_of_vertex_follows_the_location() {
        for (location, host) in [
            ("global", "aiplatform.googleapis.com"),
            ("eu", "aiplatform.eu.rep.googleapis.com"),
            ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ] {
            let expected = format!(
                "https://{host}/v1beta1/projects/p-1/locations/{location}/publishers/google"
            );
            assert_eq!(vertex_url("p-1", location), expected);
            let model = Gemini::vertex("gemini-3.8-flash", "p-1", location, "token");
            assert_eq!(model.connection.endpoint.base(), expected);
            model.connection.endpoint.check().unwrap();
        }
    }

    #[test]
    fn names_that_change_the_address_are_mistakes() {
        for (name, project, location) in [
            ("a/b", "p", "global"),
            ("..", "p", "global"),
            ("", "p", "global"),
            ("m?key=1", "p", "global"),
            ("m", "p/../q", "global"),
            ("m", "", "global"),
            ("m", "p", "evil.example/x#"),
        ] {
            let model = Gemini::vertex(name, project, location, "token");
            let error = model.connection.endpoint.check().unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Config,
                "{name} {project} {location}"
            );
        }
        let model = Gemini::vertex("models/m", "example.com:p", "global", "token");
        model.connection.endpoint.check().unwrap();
        assert_eq!(&*model.connection.model, "m");
    }
}
