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

const AUTHORIZATION: &str = "authorization";
const BEARER: &str = "Bearer ";

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
    /// The header of the key; `None` for a bearer token.
    key_header: Option<Arc<str>>,
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
            key_header: None,
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
        host(self.endpoint.base()).eq_ignore_ascii_case(OPENAI_HOST)
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

    /// Sends `key` as a bearer token, or in the header that was set for it.
    pub(super) fn bearer(self, key: &Secret) -> Self {
        match self.key_header.clone() {
            Some(header) => self.key(&header, "", key),
            None => self.key(AUTHORIZATION, BEARER, key),
        }
    }

    /// Sets the header of the key, in place of a bearer token. A key that was set before moves there.
    pub(super) fn key_header(mut self, name: &str) -> Self {
        let old = self.key_header.replace(name.into());
        let value = match &old {
            Some(header) => self.endpoint.header_value(header),
            None => self
                .endpoint
                .header_value(AUTHORIZATION)
                .and_then(|value| value.strip_prefix(BEARER)),
        };
        let Some(key) = value.map(Secret::from) else {
            return self;
        };

        let endpoint = self.endpoint;
        self.endpoint = endpoint.without_header(old.as_deref().unwrap_or(AUTHORIZATION));
        self.bearer(&key)
    }

    /// The output limit of a request: its own, or the profile's if that is sent.
    pub(super) fn max_output_tokens(&self, request: &ModelRequest) -> Option<u32> {
        let default = self.limits_output.then_some(self.profile.max_output_tokens);
        request.max_output_tokens.or(default)
    }
}

/// The host in an address, without user and port.
pub(super) fn host(base_url: &str) -> &str {
    let address = base_url
        .split_once("://")
        .map_or(base_url, |(_, address)| address);
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default()
}
