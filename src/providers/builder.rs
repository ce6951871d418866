//! The builder methods that all models over HTTP have.

/// Implements the methods for a type with a field `connection`.
macro_rules! connection_methods {
    ($model:ident) => {
        impl $model {
            /// Sets a header of every request, replacing any with the same name. A name or a value
            /// that is not valid is a [`Config`](crate::ErrorKind::Config) error of the first
            /// request.
            #[must_use]
            pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
                let endpoint = self.connection.endpoint;
                self.connection.endpoint = endpoint.header(name.as_ref(), value.as_ref());
                self
            }

            /// Sets the timeout for connecting. Defaults to 10 seconds.
            #[must_use]
            pub fn connect_timeout(mut self, timeout: std::time::Duration) -> Self {
                self.connection.endpoint = self.connection.endpoint.connect_timeout(timeout);
                self
            }

            /// Sets the timeout for the next byte to arrive. Defaults to 300 seconds, since a
            /// server may load a model first, and some models think for minutes. The time of the
            /// whole answer is not limited.
            #[must_use]
            pub fn idle_timeout(mut self, timeout: std::time::Duration) -> Self {
                self.connection.endpoint = self.connection.endpoint.idle_timeout(timeout);
                self
            }

            /// Sets the limits, prices and capabilities, instead of the values of the built-in
            /// table. The output limit is then sent with every request that sets none; the context
            /// window is not sent.
            #[must_use]
            pub fn with_profile(mut self, profile: crate::model::ModelProfile) -> Self {
                self.connection.profile = profile;
                self.connection = self.connection.with_limit_of_caller();
                self
            }

            /// Sets the actual context window of the server, in tokens. It is not sent: histories
            /// are compacted to fit it, and answers are assumed not to exceed it.
            #[must_use]
            pub fn context_window(mut self, tokens: u64) -> Self {
                self.connection.profile = self.connection.profile.within(tokens);
                self
            }

            /// Sets the maximum number of tokens of one answer, for requests that set none.
            #[must_use]
            pub fn max_output_tokens(mut self, max_tokens: u32) -> Self {
                self.connection.profile.max_output_tokens = max_tokens;
                self.connection = self.connection.with_limit_of_caller();
                self
            }
        }
    };
}

/// Implements `key`, which sends the key as a bearer token, for a type with a field `connection`.
macro_rules! bearer_methods {
    ($model:ident) => {
        impl $model {
            /// Sets the key, which is sent as a bearer token.
            #[must_use]
            pub fn key(mut self, key: impl Into<Secret>) -> Self {
                self.connection = self.connection.with_key(&key.into());
                self
            }
        }
    };
}

/// Implements the constructors and the methods about the server for a type of one of OpenAI's APIs,
/// whose path is `$path`. The type has a field `connection` and the function
/// `with_connection(Connection) -> Self`.
macro_rules! openai_methods {
    ($model:ident, $path:literal) => {
        impl $model {
            /// Creates OpenAI's model of this name, with this key.
            pub fn new(model: impl Into<Arc<str>>, key: impl Into<Secret>) -> Self {
                let connection = Connection::to_openai(None, model.into(), $path);
                Self::with_connection(with_key_form_of_address(connection)).key(key)
            }

            /// Creates the model of this name on a compatible server, without a key. `base_url` is
            #[doc = concat!("the address in front of `", $path, "`.")]
            pub fn compatible(base_url: impl AsRef<str>, model: impl Into<Arc<str>>) -> Self {
                let base_url = Some(base_url.as_ref());
                let connection = Connection::to_openai(base_url, model.into(), $path);
                Self::with_connection(with_key_form_of_address(connection))
            }

            /// Creates the model of this name, with the key in `OPENAI_API_KEY` and the address in
            /// `OPENAI_BASE_URL`, if it is set. Only OpenAI's own server needs a key.
            ///
            /// # Errors
            ///
            /// Returns [`Auth`](crate::ErrorKind::Auth) if there is no key, and
            /// [`Config`](crate::ErrorKind::Config) if the address cannot be used.
            pub fn from_env(model: impl Into<Arc<str>>) -> Result<Self> {
                let connection = Connection::to_openai_from_env(model.into(), $path)?;
                Ok(Self::with_connection(with_key_form_of_address(connection)))
            }

            /// Sets the key. It is sent to Azure in the header `api-key`, and to all others as a
            /// bearer token, unless its form was set, such as by [`bearer`](Self::bearer).
            #[must_use]
            pub fn key(mut self, key: impl Into<Secret>) -> Self {
                self.connection = self.connection.with_key(&key.into());
                self
            }

            /// Sets the key, which is sent as a bearer token to every server. Azure accepts tokens
            /// of Microsoft Entra ID in this form.
            #[must_use]
            pub fn bearer(mut self, token: impl Into<Secret>) -> Self {
                self.connection = self.connection.bearer(&token.into());
                self
            }

            #[doc = concat!("Sets the address in front of `", $path, "`. A wrong one is a")]
            /// [`Config`](crate::ErrorKind::Config) error of the first request.
            #[must_use]
            pub fn base_url(mut self, url: impl AsRef<str>) -> Self {
                let connection = self.connection.base_url(url.as_ref());
                self.connection = with_key_form_of_address(connection).with_limit_of_table();
                self
            }

            /// Checks the address and the headers. Returns a mistake in them as the error.
            pub(in crate::providers) fn check(&self) -> Result<()> {
                self.connection.endpoint.check()
            }
        }
    };
}

pub(super) use {bearer_methods, connection_methods, openai_methods};
