//! The [`Model`] trait, its requests and its responses.
//!
//! * The input is a [`ModelRequest`], the output a [`ModelStream`] of [`ModelEvent`]s.
//!   [`ResponseFold`] makes a [`ModelResponse`] of them.
//! * A provider implements [`Model::id`], [`Model::profile`] and [`Model::stream`]. The loop adds
//!   retries, budgets and hooks.
//!
//! ```
//! use agentcore::testing::FunctionModel;
//! use agentcore::{Model, ModelRequest};
//!
//! # tokio_test(async {
//! let model = FunctionModel::text(|request| format!("{} message(s)", request.messages.len()));
//! let response = model.call(ModelRequest::new("hello")).await?;
//! assert_eq!(response.text(), "1 message(s)");
//! # Ok::<(), agentcore::Error>(())
//! # });
//! # fn tokio_test<F: Future<Output = Result<(), agentcore::Error>>>(f: F) {
//! #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f).unwrap();
//! # }
//! ```

mod card;
mod catalog;
mod catalog_table;
mod compactor;
mod context_tokens;
mod date;
mod event;
mod fold;
mod hosted;
mod lifecycle;
mod limits;
mod meter;
#[expect(clippy::module_inception, reason = "the trait has the module's name")]
mod model;
mod open_calls;
mod prices;
mod profile;
mod prompter;
mod provider_cache;
mod request;
mod response;
pub(crate) mod retry;
mod settings;
mod stop_reason;
mod system_prompt;
mod taps;

pub use card::ModelCard;
pub use catalog::Catalog;
pub use compactor::{Compaction, CompactionRequest, CompactionTrigger, Compactor, NoCompaction};
pub use date::Date;
pub use event::{ModelEvent, ResponseHead};
pub use fold::ResponseFold;
pub(crate) use fold::truncated_stream;
pub use hosted::HostedTool;
pub use lifecycle::Lifecycle;
pub use limits::ResponseLimits;
#[cfg(feature = "http")]
pub(crate) use limits::{UsedLimits, check_call};
pub(crate) use meter::ResponseMeter;
pub(crate) use model::erase;
pub use model::{Model, ModelStream};
pub(crate) use open_calls::OpenCalls;
pub use prices::{LongPrices, Prices};
pub use profile::ModelProfile;
pub use prompter::{PromptContext, Prompter, StaticPrompt};
pub use provider_cache::ProviderCache;
pub use request::{ModelRequest, ToolDefinition};
pub(crate) use request::{ResponseVisibility, request_overhead};
pub use response::ModelResponse;
pub use settings::{ModelSettings, ResponseFormat, ThinkingMode, ToolChoice};
pub use stop_reason::StopReason;
pub use system_prompt::{Section, Stability, SystemPrompt};
pub use taps::EventSink;
pub(crate) use taps::Taps;
