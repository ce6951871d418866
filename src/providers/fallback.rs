//! Several models, one after the other.

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

/// Asks the next model when one cannot answer.
///
/// It moves on when a model is unreachable (`Connect`, `Dns`, `Tls`, `Proxy`, `Timeout`), will not
/// serve us (`Auth`, `PermissionDenied`, `NotFound`, `RateLimited`, `QuotaExhausted`), is in
/// trouble (`Overloaded`, `Server`, `StreamTruncated`), or refuses (`Refused`, or a stop for
/// [`Refusal`](StopReason::Refusal)). Any other failure would be the next model's too and is
/// returned. If part of an answer was emitted already, [`ModelEvent::Restart`] discards it first.
///
/// Every request begins with the first model again. When all have failed the last error is
/// returned, or the first one if only that is worth a retry. Id and profile are the first model's;
/// [`ModelRequest::model`] is meant for that one and the others do not see it. The usage of another
/// model is recorded under that model, at its price; a budget reserves the worst case of the most
/// expensive one, so under a money budget the price of each must be known. After a model that was
/// interrupted, the next one is asked only when the budget covers both.
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
    /// These models, in this order. Models of different types are added with
    /// [`then`](Self::then); without any model every request is a
    /// [`Config`](ErrorKind::Config) error.
    pub fn new<M: Model>(models: impl IntoIterator<Item = M>) -> Self {
        let models: Vec<_> = models.into_iter().map(erase).collect();
        let profile = models
            .first()
            .map(|model| *model.profile())
            .unwrap_or_default();
        Self { models, profile }
    }

    /// The same with one more model at the end.
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

    /// Counts as the first model does.
    async fn count_tokens(&self, request: ModelRequest) -> Result<Option<u64>> {
        match self.models.first() {
            Some(model) => model.count_tokens(request).await,
            None => Ok(None),
        }
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        let attempts = Attempts::new(self.models.clone(), request);
        let mut falling = Falling {
            attempts,
            state: State::Over,
            emitted: false,
        };

        falling.state = falling.attempts.next()?;

        // The first answer is awaited here, so that a failure of all models is this call's.
        while let State::Opening(opening) = &mut falling.state {
            falling.state = match opening.await {
                Ok(stream) => State::Open(stream),
                Err(error) => falling.attempts.after(error)?,
            };
        }

        Ok(Box::pin(falling))
    }
}

/// True if the next model may succeed.
fn moves_on(kind: ErrorKind) -> bool {
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

/// The caches of the providers between requests: one for each model, in that of the request.
struct Slots(Vec<ProviderCache>);

struct Attempts {
    models: Vec<Arc<dyn Model>>,
    slots: Vec<ProviderCache>,
    request: ModelRequest,
    next: usize,
    first_error: Option<Error>,
}

impl Attempts {
    fn new(models: Vec<Arc<dyn Model>>, request: ModelRequest) -> Self {
        let mut slots = match request.provider_cache().take::<Slots>() {
            Some(slots) => slots.0,
            None => Vec::new(),
        };

        slots.resize_with(models.len(), ProviderCache::default);
        request.provider_cache().put(Box::new(Slots(slots.clone())));
        Self {
            models,
            slots,
            request,
            next: 0,
            first_error: None,
        }
    }

    fn has_next(&self) -> bool {
        self.next < self.models.len()
    }

    fn next(&mut self) -> Result<State> {
        let (Some(model), Some(slot)) = (self.models.get(self.next), self.slots.get(self.next))
        else {
            return Err(Error::new(
                ErrorKind::Config,
                "a fallback model without any model",
            ));
        };

        let model = model.clone();
        let mut request = self.request.clone().with_provider_cache(slot.clone());
        let mut card = None;
        if self.next > 0 {
            request.model = None;
            card = Some(model.card(&request));
        }

        self.next += 1;
        Ok(State::Opening(Box::pin(async move {
            let stream = model.stream(request).await?;
            Ok(match card {
                Some(card) => signed(stream, card),
                None => stream,
            })
        })))
    }

    /// The state after a failure: the next attempt, or the error to return.
    fn after(&mut self, error: Error) -> Result<State> {
        if moves_on(error.kind()) && self.has_next() {
            tracing::warn!(kind = ?error.kind(), "a model failed, the next one is asked");
            self.first_error.get_or_insert(error);
            return self.next();
        }
        match self.first_error.take() {
            // An answer that was too large is one: the models are not all asked again.
            _ if error.kind() == ErrorKind::ResponseTooLarge => Err(error),
            Some(first) if first.is_retryable() && !error.is_retryable() => Err(first),
            _ => Err(error),
        }
    }
}

/// The stream with the name of the model that answers in its head.
fn signed(stream: ModelStream, card: ModelCard) -> ModelStream {
    let mut card = Some(Box::new(card));
    let sign = move |event: Result<ModelEvent>| {
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

    stream.flat_map(sign).boxed()
}

struct Falling {
    attempts: Attempts,
    state: State,
    /// True if part of an answer was emitted that a further attempt must discard.
    emitted: bool,
}

enum State {
    Opening(BoxFuture<'static, Result<ModelStream>>),
    Open(ModelStream),
    Over,
}

impl Stream for Falling {
    type Item = Result<ModelEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let step = match &mut this.state {
                State::Over => return Poll::Ready(None),
                State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(stream) => Ok(State::Open(stream)),
                    Err(error) => this.attempts.after(error),
                },
                State::Open(stream) => match ready!(stream.as_mut().poll_next(cx)) {
                    Some(Ok(event)) if !is_refusal(&event) || !this.attempts.has_next() => {
                        this.emitted |= !matches!(event, ModelEvent::Warning(_));
                        return Poll::Ready(Some(Ok(event)));
                    }
                    Some(Ok(_)) => this.attempts.next(),
                    Some(Err(error)) => this.attempts.after(error),
                    None => Ok(State::Over),
                },
            };

            let restarts = matches!(step, Ok(State::Opening(_)));
            match step {
                Ok(state) => this.state = state,
                Err(error) => {
                    this.state = State::Over;
                    return Poll::Ready(Some(Err(error)));
                }
            }

            if restarts && std::mem::take(&mut this.emitted) {
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
