//! The trait a provider implements.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::error::Result;
use crate::util::Pace;

use super::card::ModelCard;
use super::event::ModelEvent;
use super::fold::ResponseFold;
use super::meter::ResponseMeter;
use super::profile::ModelProfile;
use super::request::ModelRequest;
use super::response::ModelResponse;

/// The events of one response. Dropping it cancels the request.
pub type ModelStream = BoxStream<'static, Result<ModelEvent>>;

/// A language model.
///
/// Implementations send one request and decode one stream. They do not retry: the loop does,
/// because only it tracks which events were emitted and which calls have run.
///
/// ```
/// use agentcore::model::{ModelProfile, ResponseHead};
/// use agentcore::{
///     Model, ModelEvent, ModelRequest, ModelStream, Result, StopReason, async_trait,
/// };
/// use futures::{StreamExt, stream};
///
/// /// Answers with the last message.
/// #[derive(Default)]
/// struct Echo {
///     profile: ModelProfile,
/// }
///
/// #[async_trait]
/// impl Model for Echo {
///     fn id(&self) -> &str {
///         "example:echo"
///     }
///
///     fn profile(&self) -> &ModelProfile {
///         &self.profile
///     }
///
///     async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
///         let events = [
///             ModelEvent::Start(Box::new(ResponseHead::new("response_1", "echo"))),
///             ModelEvent::Text(request.messages.last_content().into_owned()),
///             ModelEvent::stop(StopReason::EndTurn),
///         ];
///         Ok(stream::iter(events.map(Ok)).boxed())
///     }
/// }
///
/// # async fn example() -> Result<()> {
/// let response = Echo::default().call(ModelRequest::new("hello")).await?;
/// assert_eq!(response.text(), "hello");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Model`",
    label = "expected a model, e.g. `Anthropic::from_env(\"claude-sonnet-5\")?`",
    note = "models, `Arc<M>`, `Box<M>` and `Arc<dyn Model>` are accepted; `providers::resolve(\"ollama:llama3.1:8b\")?` makes one from a string"
)]
pub trait Model: Send + Sync + 'static {
    /// Returns the provider and the name of the model, such as `anthropic:claude-sonnet-5`.
    fn id(&self) -> &str;

    /// Returns the limits, prices and abilities of the model.
    fn profile(&self) -> &ModelProfile;

    /// Returns the id and the profile of the model that answers `request`; the prices of this
    /// profile apply. It is this model, or the model that [`ModelRequest::model`] names, which is
    /// looked up in [`Catalog::builtin`](super::Catalog::builtin).
    ///
    /// A model that may pass a request to other models returns all of them from
    /// [`cards`](Self::cards), and names the model that answered in
    /// [`ResponseHead::answered_by`](super::ResponseHead::answered_by).
    fn card(&self, request: &ModelRequest) -> ModelCard {
        ModelCard::of(self.id(), self.profile(), request.model.as_deref())
    }

    /// Returns all models that may answer `request`. A budget reserves the cost of the most
    /// expensive of them. Defaults to [`card`](Self::card).
    fn cards(&self, request: &ModelRequest) -> Vec<ModelCard> {
        vec![self.card(request)]
    }

    /// Sends `request` and returns the response's events as they arrive. The stream ends with
    /// [`ModelEvent::Stop`] or an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is invalid or refused, or the connection fails before the
    /// first event. Later failures are errors of the stream. The loop repeats the request if
    /// [`Error::is_retryable`](crate::Error::is_retryable) returns `true`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the stream cancels the request.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream>;

    /// Sends `request` and waits for the whole response, which is made of the events of
    /// [`stream`](Model::stream).
    ///
    /// # Errors
    ///
    /// Returns the errors of the stream, and
    /// [`ErrorKind::ResponseTooLarge`](crate::ErrorKind::ResponseTooLarge) beyond
    /// [`ModelRequest::response_limits`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    async fn call(&self, request: ModelRequest) -> Result<ModelResponse> {
        let mut meter = ResponseMeter::new(request.response_limits());
        let mut pace = Pace::default();
        let mut stream = self.stream(request).await?;
        let mut fold = ResponseFold::new();
        while let Some(event) = stream.next().await {
            let mut event = event?;
            let old_bytes = meter.bytes();
            meter.count(&mut event)?;
            fold.push(event);
            if fold.is_stopped() {
                break;
            }

            pace.step(meter.bytes().saturating_sub(old_bytes)).await;
        }

        fold.finish()
    }

    /// Returns the number of tokens of the request's prompt, as the provider counts them, or `None`
    /// if the provider has no endpoint for this. Defaults to `None`.
    ///
    /// `Anthropic`, `OpenAiResponses` and `Gemini` count, unless their server has no such endpoint.
    /// `OpenAiAuto` counts the requests that it sends to the Responses API, and `FallbackModel`
    /// asks its first model. `OpenAi` counts with the dialect of llama.cpp only, `Ollama` does not
    /// count, and a `Cassette` records no counts. A wrapper around a model forwards this method,
    /// as `StrictModel` does.
    ///
    /// A run calls this method near the limit of its [`Compactor`](super::Compactor), at most once
    /// in a turn. A call costs a request, but no tokens.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is invalid or refused, or if the connection fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    async fn count_tokens(&self, _request: ModelRequest) -> Result<Option<u64>> {
        Ok(None)
    }
}

macro_rules! forward {
    ($pointer:ident) => {
        #[async_trait]
        impl<M: Model + ?Sized> Model for $pointer<M> {
            fn id(&self) -> &str {
                (**self).id()
            }

            fn profile(&self) -> &ModelProfile {
                (**self).profile()
            }

            fn card(&self, request: &ModelRequest) -> ModelCard {
                (**self).card(request)
            }

            fn cards(&self, request: &ModelRequest) -> Vec<ModelCard> {
                (**self).cards(request)
            }

            async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
                (**self).stream(request).await
            }

            async fn call(&self, request: ModelRequest) -> Result<ModelResponse> {
                (**self).call(request).await
            }

            async fn count_tokens(&self, request: ModelRequest) -> Result<Option<u64>> {
                (**self).count_tokens(request).await
            }
        }
    };
}

forward!(Arc);
forward!(Box);

/// Converts a model to an `Arc<dyn Model>`. A model that is one already is returned as it is.
pub(crate) fn erase<M: Model>(model: M) -> Arc<dyn Model> {
    let mut slot = Some(model);
    if let Some(shared_slot) = (&mut slot as &mut dyn Any).downcast_mut::<Option<Arc<dyn Model>>>()
        && let Some(shared_model) = shared_slot.take()
    {
        return shared_model;
    }
    match slot {
        Some(model) => Arc::new(model),
        None => unreachable!("the slot is emptied only on the path that returned"),
    }
}
