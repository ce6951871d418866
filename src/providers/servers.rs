//! Models on other servers that speak Chat Completions, from the environment.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;

use super::anthropic::Anthropic;
use super::env;
use super::http::is_path_segment;
use super::openai::family::family_of;
use super::openai::{Dialect, OpenAi, OpenAiAuto};
use super::responses::OpenAiResponses;

/// The version of Azure's API for addresses of deployments.
const AZURE_VERSION: &str = "2024-10-21";

/// A server with its address and its environment variables.
pub(super) struct Server {
    /// The name before the colon.
    pub(super) prefix: &'static str,
    base_url: Option<&'static str>,
    base_variable: &'static str,
    key_variable: &'static str,
    needs_key: bool,
    dialect: fn() -> Dialect,
    model: fn(&Server, &str) -> Result<Arc<dyn Model>>,
}

pub(super) static SERVERS: &[Server] = &[
    Server {
        prefix: "mistral",
        base_url: Some("https://api.mistral.ai/v1"),
        base_variable: "MISTRAL_BASE_URL",
        key_variable: "MISTRAL_API_KEY",
        dialect: Dialect::mistral,
        ..HOSTED
    },
    Server {
        prefix: "deepseek",
        base_url: Some("https://api.deepseek.com"),
        base_variable: "DEEPSEEK_BASE_URL",
        key_variable: "DEEPSEEK_API_KEY",
        dialect: Dialect::deepseek,
        ..HOSTED
    },
    Server {
        prefix: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        base_variable: "OPENROUTER_BASE_URL",
        key_variable: "OPENROUTER_API_KEY",
        dialect: Dialect::openrouter,
        ..HOSTED
    },
    Server {
        prefix: "groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        base_variable: "GROQ_BASE_URL",
        key_variable: "GROQ_API_KEY",
        dialect: Dialect::groq,
        ..HOSTED
    },
    Server {
        prefix: "xai",
        base_url: Some("https://api.x.ai/v1"),
        base_variable: "XAI_BASE_URL",
        key_variable: "XAI_API_KEY",
        dialect: Dialect::xai,
        ..HOSTED
    },
    Server {
        prefix: "azure",
        base_url: None,
        base_variable: "AZURE_BASE_URL",
        key_variable: "AZURE_API_KEY",
        dialect: Dialect::azure,
        model: azure,
        ..HOSTED
    },
    Server {
        prefix: "bedrock",
        base_url: None,
        base_variable: "BEDROCK_BASE_URL",
        key_variable: "BEDROCK_API_KEY",
        dialect: Dialect::bedrock,
        model: bedrock,
        ..HOSTED
    },
    Server {
        prefix: "vllm",
        base_url: Some("http://127.0.0.1:8000/v1"),
        base_variable: "VLLM_BASE_URL",
        key_variable: "VLLM_API_KEY",
        dialect: Dialect::vllm,
        ..LOCAL
    },
    Server {
        prefix: "llamacpp",
        base_url: Some("http://127.0.0.1:8080/v1"),
        base_variable: "LLAMACPP_BASE_URL",
        key_variable: "LLAMACPP_API_KEY",
        dialect: Dialect::llama_cpp,
        ..LOCAL
    },
    Server {
        prefix: "lmstudio",
        base_url: Some("http://127.0.0.1:1234/v1"),
        base_variable: "LMSTUDIO_BASE_URL",
        key_variable: "LMSTUDIO_API_KEY",
        dialect: Dialect::lm_studio,
        ..LOCAL
    },
];

const HOSTED: Server = Server {
    prefix: "",
    base_url: None,
    base_variable: "",
    key_variable: "",
    needs_key: true,
    dialect: Dialect::compatible,
    model: |server, name| server.chat_model(name).map(into_model),
};

const LOCAL: Server = Server {
    needs_key: false,
    ..HOSTED
};

impl Server {
    /// Creates the model of this name.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Auth`] if there is no key, and [`ErrorKind::Config`] if there is no
    /// address or it cannot be used; the text names the variable.
    pub(super) fn resolve(&self, name: &str) -> Result<Arc<dyn Model>> {
        (self.model)(self, name)
    }

    /// Returns `true` for a server on the user's machines, whose window was set at its start.
    pub(super) fn is_local(&self) -> bool {
        !self.needs_key
    }

    /// Creates the model of this name on Chat Completions, at the server's address.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`resolve`](Self::resolve).
    pub(super) fn chat_model(&self, name: &str) -> Result<OpenAi> {
        self.chat(&self.base_url()?, name)
    }

    fn base_url(&self) -> Result<String> {
        let base_url = env::var(self.base_variable).or_else(|| self.base_url.map(str::to_owned));
        base_url.ok_or_else(|| {
            let variable = self.base_variable;
            self.mistake(&format!(
                "there is no address; set the environment variable {variable}"
            ))
        })
    }

    /// Creates a model on Chat Completions at this address.
    fn chat(&self, base_url: &str, name: &str) -> Result<OpenAi> {
        let mut model = OpenAi::compatible(base_url, name)
            .provider(self.prefix)
            .dialect((self.dialect)());
        if self.is_local() {
            model = model.without_prices();
        }

        if self.needs_key || env::var(self.key_variable).is_some() {
            model = model.key(env::key(self.prefix, self.key_variable)?);
        }

        model.check()?;
        Ok(model)
    }

    fn mistake(&self, text: &str) -> Error {
        Error::new(ErrorKind::Config, format!("{}: {text}", self.prefix))
    }
}

/// Creates the model of a deployment. An address without `/openai/v1` belongs to the older API,
/// which has the deployment in its path and no Responses API. Through the newer one, a deployment
/// with the name of one of OpenAI's models is called with the API that each request needs.
fn azure(server: &Server, deployment: &str) -> Result<Arc<dyn Model>> {
    let base_url = server.base_url()?;
    let base_url = base_url.trim_end_matches('/');
    if base_url.contains("/openai/v1") {
        let chat = server.chat(base_url, deployment)?;
        if family_of(deployment).is_none() {
            return Ok(Arc::new(chat));
        }

        let mut responses = OpenAiResponses::compatible(base_url, deployment)
            .provider(server.prefix)
            .key(env::key(server.prefix, server.key_variable)?);
        if let Some(header) = (server.dialect)().key_header() {
            responses = responses.key_header(header);
        }
        responses.check()?;
        return Ok(Arc::new(OpenAiAuto::new(chat, responses)));
    }

    if !is_path_segment(deployment) {
        return Err(server.mistake(&format!("{deployment:?} is no name of a deployment")));
    }

    let url = if base_url.contains("/deployments/") {
        base_url.to_owned()
    } else {
        format!("{base_url}/openai/deployments/{deployment}")
    };
    let model = server.chat(&url, deployment)?;
    Ok(Arc::new(model.query("api-version", AZURE_VERSION)))
}

/// Creates the model on the API that Bedrock has for it: Chat Completions for OpenAI's open models,
/// the Responses API for its other models, and Anthropic's API for Claude.
fn bedrock(server: &Server, name: &str) -> Result<Arc<dyn Model>> {
    let base_url = match (env::var(server.base_variable), env::var("AWS_REGION")) {
        (Some(base_url), _) => base_url,
        (None, Some(region)) => format!("https://bedrock-mantle.{region}.api.aws"),
        (None, None) => {
            return Err(server.mistake(
                "there is no address; set the environment variable AWS_REGION or BEDROCK_BASE_URL",
            ));
        }
    };
    let base_url = base_url.trim_end_matches('/');
    let key = match env::var("AWS_BEARER_TOKEN_BEDROCK") {
        Some(token) if env::var(server.key_variable).is_none() => token.into(),
        _ => env::key(server.prefix, server.key_variable)?,
    };

    if name.starts_with("openai.gpt-oss") {
        let model = OpenAi::compatible(format!("{base_url}/v1"), name)
            .provider(server.prefix)
            .dialect((server.dialect)())
            .key(key);
        model.check()?;
        Ok(Arc::new(model))
    } else if name.starts_with("openai.") {
        let model = OpenAiResponses::compatible(format!("{base_url}/openai/v1"), name)
            .provider(server.prefix)
            .hosted_tools(false)
            .key(key);
        model.check()?;
        Ok(Arc::new(model))
    } else if name.starts_with("anthropic.") {
        let model = Anthropic::new(name, key.clone())
            .base_url(format!("{base_url}/anthropic"))
            .hosted_tools(false)
            .bearer(key);
        model.check()?;
        Ok(Arc::new(model))
    } else {
        Err(server.mistake(&format!(
            "the model {name:?} is on none of Bedrock's APIs that are supported; use one that begins \
             with `openai.` or `anthropic.`"
        )))
    }
}

fn into_model(model: OpenAi) -> Arc<dyn Model> {
    Arc::new(model)
}
