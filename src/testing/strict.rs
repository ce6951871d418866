//! A model that refuses what a provider would refuse.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Messages, Part};
use crate::model::{Model, ModelCard, ModelEvent, ModelProfile, ModelRequest, ModelStream};
use crate::util::sync::lock;

use super::rules;

/// A wrapper around a model that answers only requests that every provider would accept.
///
/// These are checked:
///
/// * The order of roles. Several user messages in a row are valid, since providers receive them as
///   one message.
/// * The pairing of calls and results, and that ids are unique.
/// * Contents and texts, which must not be empty.
/// * The names and schemas of tools, the arguments of calls, and `max_output_tokens`.
/// * Thinking blocks, which must be returned byte for byte as this model gave them. Blocks of
///   another model can be declared with [`knowing`](Self::knowing).
///
/// The checks share no code with [`Messages::validate_for_model`], and agree with it on everything
/// that it checks.
///
/// ```
/// use agentcore::testing::{FunctionModel, StrictModel};
/// use agentcore::{ErrorKind, Messages, Model, ModelRequest};
///
/// # let run = async {
/// let model = StrictModel::new(FunctionModel::text(|_| "hello".into()));
/// let error = model.call(ModelRequest::new(Messages::new().ai("hi"))).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidRequest);
/// assert!(model.violations()[0].starts_with("message[0]"));
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
/// ```
pub struct StrictModel<M> {
    inner: M,
    state: Arc<Mutex<StrictState>>,
}

#[derive(Default)]
struct StrictState {
    /// The thinking blocks that the model gave, as JSON.
    thinking: HashSet<String>,
    violations: Vec<String>,
}

impl<M> StrictModel<M> {
    /// Wraps `inner`.
    pub fn new(inner: M) -> Self {
        Self {
            inner,
            state: Arc::default(),
        }
    }

    /// Takes the thinking blocks of an older history as this model's own.
    #[must_use]
    pub fn knowing(self, messages: &Messages) -> Self {
        for part in messages.iter().flat_map(|m| m.content().parts()) {
            record_thinking(&self.state, part);
        }
        self
    }

    /// Returns all violations in the requests so far, in order.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.state).violations.clone()
    }

    /// Returns the wrapped model.
    pub fn inner(&self) -> &M {
        &self.inner
    }
}

/// Records the thinking block of a part that this model gave, if it is one.
fn record_thinking(state: &Mutex<StrictState>, part: &Part) {
    if let Part::Thinking(block) = part {
        lock(state).thinking.insert(block.raw.get().to_owned());
    }
}

impl<M: Clone> Clone for StrictModel<M> {
    /// Clones the handle; the thinking blocks and the violations are shared.
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            state: self.state.clone(),
        }
    }
}

impl<M: fmt::Debug> fmt::Debug for StrictModel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrictModel")
            .field("inner", &self.inner)
            .field("violations", &self.violations())
            .finish()
    }
}

#[async_trait]
impl<M: Model> Model for StrictModel<M> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn profile(&self) -> &ModelProfile {
        self.inner.profile()
    }

    fn card(&self, request: &ModelRequest) -> ModelCard {
        self.inner.card(request)
    }

    fn cards(&self, request: &ModelRequest) -> Vec<ModelCard> {
        self.inner.cards(request)
    }

    async fn count_tokens(&self, request: ModelRequest) -> Result<Option<u64>> {
        self.inner.count_tokens(request).await
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        {
            let mut state = lock(&self.state);
            let violations = rules::violations(&request, &state.thinking);
            if !violations.is_empty() {
                let text = violations.join("; ");
                state.violations.extend(violations);
                return Err(Error::new(ErrorKind::InvalidRequest, text));
            }
        }

        let state = self.state.clone();
        let stream = self.inner.stream(request).await?;
        Ok(stream
            .inspect(move |event| {
                if let Ok(ModelEvent::Part(part)) = event {
                    record_thinking(&state, part);
                }
            })
            .boxed())
    }
}
