//! The builder methods that all models over HTTP have.

/// Implements the methods for a type with a field `connection`.
macro_rules! connection_methods {
    ($model:ident) => {
        impl $model {
            /// Sets a header of every request, in place of one with the same name.
            #[must_use]
            pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
                let endpoint = self.connection.endpoint;
                self.connection.endpoint = endpoint.header(name.as_ref(), value.as_ref());
                self
            }

            /// Sets the limit for making a connection. Defaults to 10 seconds.
            #[must_use]
            pub fn connect_timeout(mut self, timeout: std::time::Duration) -> Self {
                self.connection.endpoint = self.connection.endpoint.connect_timeout(timeout);
                self
            }

            /// Sets the limit for the time in which no byte arrives. Defaults to 300 seconds, since
            /// a server may load a model first, and some models think for minutes. The time of the
            /// whole answer has no limit.
            #[must_use]
            pub fn idle_timeout(mut self, timeout: std::time::Duration) -> Self {
                self.connection.endpoint = self.connection.endpoint.idle_timeout(timeout);
                self
            }

            /// Sets limits, prices and abilities in place of those in the built-in table. The
            /// output limit is then sent with every request that sets none; the context window is
            /// not sent.
            #[must_use]
            pub fn with_profile(mut self, profile: crate::model::ModelProfile) -> Self {
                self.connection.profile = profile;
                self.connection.limits_output = true;
                self
            }

            /// Sets the context window that the server really has, in tokens. It is not sent;
            /// histories are shortened for it, and no answer is taken to be longer.
            #[must_use]
            pub fn context_window(mut self, tokens: u64) -> Self {
                self.connection.profile = self.connection.profile.within(tokens);
                self
            }

            /// Sets the limit for the tokens of one answer, for requests that set none.
            #[must_use]
            pub fn max_output_tokens(mut self, max_tokens: u32) -> Self {
                self.connection.profile.max_output_tokens = max_tokens;
                self.connection.limits_output = true;
                self
            }
        }
    };
}

pub(super) use connection_methods;
