//! Models called over HTTP.
//!
//! * [`resolve`] creates a model from a string such as `anthropic:claude-sonnet-5`, with its key
//!   from the environment, and [`resolve_with_window`] also requests the model's context window
//!   from a local server.
//! * [`Anthropic`], [`OpenAi`], [`OpenAiResponses`], [`Gemini`] and [`Ollama`] have constructors
//!   and setters for everything else, such as another server with the same API. [`OpenAiAuto`]
//!   chooses between OpenAI's two APIs.
//! * [`FallbackModel`] calls another model when the first cannot answer.
//!
//! # Models
//!
//! | models | type | beyond text, tools, images and structured output | not supported |
//! |---|---|---|---|
//! | Claude 3.5 to 5.5, at Anthropic and compatible addresses | [`Anthropic`] | thinking in the form that each model takes, kept valid where a model binds it to its conversation; citations; web search, web pages and code execution by the server; PDF; prompt cache of 5 minutes or 1 hour; token counts | audio, batches |
//! | OpenAI's models from GPT-5 on | [`OpenAiResponses`], [`OpenAiAuto`] | encrypted reasoning, sent back unchanged; summaries as thinking; web search, code interpreter and file search by the server; PDF and other documents; token counts | audio, stop sequences, `seed`, `top_k`, answers stored by the server |
//! | other models of OpenAI, and servers that speak Chat Completions | [`OpenAi`] | reasoning of compatible servers, sent back as it came; PDF and recordings (WAV, MP3) where the server and the model take them; token counts of llama.cpp | other token counts; tools together with reasoning of OpenAI's newer models, which need the Responses API |
//! | Gemini 2.5 and later, by API key or on Vertex AI | [`Gemini`] | thought signatures; levels and budgets of thinking; search, pages and code execution by the server; PDF and audio; token counts | cached contents; pages as media by the API, which takes uploaded files only |
//! | open models on Ollama | [`Ollama`] | thinking and its levels, the context window | forced tools, PDF, audio, token counts |
//!
//! Every decoder is tested with recorded and documented streams: whole, split at every byte and
//! truncated after every byte. The requests of whole conversations are sent to test servers that
//! refuse what the real servers refuse: thinking after another conversation, reasoning without its
//! item, missing signatures. The requests to OpenAI, Anthropic and Google and their answers are
//! compared with the types and clients of the official SDKs. A history written by any of these
//! models is valid for any other. No test sends requests to the providers' own servers, even if
//! their keys are set.
//!
//! # Servers that speak Chat Completions
//!
//! [`OpenAi`] sends each server the fields that it accepts: the prefix in [`resolve`] or the
//! address selects its [`Dialect`](openai::Dialect). An answer's reasoning and signatures are sent
//! back only to the server that they came from, with Azure and the self-hosted servers as one
//! server each. Other servers are distinguished by their [names](OpenAi::provider); those without
//! one share their reasoning.
//!
//! | server | sent back | adapted | an error before sending | checked by |
//! |---|---|---|---|---|
//! | OpenAI | | schemas that are no objects, in words; schemas that the strict mode refuses, without it | tools while newer models reason, stop sequences where a model takes none, efforts that a model lacks; recordings for models without `audio` in their name; images other than PNG, JPEG, WebP and GIF; documents other than PDF; more than 50 MB | strict server |
//! | Azure | | key in `api-key`, or a bearer token; address and version of both APIs; at `/openai/v1` the Responses API for deployments with the name of a model that needs it | tools, stop sequences, efforts and images, as at OpenAI, for the names of models; PDF on Chat Completions; recordings, as at OpenAI, for the names of models | strict server |
//! | OpenRouter | `reasoning_details`, each entry whole | efforts and budgets in `reasoning` | | strict server |
//! | DeepSeek | `reasoning_content`, in every answer of a conversation with tools | efforts; schemas in words | forced tools while a model thinks; PDF, recordings | strict server |
//! | Mistral | thinking in the content | ids of calls; order of roles; later system messages; PDF as addresses | recordings for models other than Voxtral | strict server |
//! | Groq | `reasoning` | broken calls are errors that are retried | efforts that a model lacks; PDF, recordings | strict server |
//! | xAI | `reasoning_content` | repeated pieces of reasoning; tokens of reasoning in the output | stop sequences, efforts that a model lacks; PDF, recordings | strict server |
//! | Gemini, at `/v1beta/openai` | signatures in `extra_content` | a placeholder for calls of other models; names of results | PDF | strict server |
//! | Bedrock | `reasoning_content`, `reasoning`; of GPT, encrypted reasoning | ids of calls that begin again in every answer; hosted tools and their results are omitted | efforts that a model lacks; images, PDF, recordings | strict server |
//! | vLLM, llama.cpp | `reasoning_content`, `reasoning` | switch of the template for thinking; later system messages | PDF | strict template |
//! | LM Studio | `reasoning_content`, `reasoning` | later system messages | PDF, recordings | strict template |
//! | others | all of these | later system messages | | streams |
//!
//! A *strict server* is a test server that refuses what the real server refuses, according to its
//! documentation or to reports of its users. A *later system message* is one inside a history. It
//! becomes a user message where the templates of models accept none.
//!
//! The example `agent` was also run by hand:
//!
//! * with a text and a round of tools, against the scripted server aimock 1.43: `gemini`, `openai`
//!   (both APIs), `anthropic`, `ollama`, `mistral`, `groq`, `xai`, `deepseek`, `openrouter`,
//!   `vllm`, `llamacpp` and `lmstudio`;
//! * with a text, against llama.cpp: `llamacpp`, `vllm`, `lmstudio`, `openai-chat` and `anthropic`.
//!
//! An image, a document or a recording that the API or the model does not accept is an error before
//! sending if it is in a new input. In an older message or the result of a tool, a text replaces
//! it. For an image, the text states that it was omitted, and its media type.
//!
//! # Requests
//!
//! Providers send one request and decode one stream. They never follow a redirect. A request is
//! sent again in two cases only:
//!
//! * over a new connection, if the connection to a server that has replied before broke without a
//!   reply, because the server may have closed a pooled connection;
//! * without the reasoning, the signatures or the ids that the server refused, or with another
//!   setting of thinking instead of a refused one. The server may refuse them before its stream or
//!   at its beginning.
//!
//! The new connection of the first case serves that request only. All other connections are in a
//! pool that the requests in a runtime with the same connect timeout share. A connection that
//! cannot be made is left to the [`RetryPolicy`](crate::agent::RetryPolicy).
//!
//! A stream ends with an error if no byte arrives for the idle timeout, 300 seconds by default. Its
//! total time is not limited; its size is limited by
//! [`ResponseLimits`](crate::model::ResponseLimits). An answer whose stream breaks is an error,
//! never a short answer. Keys never appear in errors, log lines or `Debug` output.

pub mod anthropic;
mod buffer;
mod builder;
mod calls;
mod chat;
mod connection;
mod decode;
#[cfg(test)]
mod decode_tests;
mod decoder;
mod drain;
mod encode;
pub(crate) mod env;
mod events;
mod fallback;
mod fields;
mod frames;
pub mod gemini;
mod gemini_family;
mod hosted;
mod http;
mod json;
mod lenient;
mod lines;
mod media;
pub mod ollama;
pub mod openai;
mod raw_object;
mod repeated;
mod resolve;
mod resolve_window;
pub mod responses;
mod schema;
mod send;
mod servers;
pub mod sse;
mod status;
mod token_count;
mod transformations;
mod whole_calls;
mod wholeness;
mod window;
mod yields;

pub use anthropic::Anthropic;
pub use fallback::FallbackModel;
pub use gemini::Gemini;
pub use ollama::Ollama;
pub use openai::{OpenAi, OpenAiAuto};
pub use resolve::resolve;
pub use resolve_window::resolve_with_window;
pub use responses::OpenAiResponses;
