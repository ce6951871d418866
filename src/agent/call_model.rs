//! The centre of the model onion: budget, retries, one answer.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::error::{Error, ErrorKind, Result};
use crate::hook::Core;
use crate::message::{Message, Messages, TokenCounter};
use crate::model::{Model, ModelCard, ModelRequest, ModelResponse, request_overhead};
use crate::run::{DearestPrice, Estimate, ModelCaller, RunContext};
use crate::sdk::{ApiRetry, AssistantErrorKind, SystemKind};
use crate::util::sync::lock;

use super::agent::Agent;
use super::attempt::attempt;
use super::booking::book_answer;

/// The centre of the model onion of an agent's runs.
pub(super) fn core(agent: &Agent) -> Core<ModelRequest> {
    let agent = agent.clone();
    let counted = Arc::<Mutex<Counted>>::default();
    Arc::new(move |cx, request| {
        let model = cx.model();
        call_model(agent.clone(), cx, model, counted.clone(), request)
    })
}

/// Any model, asked as the agent's runs ask their own.
pub(super) fn caller(agent: &Agent) -> ModelCaller {
    let agent = agent.clone();
    Arc::new(move |cx, model, request| {
        call_model(agent.clone(), cx, model, Arc::default(), request)
    })
}

/// The tokens of a history that grows: what was counted before is known by its address.
#[derive(Default)]
struct Counted {
    /// Each message, and the tokens up to its end.
    seen: Vec<(Arc<Message>, u64)>,
}

impl Counted {
    fn count(&mut self, counter: &dyn TokenCounter, messages: &Messages) -> u64 {
        let all = messages.as_slice();
        let same = self
            .seen
            .iter()
            .zip(all)
            .take_while(|((old, _), new)| Arc::ptr_eq(old, new))
            .count();
        self.seen.truncate(same);
        let mut tokens = self.seen.last().map_or(0, |(_, tokens)| *tokens);
        for message in &all[same..] {
            tokens += counter.count_message(message);
            self.seen.push((message.clone(), tokens));
        }
        tokens
    }
}

/// Not an `async fn`, which would have room for the request twice.
fn call_model(
    agent: Agent,
    cx: RunContext,
    model: Arc<dyn Model>,
    counted: Arc<Mutex<Counted>>,
    mut request: ModelRequest,
) -> BoxFuture<'static, Result<ModelResponse>> {
    Box::pin(async move {
        let config = agent.config();
        let card = model.card(&request);
        let reservation = if cx.budget().is_limited() {
            let cards = model.cards(&request);
            if cx.budget().needs_prices() {
                check_prices(&cards)?;
            }
            let estimate = estimate(&*config.counter, &cards, &counted, &request);
            drop(cards);
            cx.budget().reserve(estimate).boxed().await?
        } else {
            cx.budget().unlimited()
        };
        if let Some(cap) = reservation.max_output_tokens {
            request.max_tokens = Some(request.max_tokens.map_or(cap, |asked| asked.min(cap)));
        }
        let mut retry = 0;
        loop {
            let error = {
                // Given back while the call waits for its next try.
                let _permit = cx.permits().acquire().await;
                let started = Instant::now();
                let show = config.request.partial_messages;
                let attempt = attempt(&cx, &*model, &card, &request, show).await;
                lock(&cx.shared().stats).api_time += started.elapsed();
                match attempt {
                    Ok(response) => {
                        book_answer(&cx, &card, &response);
                        return Ok(response);
                    }
                    Err(error) => error,
                }
            };
            // What the provider said before it failed is booked, and no answer to keep.
            drop(cx.take_partial());
            retry += 1;
            let policy = &config.limits.retry;
            let Some(wait) = policy.wait(&error, retry) else {
                return Err(error.attributed());
            };
            tracing::debug!(session = %cx.session_id(), retry, ?wait, %error, "repeating a model call");
            cx.emit(SystemKind::ApiRetry(Box::new(ApiRetry::new(
                retry,
                policy.max_retries,
                u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                error.status(),
                wire_error(&error),
            ))));
            sleep(wait).boxed().await;
        }
    })
}

/// What is paid with money must have a price.
fn check_prices(cards: &[ModelCard]) -> Result<()> {
    let Some(card) = cards.iter().find(|card| card.profile.prices.is_none()) else {
        return Ok(());
    };
    let text = format!(
        "the run has a money budget, but the price of {:?} is not known; give its profile prices, \
         or accept that it counts as free with allow_unpriced()",
        card.id
    );
    Err(Error::new(ErrorKind::Config, text).attributed())
}

/// The worst case of a call that any of the models may come to answer.
fn estimate(
    counter: &dyn TokenCounter,
    cards: &[ModelCard],
    counted: &Mutex<Counted>,
    request: &ModelRequest,
) -> Estimate {
    let messages = lock(counted).count(counter, &request.messages);
    let longest = cards.iter().map(|card| card.profile.max_output_tokens);
    Estimate {
        input_tokens: messages + request_overhead(counter, &request.system, &request.tools),
        max_output_tokens: request.max_tokens.or(longest.max()).unwrap_or_default(),
        price: DearestPrice::of(cards),
    }
}

/// The error in the words of the message stream.
pub(super) fn wire_error(error: &Error) -> AssistantErrorKind {
    use crate::error::ErrorKind::*;
    match error.kind() {
        Auth | PermissionDenied => AssistantErrorKind::AuthenticationFailed,
        QuotaExhausted => AssistantErrorKind::BillingError,
        RateLimited => AssistantErrorKind::RateLimit,
        Overloaded => AssistantErrorKind::Overloaded,
        InvalidRequest | ContextTooLong | RequestTooLarge => AssistantErrorKind::InvalidRequest,
        NotFound => AssistantErrorKind::ModelNotFound,
        Server | StreamTruncated | Protocol => AssistantErrorKind::ServerError,
        _ => AssistantErrorKind::Unknown,
    }
}
