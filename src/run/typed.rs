//! A run whose response is a value.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

use super::exit_reason::ExitReason;
use super::output::RunOutput;
use super::run::Run;

/// A run whose response is a `T`; await it.
#[must_use = "a run does nothing unless it is awaited"]
pub struct TypedRun<T> {
    run: Run,
    output: PhantomData<fn() -> T>,
}

#[cfg(feature = "schema")]
impl Run {
    /// Requests a response that is a `T`, whose JSON Schema is derived.
    ///
    /// ```
    /// use agentcore::{Agent, schemars, schemars::JsonSchema};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct City {
    ///     name: String,
    ///     inhabitants: u64,
    /// }
    ///
    /// # async fn example(agent: Agent) -> Result<(), agentcore::Error> {
    /// let city: City = agent.run("The capital of Norway?").output().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`finish`](Self::finish), and [`ErrorKind::StructuredOutput`] if no
    /// response matched within the allowed retries, or if the run ends without a response.
    /// [`Error::partial`] has the run's partial output.
    pub fn output<T>(self) -> TypedRun<T>
    where
        T: DeserializeOwned + schemars::JsonSchema,
    {
        let schema = crate::tool::schema_of::<T>();
        // The name of an output schema must be `[A-Za-z0-9_-]{1,64}`.
        let name: String = T::schema_name()
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .take(64)
            .collect();
        TypedRun {
            run: self.output_schema(name, schema),
            output: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> TypedRun<T> {
    /// Returns the run itself, to read its messages. The response is then
    /// [`RunOutput::structured`], a JSON value that was checked against the schema.
    pub fn into_run(self) -> Run {
        self.run
    }

    async fn finish(run: Run) -> Result<T> {
        read(run.finish().await?)
    }
}

fn read<T: DeserializeOwned>(output: RunOutput) -> Result<T> {
    let Some(value) = output.structured.clone() else {
        let text = match output.end {
            ExitReason::StructuredOutput => {
                "the model gave no answer that matches the schema within the allowed retries".into()
            }
            end => format!("the run ended ({end}) before the model gave an answer"),
        };

        return Err(Error::new(ErrorKind::StructuredOutput, text).attach(Arc::new(output)));
    };

    serde_json::from_value(value).map_err(|error| {
        let text = format!(
            "the answer matches the schema but not the type: {error}; derive the schema from the \
             type itself"
        );
        Error::new(ErrorKind::StructuredOutput, text)
            .with_source(error)
            .attach(Arc::new(output))
    })
}

impl<T: DeserializeOwned + 'static> IntoFuture for TypedRun<T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'static, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(Self::finish(self.run))
    }
}

impl<T> fmt::Debug for TypedRun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedRun").field(&self.run).finish()
    }
}
