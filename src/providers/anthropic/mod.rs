//! Anthropic's Messages API, and servers that speak it.
//!
//! ```no_run
//! use agentcore::providers::Anthropic;
//! use agentcore::{Model, ModelRequest};
//!
//! # async fn example() -> agentcore::Result<()> {
//! let model = Anthropic::from_env("claude-sonnet-5")?;
//! let response = model.call(ModelRequest::new("What is 2+2?")).await?;
//! println!("{}", response.text());
//! # Ok(())
//! # }
//! ```

mod blocks;
mod body;
mod capabilities;
mod container;
mod content;
mod decode;
mod events;
mod family;
mod hosted;
mod model;
mod profile;
mod remedy;
mod thinking;
mod wire;

pub use hosted::{code_execution, web_fetch, web_search};
pub use model::{Anthropic, decode};
use wire::{COMPATIBLE, CONTAINER, PROVIDER};
