//! The call of a model: budget, retries, usage.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::error::{Error, ErrorKind, Result};
use crate::hook::Core;
use crate::model::{Model, ModelCard, ModelRequest, ModelResponse};
use crate::run::{Estimate, HighestPrice, Reservation, RunContext};
use crate::sdk::{ApiRetry, AssistantErrorKind, SystemKind};
use crate::util::sync::lock;

use super::attempt::stream_response;
use super::usage::ModelAttempt;

/// Returns the innermost step of the `wrap_model_call` hooks.
pub(crate) fn model_core() -> Core<ModelRequest> {
    Arc::new(|cx, request| {
        let model = cx.model();
        call_model(cx, model, request)
    })
}

impl RunContext {
    /// Calls a model outside the conversation, for example to write a summary. The call counts in
    /// the run's budget and statistics, and is repeated by the run's retry policy. Retries and
    /// warnings of the model are emitted; the response to a request that [`ModelRequest::new`] has
    /// created is not. The history does not change.
    ///
    /// To call the run's own model through the inner hooks, use [`Next::run`](crate::Next::run).
    ///
    /// # Errors
    ///
    /// Returns the model's error, [`ErrorKind::BudgetExhausted`] if the budget does not cover the
    /// call, or [`ErrorKind::Config`] if there is a budget in USD and the price of the model is
    /// unknown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn call_model(
        &self,
        model: &Arc<dyn Model>,
        request: impl Into<ModelRequest>,
    ) -> Result<ModelResponse> {
        call_model(self.clone(), model.clone(), request.into()).await
    }
}

/// Calls a model within the run's budget, and again while the retry policy allows it.
///
/// Not an `async fn`, whose future would hold the request twice.
fn call_model(
    cx: RunContext,
    model: Arc<dyn Model>,
    mut request: ModelRequest,
) -> BoxFuture<'static, Result<ModelResponse>> {
    Box::pin(async move {
        request = request.or_response_limits(cx.settings().response_limits);
        let requested_tokens = request.max_output_tokens;
        let mut retry = 0_u32;
        loop {
            // Reserved for each attempt, because a failed attempt has used a part of the budget.
            let reservation = reserve(&cx, &*model, &mut request, requested_tokens).await?;
            let attempt = ModelAttempt {
                cx: &cx,
                model: &*model,
                request: &request,
                reservation: &reservation,
            };
            let error = match call_once(attempt).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };

            // Released before the wait, so that other calls may use it.
            drop(reservation);

            // The usage of a failed attempt is recorded and its text discarded. Only the text of a
            // response that exceeded its limits is kept: the turn stores it.
            if error.kind() != ErrorKind::ResponseTooLarge {
                cx.discard_partial();
            }

            retry = retry.saturating_add(1);
            let Some(wait) = cx.settings().retry.wait(&error, retry) else {
                return Err(error);
            };

            report_retry(&cx, retry, wait, &error);
            sleep(wait).boxed().await;
        }
    })
}

/// Reserves the worst case of a call, and limits its response to the part of the budget that is
/// left.
async fn reserve(
    cx: &RunContext,
    model: &dyn Model,
    request: &mut ModelRequest,
    requested_tokens: Option<u32>,
) -> Result<Reservation> {
    if !cx.budget().is_limited() {
        return Ok(cx.budget().unlimited());
    }
    request.max_output_tokens = requested_tokens;
    let estimate = worst_case(cx, model, request).boxed().await?;
    let clock = &cx.shared().clock;
    let reservation = cx.budget().reserve(estimate, clock).boxed().await?;
    if let Some(cap) = reservation.max_output_tokens {
        request.max_output_tokens = Some(requested_tokens.map_or(cap, |tokens| tokens.min(cap)));
    }
    Ok(reservation)
}

/// Makes one attempt. Its permit is released when this returns, and so before the wait for a retry.
async fn call_once(attempt: ModelAttempt<'_>) -> Result<ModelResponse> {
    let cx = attempt.cx;
    let _permit = cx.budget().permit(&cx.shared().clock).await;
    let start_time = Instant::now();
    let result = stream_response(attempt).await;
    lock(&cx.shared().stats).api_time += start_time.elapsed();
    let mut response = result?;
    attempt.record_response_usage(&mut response);
    Ok(response)
}

fn report_retry(cx: &RunContext, retry: u32, wait: Duration, error: &Error) {
    tracing::debug!(session = %cx.session_id(), retry, ?wait, %error, "repeating a model call");
    cx.emit(SystemKind::ApiRetry(Box::new(ApiRetry::new(
        retry,
        cx.settings().retry.max_retries,
        u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        error.status(),
        wire_error(error),
    ))));
}

/// Estimates the worst case of a call over all models that may answer it.
async fn worst_case(
    cx: &RunContext,
    model: &dyn Model,
    request: &ModelRequest,
) -> Result<Estimate> {
    let cards = model.cards(request);
    if cx.budget().needs_prices() {
        check_prices(&cards)?;
    }

    let counter = cx.token_counter();
    let cache = request.provider_cache();
    let messages = cache.count(counter, &request.messages).await;
    let overhead = request.overhead(&**counter);
    let output_limits = cards.iter().map(|card| card.profile.max_output_tokens);
    Ok(Estimate {
        input_tokens: messages.saturating_add(overhead),
        max_output_tokens: request
            .max_output_tokens
            .or(output_limits.max())
            .unwrap_or_default(),
        price: HighestPrice::of(&cards),
    })
}

/// Checks that every model has valid prices, as a money budget requires.
pub(crate) fn check_prices(cards: &[ModelCard]) -> Result<()> {
    let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
    for card in cards {
        match card.profile.prices {
            Some(prices) if prices.are_sound() => {}
            Some(prices) => {
                return refuse(format!(
                    "max_budget_usd is set, but a price of {:?} is negative or not a number: \
                     {prices:?}",
                    card.id
                ));
            }
            None => {
                return refuse(format!(
                    "max_budget_usd is set, but the price of {:?} is not known; set prices in its \
                     profile, or count it as free with allow_unpriced()",
                    card.id
                ));
            }
        }
    }

    Ok(())
}

/// Converts an error into the error kind of the message stream.
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
