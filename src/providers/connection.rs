//! The connection to the server of a model: names, profile, endpoint and key.

use std::sync::Arc;

use crate::error::Result;
use crate::model::{Catalog, ModelCard, ModelProfile, ModelRequest};
use crate::util::Secret;

use super::encode::KeptBody;
use super::env;
use super::http::Endpoint;

/// The maximum length of a body to OpenAI's own server, in bytes. OpenAI documents 50 MB for all
/// files of a request.
pub(super) const MAX_OPENAI_BODY: usize = 50 * 1024 * 1024;

/// The host of OpenAI's own server.
const OPENAI_HOST: &str = "api.openai.com";
const OPENAI_URL: &str = "https://api.openai.com/v1";

const AUTHORIZATION: &str = "authorization";
const BEARER: &str = "Bearer ";

/// The form in which a key is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyForm {
    Bearer,
    /// The key alone, in this header.
    Header(Arc<str>),
}

impl KeyForm {
    fn header(&self) -> &str {
        match self {
            Self::Bearer => AUTHORIZATION,
            Self::Header(name) => name,
        }
    }

    /// Returns the text before the key.
    fn prefix(&self) -> &'static str {
        match self {
            Self::Bearer => BEARER,
            Self::Header(_) => "",
        }
    }
}

/// The origin of the form of a key. A later variant takes precedence over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyFormOrigin {
    Address,
    Dialect,
    Caller,
}

/// The output limit of requests that set none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputLimit {
    /// The limit of the server.
    Server,
    /// The limit that the built-in table has for the model of the request. `has_own` is true if it
    /// has one for the connection's model.
    Table { has_own: bool },
    /// The limit of the profile, which the caller has set.
    Caller,
}

/// The connection to the server of a model, with the model's name and profile.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The name with the provider's as prefix: `provider:model`.
    pub(super) id: Arc<str>,
    pub(super) model: Arc<str>,
    pub(super) profile: ModelProfile,
    pub(super) endpoint: Endpoint,
    /// The last long body, for the next run with the same history.
    pub(super) kept_body: KeptBody,
    key_form: KeyForm,
    key_form_origin: KeyFormOrigin,
    output_limit: OutputLimit,
}

impl Connection {
    /// Creates the connection to a model of `provider`, with the profile of the built-in table.
    /// Requests go to `path` below the base URL.
    pub(super) fn new(provider: &str, model: Arc<str>, base_url: &str, path: &str) -> Self {
        Self {
            id: format!("{provider}:{model}").into(),
            profile: profile_of(&model),
            model,
            endpoint: Endpoint::new(provider, base_url, path),
            kept_body: KeptBody::default(),
            key_form: KeyForm::Bearer,
            key_form_origin: KeyFormOrigin::Address,
            output_limit: OutputLimit::Server,
        }
    }

    /// Creates the connection to a model called through one of OpenAI's APIs: at this address, or
    /// at OpenAI's own server.
    pub(super) fn to_openai(base_url: Option<&str>, model: Arc<str>, path: &str) -> Self {
        Self::new("openai", model, base_url.unwrap_or(OPENAI_URL), path).with_limit_of_table()
    }

    /// Sends the limits of the built-in table to OpenAI's own server, unless the caller has set a
    /// limit. The limit assumed for other models would cut off the answer of a model that reasons.
    pub(super) fn with_limit_of_table(mut self) -> Self {
        if self.is_openai() && self.output_limit == OutputLimit::Server {
            let has_own = known_output_limit(&self.model).is_some();
            self.output_limit = OutputLimit::Table { has_own };
        }
        self
    }

    /// Sends the output limit of the profile, which the caller has set.
    pub(super) fn with_limit_of_caller(mut self) -> Self {
        self.output_limit = OutputLimit::Caller;
        self
    }

    /// Creates the connection with the key and the address in the environment. Only OpenAI's own
    /// server needs a key.
    pub(super) fn to_openai_from_env(model: Arc<str>, path: &str) -> Result<Self> {
        let base_url = env::var("OPENAI_BASE_URL");
        let mut connection = Self::to_openai(base_url.as_deref(), model, path);
        if connection.is_openai() || env::var("OPENAI_API_KEY").is_some() {
            connection = connection.with_key(&env::key("openai", "OPENAI_API_KEY")?);
        }

        connection.endpoint.check()?;
        Ok(connection)
    }

    /// Returns `true` for OpenAI's own server.
    pub(super) fn is_openai(&self) -> bool {
        host_of(self.endpoint.base()).eq_ignore_ascii_case(OPENAI_HOST)
    }

    /// Sets the address before the path.
    pub(super) fn base_url(mut self, url: &str) -> Self {
        self.endpoint = self.endpoint.base_url(url);
        self
    }

    /// Sets the provider's name in the id and in error texts.
    pub(super) fn provider(mut self, name: &str) -> Self {
        self.id = format!("{name}:{}", self.model).into();
        self.endpoint = self.endpoint.named(name);
        // Limits and prices that were set explicitly stay.
        let of_model = profile_of(&self.model);
        if self.profile == of_model {
            self.profile = Catalog::builtin().lookup(&self.id).unwrap_or(of_model);
        }
        self
    }

    /// Sends `key` in `header`, after `prefix`: `Bearer ` in `authorization`, or nothing.
    pub(super) fn key(mut self, header: &str, prefix: &str, key: &Secret) -> Self {
        self.endpoint = self.endpoint.secret_header(header, prefix, key);
        self
    }

    /// Sends `key` as a bearer token.
    pub(super) fn bearer(self, key: &Secret) -> Self {
        self.with_key_form(KeyForm::Bearer, KeyFormOrigin::Caller)
            .with_key(key)
    }

    /// Sends `key` in the form that was set, by default as a bearer token.
    pub(super) fn with_key(self, key: &Secret) -> Self {
        let form = self.key_form.clone();
        self.key(form.header(), form.prefix(), key)
    }

    /// Sets the header of the key; `None` for a bearer token. A key that was set before moves to
    /// it.
    pub(super) fn with_key_header(self, name: Option<&str>, origin: KeyFormOrigin) -> Self {
        let form = name.map_or(KeyForm::Bearer, |name| KeyForm::Header(name.into()));
        self.with_key_form(form, origin)
    }

    fn with_key_form(mut self, form: KeyForm, origin: KeyFormOrigin) -> Self {
        if origin < self.key_form_origin {
            return self;
        }

        self.key_form_origin = origin;
        let former = std::mem::replace(&mut self.key_form, form);
        if former == self.key_form {
            return self;
        }

        let value = self.endpoint.header_value(former.header());
        let Some(key) = value.and_then(|value| value.strip_prefix(former.prefix())) else {
            return self;
        };

        let key = Secret::from(key);
        self.endpoint = self.endpoint.without_header(former.header());
        self.with_key(&key)
    }

    /// Returns `true` if the model of a request accepts images.
    pub(super) fn takes_images(&self, request: &ModelRequest) -> bool {
        match request.model.as_deref() {
            None => self.profile.images,
            name => ModelCard::of(&self.id, &self.profile, name).profile.images,
        }
    }

    /// Returns the output limit of a request: its own, or the default if there is one.
    pub(super) fn max_output_tokens(&self, request: &ModelRequest) -> Option<u32> {
        let default = || self.default_output_limit(request.model.as_deref());
        request.max_output_tokens.or_else(default)
    }

    /// Returns the output limit of requests that set none, for the model of this name or for the
    /// connection's.
    fn default_output_limit(&self, name: Option<&str>) -> Option<u32> {
        let own = self.profile.max_output_tokens;
        match (self.output_limit, name.filter(|name| *name != &*self.model)) {
            (OutputLimit::Server, _) => None,
            (OutputLimit::Table { .. }, Some(name)) => known_output_limit(name),
            (OutputLimit::Table { has_own }, None) => has_own.then_some(own),
            (OutputLimit::Caller, _) => Some(own),
        }
    }
}

/// Returns the profile of the built-in table, or the assumptions about an unknown model.
fn profile_of(model: &str) -> ModelProfile {
    known_profile(model).unwrap_or_else(|| ModelProfile::assumed(model))
}

/// Returns the profile of the built-in table, which is also found under Bedrock's names of OpenAI's
/// models.
fn known_profile(model: &str) -> Option<ModelProfile> {
    let catalog = Catalog::builtin();
    let profile = catalog.lookup(model);
    profile.or_else(|| catalog.lookup(openai_name(model)))
}

/// Returns the output limit of the built-in table, which is also found under Bedrock's names of
/// OpenAI's models.
fn known_output_limit(model: &str) -> Option<u32> {
    let catalog = Catalog::builtin();
    let limit = catalog.known_output_limit(model);
    limit.or_else(|| catalog.known_output_limit(openai_name(model)))
}

/// Returns OpenAI's name of the model, without the prefix of the vendor: `openai/` at gateways,
/// `openai.` on Bedrock, where a region may precede it.
pub(super) fn openai_name(model: &str) -> &str {
    const REGIONS: &[&str] = &["us.", "eu.", "apac.", "global."];
    let without_region = REGIONS
        .iter()
        .find_map(|region| model.strip_prefix(region))
        .unwrap_or(model);
    let vendors = ["openai/", "openai."];
    let name = vendors
        .iter()
        .find_map(|vendor| without_region.strip_prefix(vendor));
    name.unwrap_or(model)
}

/// Returns the host in an address, without user and port; of an IPv6 address, only `[`.
pub(super) fn host_of(base_url: &str) -> &str {
    let address = base_url
        .split_once("://")
        .map_or(base_url, |(_, address)| address);
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default()
}
