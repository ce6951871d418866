//! The data that every model over HTTP has.

use std::sync::Arc;

use crate::error::Result;
use crate::model::{Catalog, ModelProfile, ModelRequest};
use crate::util::Secret;

use super::env;
use super::http::Endpoint;

/// The host of OpenAI's own server.
const OPENAI_HOST: &str = "api.openai.com";
const OPENAI_URL: &str = "https://api.openai.com/v1";

/// A model's name, profile and server.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The name with the provider's in front: `provider:model`.
    pub(super) id: Arc<str>,
    pub(super) model: Arc<str>,
    pub(super) profile: ModelProfile,
    /// True if the profile's output limit is sent with requests that set none.
    pub(super) limits_output: bool,
    pub(super) endpoint: Endpoint,
}

impl Connection {
    /// Creates the connection to a model of `provider`, with the profile of the built-in table.
    /// Requests go to `path` below the base URL.
    pub(super) fn new(provider: &str, model: Arc<str>, base_url: &str, path: &str) -> Self {
        Self {
            id: format!("{provider}:{model}").into(),
            profile: Catalog::builtin().lookup(&model).unwrap_or_default(),
            model,
            limits_output: false,
            endpoint: Endpoint::new(provider, base_url, path),
        }
    }

    /// Creates the connection to a model behind one of OpenAI's APIs: at this address, or at OpenAI's
    /// own server.
    pub(super) fn to_openai(base_url: Option<&str>, model: Arc<str>, path: &str) -> Self {
        let mut connection = Self::new("openai", model, base_url.unwrap_or(OPENAI_URL), path);
        connection.limits_output = connection.is_openai();
        connection
    }

    /// Creates the connection with the key and the address in the environment. Only OpenAI's own
    /// server needs a key.
    pub(super) fn to_openai_from_env(model: Arc<str>, path: &str) -> Result<Self> {
        let base_url = env::var("OPENAI_BASE_URL");
        let mut connection = Self::to_openai(base_url.as_deref(), model, path);
        if connection.is_openai() || env::var("OPENAI_API_KEY").is_some() {
            connection = connection.bearer(&env::key("openai", "OPENAI_API_KEY")?);
        }

        connection.endpoint.check()?;
        Ok(connection)
    }

    /// True for OpenAI's own server.
    pub(super) fn is_openai(&self) -> bool {
        let base = self.endpoint.base();
        let address = base.split_once("://").map_or(base, |(_, address)| address);
        address.split(['/', ':', '?', '#']).next() == Some(OPENAI_HOST)
    }

    /// Sets the address in front of the path.
    pub(super) fn base_url(mut self, url: &str) -> Self {
        self.endpoint = self.endpoint.base_url(url);
        self
    }

    /// Sets the provider's name in the id and in error texts.
    pub(super) fn provider(mut self, name: &str) -> Self {
        self.id = format!("{name}:{}", self.model).into();
        self.endpoint = self.endpoint.named(name);
        // Limits and prices that were set by hand stay.
        let of_model = Catalog::builtin().lookup(&self.model).unwrap_or_default();
        if self.profile == of_model {
            self.profile = Catalog::builtin().lookup(&self.id).unwrap_or(of_model);
        }
        self
    }

    /// Sends `key` in `header`, behind `prefix`: `Bearer ` in `authorization`, or nothing.
    pub(super) fn key(mut self, header: &str, prefix: &str, key: &Secret) -> Self {
        self.endpoint = self.endpoint.secret_header(header, prefix, key);
        self
    }

    /// Sends `key` as a bearer token.
    pub(super) fn bearer(self, key: &Secret) -> Self {
        self.key("authorization", "Bearer ", key)
    }

    /// The output limit of a request: its own, or the profile's if that is sent.
    pub(super) fn max_output_tokens(&self, request: &ModelRequest) -> Option<u32> {
        let default = self.limits_output.then_some(self.profile.max_output_tokens);
        request.max_output_tokens.or(default)
    }
}
