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
/// It checks the pairing of calls and results, unique ids, the order of roles (several user
/// messages in a row are valid, since providers receive them as one message), that contents and
/// texts are not empty, tool names and schemas, arguments, `max_output_tokens`, and that thinking
/// blocks are returned byte for byte as this model gave them (blocks from elsewhere can be declared
/// with [`knowing`](Self::knowing)). The checks share no code with
/// [`Messages::validate_for_model`], and agree with it on everything that it checks.
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
    seen: Arc<Mutex<StrictState>>,
}

#[derive(Default)]
struct StrictState {
    thinking: HashSet<String>,
    violations: Vec<String>,
}

impl<M> StrictModel<M> {
    /// Wraps `inner`.
    pub fn new(inner: M) -> Self {
        Self {
            inner,
            seen: Arc::default(),
        }
    }

    /// Takes the thinking blocks of an older history as this model's own.
    #[must_use]
    pub fn knowing(self, messages: &Messages) -> Self {
        for part in messages.iter().flat_map(|m| m.content().parts()) {
            remember(&self.seen, part);
        }
        self
    }

    /// Returns all violations in the requests so far, in order.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.seen).violations.clone()
    }

    /// Returns the wrapped model.
    pub fn inner(&self) -> &M {
        &self.inner
    }
}

fn remember(seen: &Mutex<StrictState>, part: &Part) {
    if let Part::Thinking(block) = part {
        lock(seen).thinking.insert(block.raw.get().to_owned());
    }
}

impl<M: Clone> Clone for StrictModel<M> {
    /// Clones the handle; the seen blocks are shared.
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            seen: self.seen.clone(),
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
            let mut record = lock(&self.seen);
            let violations = rules::violations(&request, &record.thinking);
            if !violations.is_empty() {
                let text = violations.join("; ");
                record.violations.extend(violations);
                return Err(Error::new(ErrorKind::InvalidRequest, text));
            }
        }

        let record = self.seen.clone();
        let stream = self.inner.stream(request).await?;
        Ok(stream
            .inspect(move |event| {
                if let Ok(ModelEvent::Part(part)) = event {
                    remember(&record, part);
                }
            })
            .boxed())
    }
}
