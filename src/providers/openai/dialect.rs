//! The variants of Chat Completions.

use std::fmt;

use super::super::connection::{Connection, KeyFormOrigin, host_of};
use super::rules::{self, HOSTED, Rules, UNKNOWN, WindowReport};

/// The variant of Chat Completions that a server speaks: the names of fields, the ids of calls, the
/// form in which reasoning is sent back, and everything omitted because the server refuses it.
///
/// [`OpenAi`](super::OpenAi) selects it by the address; [`OpenAi::dialect`](super::OpenAi::dialect)
/// sets another one, such as for a server behind a proxy. Reasoning and other blocks of an answer
/// are sent back only to servers of the same dialect, and with the dialect
/// [`compatible`](Self::compatible) only to the server with the same
/// [name](super::OpenAi::provider).
///
/// ```
/// use agentcore::providers::OpenAi;
/// use agentcore::providers::openai::Dialect;
///
/// let model = OpenAi::compatible("http://gateway.internal/v1", "mistral-large-latest")
///     .dialect(Dialect::mistral());
/// assert_eq!(Dialect::of("https://api.mistral.ai/v1"), Dialect::mistral());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dialect(&'static Rules);

/// Implements a constructor for each of the rules.
macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident: $rules:ident;)*) => {
        impl Dialect {
            $(
                $(#[$doc])*
                pub fn $name() -> Self {
                    Self(&rules::$rules)
                }
            )*
        }
    };
}

constructors! {
    /// The variant of OpenAI's own server.
    openai: OPENAI;
    /// The variant of unknown servers. System messages inside a history are sent as text of the
    /// user, since the templates of many models accept none there.
    compatible: UNKNOWN;
    /// The variant of Azure. The key is sent in the header `api-key`, a token of
    /// [`OpenAi::bearer`](super::OpenAi::bearer) as a bearer token. The address ends in
    /// `/openai/v1`, or in `/openai/deployments/NAME`, which needs the query parameter
    /// `api-version`.
    azure: AZURE;
    /// The variant of OpenRouter. Thinking is switched by `reasoning`, and `reasoning_details` are
    /// sent back.
    openrouter: OPENROUTER;
    /// The variant of DeepSeek. Models think unless
    /// [`ThinkingMode::Disabled`](crate::model::ThinkingMode::Disabled) is set, and take no forced
    /// tool while they do; the schema of an answer is sent in words.
    deepseek: DEEPSEEK;
    /// The variant of Mistral. The ids of calls are nine letters or digits, thinking is part of the
    /// content, and an answer `OK.` is inserted between results and a message of the user, because
    /// the server requires an answer there. Documents are sent by their address or, if they are
    /// PDF, as data. Recordings are sent only to models with `voxtral` in their name.
    mistral: MISTRAL;
    /// The variant of Groq. A malformed call of the model is a
    /// [`Server`](crate::ErrorKind::Server) error with the model's text, and runs retry it.
    groq: GROQ;
    /// The variant of xAI. Stop sequences are refused, and a piece of reasoning that repeats the
    /// previous piece is omitted.
    xai: XAI;
    /// The variant of Gemini through Google's own form of the API
    /// (`https://generativelanguage.googleapis.com/v1beta/openai`). Signatures of calls and texts
    /// are sent back; calls of other models have a placeholder.
    gemini: GEMINI;
    /// The variant of Amazon Bedrock. `seed` and `top_k` are not sent.
    bedrock: BEDROCK;
    /// The variant of vLLM. Thinking is switched by the template of the model, and system messages
    /// inside a history are sent as text of the user.
    vllm: VLLM;
    /// The variant of llama.cpp. Thinking is switched by the template of the model, and system
    /// messages inside a history are sent as text of the user.
    llama_cpp: LLAMA_CPP;
    /// The variant of LM Studio. System messages inside a history are sent as text of the user.
    lm_studio: LM_STUDIO;
}

impl Dialect {
    /// Returns the variant of the server at this address, by its host, and
    /// [`compatible`](Self::compatible) for an unknown one.
    pub fn of(base_url: &str) -> Self {
        let host = host_of(base_url);
        let is_host = |name: &&str| {
            let start = host.len().checked_sub(name.len());
            let parts = start.and_then(|start| host.split_at_checked(start));
            parts.is_some_and(|(before, end)| {
                end.eq_ignore_ascii_case(name) && (before.is_empty() || before.ends_with('.'))
            })
        };
        let rules = HOSTED.iter().find(|rules| rules.hosts.iter().any(is_host));
        Self(rules.copied().unwrap_or(&UNKNOWN))
    }

    /// Returns the header of the key; `None` for a bearer token.
    pub(in crate::providers) fn key_header(self) -> Option<&'static str> {
        self.0.key_header
    }

    pub(super) fn rules(self) -> &'static Rules {
        self.0
    }

    /// Returns the reports of the context window that the server may have, in the order in which
    /// they are requested.
    pub(super) fn window_reports(self) -> &'static [WindowReport] {
        self.0.window_reports
    }

    /// Returns `true` for servers that have only OpenAI's models.
    pub(super) fn has_openai_models(self) -> bool {
        self.is_openai() || self == Self::azure()
    }

    /// Returns `true` for OpenAI's own server.
    pub(super) fn is_openai(self) -> bool {
        self == Self::openai()
    }
}

/// Sets the header of the key to the header that the server at the connection's address expects.
pub(in crate::providers) fn with_key_form_of_address(connection: Connection) -> Connection {
    let header = Dialect::of(connection.endpoint.base()).rules().key_header;
    connection.with_key_header(header, KeyFormOrigin::Address)
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialect").field(&self.0.tag).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_host_chooses_its_dialect() {
        for (base_url, dialect) in [
            ("https://api.openai.com/v1", Dialect::openai()),
            ("https://me:pw@api.openai.com:443/v1", Dialect::openai()),
            ("https://API.Mistral.ai/v1", Dialect::mistral()),
            ("https://res.openai.azure.com/openai/v1", Dialect::azure()),
            (
                "https://res.services.ai.azure.com/openai/v1",
                Dialect::azure(),
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai",
                Dialect::gemini(),
            ),
            ("https://openrouter.ai/api/v1", Dialect::openrouter()),
            (
                "https://bedrock-mantle.eu-west-1.api.aws/v1",
                Dialect::bedrock(),
            ),
            ("https://notopenrouter.ai/v1", Dialect::compatible()),
            ("https://api.openai.com.evil.test/v1", Dialect::compatible()),
            ("https://evil.test/api.openai.com", Dialect::compatible()),
            ("http://127.0.0.1:8080/v1", Dialect::compatible()),
            ("http://[::1]:8080/v1", Dialect::compatible()),
            ("http://ü/v1", Dialect::compatible()),
            ("", Dialect::compatible()),
        ] {
            assert_eq!(Dialect::of(base_url), dialect, "{base_url}");
        }
    }
}
