//! [`FallbackModel`], which calls several models one after the other.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Model, ModelCard, ModelEvent, ModelProfile, ModelRequest, ModelStream, ProviderCache,
    ResponseHead, StopReason, erase,
};

/// A model that passes a request on to the next of several models if one cannot answer.
///
/// Every request starts with the first model. The next model is called if a model
///
/// * is unreachable: `Connect`, `Dns`, `Tls`, `Proxy`, `Timeout`;
/// * rejects the caller: `Auth`, `PermissionDenied`, `NotFound`, `RateLimited`, `QuotaExhausted`;
/// * fails: `Overloaded`, `Server`, `StreamTruncated`;
/// * refuses to answer: `Refused`, or a stop for [`Refusal`](StopReason::Refusal).
///
/// After any other error, no further model is called, because it would fail as well. If a part of
/// an answer was emitted, [`ModelEvent::Restart`] discards it before the next model begins. If no
/// model answers, the last error is returned. If the first error is retryable and the last is not,
/// the first is returned instead, unless the last is a `ResponseTooLarge`.
///
/// The id and the profile are those of the first model, and [`ModelRequest::model`] applies to the
/// first model only.
///
/// # Budgets
///
/// The usage of each model is recorded under that model, at its price. A budget reserves the cost
/// of the most expensive model, so a budget in USD requires that the price of each model is known.
/// If a model fails in the middle of an answer, the next one is called only if the budget covers
/// both.
///
/// ```no_run
/// use agentcore::providers::{Anthropic, FallbackModel};
///
/// # fn example() -> agentcore::Result<()> {
/// let model = FallbackModel::new([
///     Anthropic::from_env("claude-sonnet-5")?,
///     Anthropic::from_env("claude-haiku-5-5")?,
/// ]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FallbackModel {
    models: Vec<Arc<dyn Model>>,
    profile: ModelProfile,
}

impl FallbackModel {
    /// Creates a model from these models, called in this order. Models of different types are added
    /// with [`then`](Self::then). Without any model, every request fails with
    /// [`Config`](ErrorKind::Config).
    pub fn new<M: Model>(models: impl IntoIterator<Item = M>) -> Self {
        let models: Vec<_> = models.into_iter().map(erase).collect();
        let profile = models
            .first()
            .map(|model| *model.profile())
            .unwrap_or_default();
        Self { models, profile }
    }

    /// Appends a model.
    #[must_use]
    pub fn then(mut self, model: impl Model) -> Self {
        if self.models.is_empty() {
            self.profile = *model.profile();
        }
        self.models.push(erase(model));
        self
    }
}

impl fmt::Debug for FallbackModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.models.iter().map(|model| model.id()))
            .finish()
    }
}

#[async_trait]
impl Model for FallbackModel {
    fn id(&self) -> &str {
        self.models.first().map_or("fallback", |model| model.id())
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn card(&self, request: &ModelRequest) -> ModelCard {
        match self.models.first() {
            Some(model) => model.card(request),
            None => ModelCard::new(self.id(), self.profile),
        }
    }

    fn cards(&self, request: &ModelRequest) -> Vec<ModelCard> {
        let Some((first, others)) = self.models.split_first() else {
            return vec![self.card(request)];
        };
        let mut cards = first.cards(request);
        if !others.is_empty() {
            let mut request = request.clone();
            request.model = None;
            cards.extend(others.iter().flat_map(|model| model.cards(&request)));
        }
        cards
    }

    /// Counts with the first model.
    async fn count_tokens(&self, request: ModelRequest) -> Result<Option<u64>> {
        match self.models.first() {
            Some(model) => model.count_tokens(request).await,
            None => Ok(None),
        }
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        let attempts = Attempts::new(self.models.clone(), request);
        let mut answer = FallbackStream {
            attempts,
            state: FallbackState::Done,
            has_emitted: false,
        };

        answer.state = answer.attempts.next()?;

        // The first stream is awaited here, so that the failure of all models is an error of this
        // call.
        while let FallbackState::Opening(opening) = &mut answer.state {
            answer.state = match opening.await {
                Ok(stream) => FallbackState::Open(stream),
                Err(error) => answer.attempts.next_after(error)?,
            };
        }

        Ok(Box::pin(answer))
    }
}

/// Returns `true` if the next model may succeed after an error of this kind.
fn allows_fallback(kind: ErrorKind) -> bool {
    use ErrorKind::*;
    matches!(
        kind,
        Connect
            | Dns
            | Tls
            | Proxy
            | Timeout
            | Auth
            | PermissionDenied
            | NotFound
            | RateLimited
            | QuotaExhausted
            | Overloaded
            | Server
            | StreamTruncated
            | Refused
    )
}

/// The caches of the models between requests, stored in the cache of the request.
struct ModelCaches(Vec<ProviderCache>);

/// The attempts to answer one request, with one model after the other.
struct Attempts {
    models: Vec<Arc<dyn Model>>,
    /// The cache of each model.
    caches: Vec<ProviderCache>,
    request: ModelRequest,
    /// The index of the model of the next attempt.
    next: usize,
    first_error: Option<Error>,
}

impl Attempts {
    fn new(models: Vec<Arc<dyn Model>>, request: ModelRequest) -> Self {
        let mut caches = match request.provider_cache().take::<ModelCaches>() {
            Some(caches) => caches.0,
            None => Vec::new(),
        };

        caches.resize_with(models.len(), ProviderCache::default);
        let stored_caches = Box::new(ModelCaches(caches.clone()));
        request.provider_cache().put(stored_caches);
        Self {
            models,
            caches,
            request,
            next: 0,
            first_error: None,
        }
    }

    fn has_next(&self) -> bool {
        self.next < self.models.len()
    }

    /// Sends the request to the next model.
    fn next(&mut self) -> Result<FallbackState> {
        let (Some(model), Some(cache)) = (self.models.get(self.next), self.caches.get(self.next))
        else {
            return Err(Error::new(
                ErrorKind::Config,
                "the fallback model has no models; give it at least one",
            ));
        };

        let model = model.clone();
        let mut request = self.request.clone().with_provider_cache(cache.clone());
        let mut card = None;
        if self.next > 0 {
            request.model = None;
            card = Some(model.card(&request));
        }

        self.next += 1;
        Ok(FallbackState::Opening(Box::pin(async move {
            let stream = model.stream(request).await?;
            Ok(match card {
                Some(card) => with_answering_model(stream, card),
                None => stream,
            })
        })))
    }

    /// Returns the state after a failure: the next attempt, or the error to return.
    fn next_after(&mut self, error: Error) -> Result<FallbackState> {
        if allows_fallback(error.kind()) && self.has_next() {
            tracing::warn!(kind = ?error.kind(), "a model failed; the next one is called");
            self.first_error.get_or_insert(error);
            return self.next();
        }
        match self.first_error.take() {
            // A model has answered, so the loop must not repeat the request because of an earlier
            // error.
            _ if error.kind() == ErrorKind::ResponseTooLarge => Err(error),
            Some(first) if first.is_retryable() && !error.is_retryable() => Err(first),
            _ => Err(error),
        }
    }
}

/// Adds the answering model to the head of the stream.
fn with_answering_model(stream: ModelStream, card: ModelCard) -> ModelStream {
    let mut card = Some(Box::new(card));
    let add_card = move |event: Result<ModelEvent>| {
        let mut head = None;
        let event = match (event, card.take()) {
            (Ok(ModelEvent::Start(mut own)), Some(card)) => {
                own.answered_by.get_or_insert(card);
                Ok(ModelEvent::Start(own))
            }
            (Ok(event), Some(card)) => {
                let missing = ResponseHead {
                    answered_by: Some(card),
                    ..ResponseHead::default()
                };

                head = Some(Ok(ModelEvent::Start(Box::new(missing))));
                Ok(event)
            }
            (event, _) => event,
        };

        stream::iter(head.into_iter().chain([event]))
    };

    stream.flat_map(add_card).boxed()
}

/// The stream of the first model that answers.
struct FallbackStream {
    attempts: Attempts,
    state: FallbackState,
    /// True if part of an answer was emitted that a further attempt must discard.
    has_emitted: bool,
}

/// The state of the stream of one request.
enum FallbackState {
    /// A request was sent.
    Opening(BoxFuture<'static, Result<ModelStream>>),
    /// A model answers.
    Open(ModelStream),
    /// The stream has ended.
    Done,
}

impl Stream for FallbackStream {
    type Item = Result<ModelEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let step = match &mut this.state {
                FallbackState::Done => return Poll::Ready(None),
                FallbackState::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(stream) => Ok(FallbackState::Open(stream)),
                    Err(error) => this.attempts.next_after(error),
                },
                FallbackState::Open(stream) => match ready!(stream.as_mut().poll_next(cx)) {
                    Some(Ok(event)) if is_refusal(&event) && this.attempts.has_next() => {
                        this.attempts.next()
                    }
                    Some(Ok(event)) => {
                        this.has_emitted |= !matches!(event, ModelEvent::Warning(_));
                        return Poll::Ready(Some(Ok(event)));
                    }
                    Some(Err(error)) => this.attempts.next_after(error),
                    None => Ok(FallbackState::Done),
                },
            };

            let restarts = matches!(step, Ok(FallbackState::Opening(_)));
            match step {
                Ok(state) => this.state = state,
                Err(error) => {
                    this.state = FallbackState::Done;
                    return Poll::Ready(Some(Err(error)));
                }
            }

            if restarts && std::mem::take(&mut this.has_emitted) {
                return Poll::Ready(Some(Ok(ModelEvent::Restart)));
            }
        }
    }
}

fn is_refusal(event: &ModelEvent) -> bool {
    matches!(
        event,
        ModelEvent::Stop {
            reason: Some(StopReason::Refusal),
            ..
        }
    )
}
