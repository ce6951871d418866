//! The interface to a person who answers questions.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::sdk::{ChoiceLabel, Choices, PermissionRequest};
use crate::tool::{Answer, Asking};

/// A question with options to pick from.
///
/// ```
/// use agentcore::tools::ask::{Choice, ChoiceOption};
///
/// let choice = Choice::new("Which database?")
///     .option(ChoiceOption::new("SQLite").with_description("one file, no server"))
///     .option(ChoiceOption::new("Postgres"))
///     .or_text("another one");
/// assert_eq!(choice.options.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// One or two words above the question.
    pub header: Option<String>,
    /// The question.
    pub question: String,
    /// The options to pick from.
    pub options: Vec<ChoiceOption>,
    /// True if several may be picked.
    pub multiple: bool,
    /// A short label for a free text that may be typed instead of picking an option; `None` if no
    /// text may be typed.
    pub text: Option<String>,
}

impl Choice {
    /// Creates a question of which one option may be picked. Add the options with
    /// [`option`](Self::option).
    pub fn new(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            ..Self::default()
        }
    }

    /// Adds an option.
    #[must_use]
    pub fn option(mut self, option: ChoiceOption) -> Self {
        self.options.push(option);
        self
    }

    /// Sets the header above the question.
    #[must_use]
    pub fn with_header(mut self, header: impl Into<String>) -> Self {
        self.header = Some(header.into());
        self
    }

    /// Sets whether several options may be picked.
    #[must_use]
    pub fn multiple(mut self, multiple: bool) -> Self {
        self.multiple = multiple;
        self
    }

    /// Allows a typed text instead of a picked option. `what` is a short label for it.
    #[must_use]
    pub fn or_text(mut self, what: impl Into<String>) -> Self {
        self.text = Some(what.into());
        self
    }

    /// Returns the question of a run, if it has options to pick from.
    pub(crate) fn of_request(request: &PermissionRequest) -> Option<Self> {
        let choices = request.choices.as_deref()?;
        let mut choice = Self::new(request.question.as_str())
            .multiple(choices.multiple)
            .or_text("another answer");
        choice.header.clone_from(&choices.header);
        for option in &choices.options {
            let option = ChoiceOption::new(option.label.as_str())
                .with_description(option.description.as_str());
            choice = choice.option(option);
        }
        Some(choice)
    }

    /// Returns the options in the form of a run's question.
    pub(super) fn choices(&self) -> Choices {
        let options = self
            .options
            .iter()
            .map(|option| ChoiceLabel::new(option.label.as_str(), option.description.as_str()));
        let mut choices = Choices::new(options).multiple(self.multiple);
        choices.header.clone_from(&self.header);
        choices
    }

    /// Checks that `chosen` is an answer to this question.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Other`] if there is neither a picked option nor a text, if there are
    /// several but only one is permitted, if an option does not exist or was picked twice, or if
    /// there is a text but none may be typed. The error names the problem.
    pub fn check(&self, chosen: &Chosen) -> Result<()> {
        let reason = if let Some(missing_index) = chosen
            .picked
            .iter()
            .find(|index| **index >= self.options.len())
        {
            format!("there is no answer at position {missing_index}")
        } else if chosen.text.is_some() && self.text.is_none() {
            "a text was not asked for".to_owned()
        } else if chosen.picked.is_empty() && chosen.text.is_none() {
            "nothing was picked".to_owned()
        } else if !self.multiple && chosen.picked.len() + usize::from(chosen.text.is_some()) > 1 {
            "only one answer may be picked".to_owned()
        } else if has_repeats(&chosen.picked) {
            "an answer was picked more than once".to_owned()
        } else {
            return Ok(());
        };

        let text = format!("the answer to {:?} is not valid: {reason}", self.question);
        Err(Error::new(ErrorKind::Other, text))
    }
}

fn has_repeats(picked: &[usize]) -> bool {
    let mut indexes = HashSet::new();
    !picked.iter().all(|index| indexes.insert(index))
}

/// An option of a [`Choice`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChoiceOption {
    /// The text of the option.
    pub label: String,
    /// The meaning; empty if the label is self-explanatory.
    pub description: String,
}

impl ChoiceOption {
    /// Creates an option without a description.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            description: String::new(),
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }
}

/// The answer to a [`Choice`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chosen {
    /// The indexes of the picked options, from 0.
    pub picked: Vec<usize>,
    /// The text that was typed instead or, where several options may be picked, in addition.
    pub text: Option<String>,
}

impl From<Chosen> for Answer {
    fn from(chosen: Chosen) -> Self {
        Self::Reply {
            text: chosen.text.unwrap_or_default(),
            picked: chosen.picked,
        }
    }
}

impl Chosen {
    /// Creates an answer that picks the options at these indexes, from 0.
    pub fn picked(indexes: impl IntoIterator<Item = usize>) -> Self {
        Self {
            picked: indexes.into_iter().collect(),
            text: None,
        }
    }

    /// Creates an answer in the person's own words.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            picked: Vec::new(),
            text: Some(text.into()),
        }
    }
}

/// The interface to a person who answers questions: at a terminal, in a chat, in a dialog.
///
/// Several calls may ask concurrently; an interactor that can only ask one question at a time makes
/// the other questions wait. An interactor for several sessions finds the person to ask in the
/// [`Asking`] of a question.
///
/// # Errors
///
/// Every method returns an error if there is no person to ask, or if the person who was asked has
/// left. The model reads the text of the error. No method may wait for a person who is absent.
///
/// # Cancel safety
///
/// Dropping a future withdraws its question. An answer that arrives later must be discarded: it
/// must not answer the next question.
#[async_trait]
pub trait Interactor: Send + Sync + 'static {
    /// Asks the person to choose. The caller checks the answer with [`Choice::check`].
    async fn choose(&self, asking: &Asking, choice: &Choice) -> Result<Chosen>;

    /// Asks for a text.
    async fn ask(&self, asking: &Asking, question: &str) -> Result<String>;

    /// Asks for a yes or a no.
    async fn confirm(&self, asking: &Asking, question: &str) -> Result<bool> {
        let choice = Choice::new(question)
            .option(ChoiceOption::new("Yes"))
            .option(ChoiceOption::new("No"));
        let chosen = self.choose(asking, &choice).await?;
        choice.check(&chosen)?;
        Ok(chosen.picked == [0])
    }
}

#[async_trait]
impl<T: Interactor + ?Sized> Interactor for Arc<T> {
    async fn choose(&self, asking: &Asking, choice: &Choice) -> Result<Chosen> {
        (**self).choose(asking, choice).await
    }

    async fn ask(&self, asking: &Asking, question: &str) -> Result<String> {
        (**self).ask(asking, question).await
    }

    async fn confirm(&self, asking: &Asking, question: &str) -> Result<bool> {
        (**self).confirm(asking, question).await
    }
}

impl fmt::Debug for dyn Interactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interactor")
    }
}
