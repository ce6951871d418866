//! Models, servers and conformance suites for tests that are offline and repeatable.
//!
//! | | for |
//! |---|---|
//! | [`ScriptedModel`] | testing an agent: each call takes the next step of a script, strictly |
//! | [`FunctionModel`] | an answer computed from the request |
//! | [`StrictModel`] | refusing every request that a provider would refuse |
//! | `ScriptedInteractor` | answering an agent's questions (feature `tools`) |
//! | `Cassette` | recording a real model once and replaying it (feature `testing`) |
//! | `FaultServer` | a provider over real sockets that splits, stalls, resets and garbles its replies (features `testing` and `http`) |
//! | `conformance` | holding your own implementation to its contract (feature `testing`) |
//!
//! ```
//! use agentcore::testing::ScriptedModel;
//! use agentcore::{Model, ModelRequest};
//! use serde_json::json;
//!
//! # let run = async {
//! let model = ScriptedModel::new()
//!     .call("add", json!({"a": 2, "b": 2}))
//!     .expect(|request| assert_eq!(request.messages.last_content(), "4"))
//!     .say("The sum is 4.");
//! let first = Model::call(&model, ModelRequest::new("2+2?")).await?;
//! assert_eq!(&*first.tool_calls().next().unwrap().id, "call_1");
//! let second = Model::call(&model, ModelRequest::new("4")).await?;
//! assert_eq!(second.text(), "The sum is 4.");
//! model.verify()?;
//! # Ok::<(), agentcore::Error>(()) };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
//! # Ok::<(), agentcore::Error>(())
//! ```

#[cfg(any(test, feature = "testing"))]
mod cassette;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod events;
#[cfg(all(any(test, feature = "testing"), feature = "http"))]
pub mod fault_server;
mod function;
#[cfg(feature = "tools")]
mod interactor;
mod rules;
mod script;
mod scripted;
mod strict;

#[cfg(any(test, feature = "testing"))]
pub use cassette::Cassette;
#[cfg(all(any(test, feature = "testing"), feature = "http"))]
pub use fault_server::{FaultServer, Reply};
pub use function::FunctionModel;
#[cfg(feature = "tools")]
pub use interactor::ScriptedInteractor;
pub use script::Step;
pub use scripted::ScriptedModel;
pub use strict::StrictModel;
