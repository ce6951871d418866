//! A model that is a function.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream;

use crate::error::Result;
use crate::model::{Model, ModelEvent, ModelProfile, ModelRequest, ModelStream, ResponseHead};

use super::events;

/// A model whose answer is computed from the request.
///
/// ```
/// use agentcore::testing::FunctionModel;
/// use agentcore::{Model, ModelRequest};
///
/// # let run = async {
/// let echo = FunctionModel::text(|request| request.messages.last_content().to_uppercase());
/// assert_eq!(echo.call(ModelRequest::new("hello")).await?.text(), "HELLO");
/// # Ok::<(), agentcore::Error>(()) };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone)]
pub struct FunctionModel {
    answer: Arc<AnswerFn>,
    id: Arc<str>,
    profile: Arc<ModelProfile>,
}

type AnswerFn = dyn Fn(ModelRequest) -> BoxFuture<'static, Result<ModelStream>> + Send + Sync;

impl FunctionModel {
    /// Answers with the events that `f` returns. A missing `Start` is added, and a missing `Stop`
    /// too: `ToolUse` if there are calls, else `EndTurn`. A stream that ends with an error has no
    /// `Stop`.
    pub fn new<F>(f: F) -> Self
    where
        F: Fn(ModelRequest) -> Vec<Result<ModelEvent>> + Send + Sync + 'static,
    {
        Self::of(Arc::new(move |request| {
            let head = ResponseHead::new("response", "function");
            let events = events::complete(f(request), head);
            Box::pin(async { Ok(stream::iter(events).boxed()) })
        }))
    }

    /// Answers with the text that `f` returns, word by word.
    pub fn text<F>(f: F) -> Self
    where
        F: Fn(&ModelRequest) -> String + Send + Sync + 'static,
    {
        Self::new(move |request| {
            let text = f(&request);
            events::words(&text)
                .map(|word| Ok(ModelEvent::Text(word)))
                .collect()
        })
    }

    /// Answers with the stream that `f` makes, unchanged. `f` may wait, and may fail.
    ///
    /// A whole answer begins with `Start` and ends with `Stop`, such as one of a slow model:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agentcore::model::ResponseHead;
    /// use agentcore::testing::FunctionModel;
    /// use agentcore::{Model, ModelEvent, ModelRequest, StopReason};
    /// use futures::{StreamExt, stream};
    ///
    /// # let run = async {
    /// let slow = FunctionModel::stream(|_request| async {
    ///     let head = ResponseHead::new("response", "slow");
    ///     let events = [
    ///         ModelEvent::Start(Box::new(head)),
    ///         ModelEvent::Text("Slowly, ".to_owned()),
    ///         ModelEvent::Text("but surely.".to_owned()),
    ///         ModelEvent::stop(StopReason::EndTurn),
    ///     ];
    ///     let events = stream::iter(events).then(|event| async {
    ///         tokio::time::sleep(Duration::from_millis(10)).await;
    ///         Ok(event)
    ///     });
    ///     Ok(events.boxed())
    /// });
    /// let answer = slow.call(ModelRequest::new("hello")).await?;
    /// assert_eq!(answer.text(), "Slowly, but surely.");
    /// # Ok::<(), agentcore::Error>(()) };
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    ///
    /// A model that fails:
    ///
    /// ```
    /// use agentcore::testing::FunctionModel;
    /// use agentcore::{Error, ErrorKind, Model, ModelRequest};
    ///
    /// # let run = async {
    /// let busy = FunctionModel::stream(|_request| async {
    ///     Err(Error::new(ErrorKind::Overloaded, "try again later"))
    /// });
    /// assert!(busy.call(ModelRequest::new("hello")).await.is_err());
    /// # };
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
    /// ```
    pub fn stream<F, Fut>(f: F) -> Self
    where
        F: Fn(ModelRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ModelStream>> + Send + 'static,
    {
        Self::of(Arc::new(move |request| Box::pin(f(request))))
    }

    /// Sets the id. Defaults to `function:model`.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the profile.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = Arc::new(profile);
        self
    }

    fn of(answer: Arc<AnswerFn>) -> Self {
        Self {
            answer,
            id: "function:model".into(),
            profile: Arc::default(),
        }
    }
}

impl fmt::Debug for FunctionModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionModel")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for FunctionModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        (self.answer)(request).await
    }
}
