//! The data that every model over HTTP has.

use std::sync::Arc;

use crate::model::{Catalog, ModelProfile, ModelRequest};
use crate::util::Secret;

use super::http::Endpoint;

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

    /// Sets the provider's name in the id and in error texts.
    pub(super) fn provider(mut self, name: &str) -> Self {
        self.id = format!("{name}:{}", self.model).into();
        self.endpoint = self.endpoint.named(name);
        self
    }

    /// Sends `key` in `header`, behind `prefix`: `Bearer ` in `authorization`, or nothing.
    pub(super) fn key(mut self, header: &str, prefix: &str, key: &Secret) -> Self {
        self.endpoint = self.endpoint.secret_header(header, prefix, key);
        self
    }

    /// The output limit of a request: its own, or the profile's if that is sent.
    pub(super) fn max_output_tokens(&self, request: &ModelRequest) -> Option<u32> {
        let default = self.limits_output.then_some(self.profile.max_output_tokens);
        request.max_output_tokens.or(default)
    }
}
