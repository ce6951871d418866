//! Who can be asked.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};

/// A question with answers to pick from.
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
    /// A word or two above the question.
    pub header: Option<String>,
    /// The question.
    pub question: String,
    /// The answers to pick from.
    pub options: Vec<ChoiceOption>,
    /// Whether several may be picked.
    pub multiple: bool,
    /// What may be written instead of picking, in a few words; `None` when nothing may.
    pub text: Option<String>,
}

impl Choice {
    /// A question without answers yet, of which one is to be picked.
    pub fn new(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            ..Self::default()
        }
    }

    /// Adds an answer.
    #[must_use]
    pub fn option(mut self, option: ChoiceOption) -> Self {
        self.options.push(option);
        self
    }

    /// The same question below a header.
    #[must_use]
    pub fn with_header(mut self, header: impl Into<String>) -> Self {
        self.header = Some(header.into());
        self
    }

    /// The same question, to which several answers may be picked.
    #[must_use]
    pub fn multiple(mut self, multiple: bool) -> Self {
        self.multiple = multiple;
        self
    }

    /// The same question, to which `what` may be written instead.
    #[must_use]
    pub fn or_text(mut self, what: impl Into<String>) -> Self {
        self.text = Some(what.into());
        self
    }

    /// Whether `chosen` is an answer to this question.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Other`], with what is wrong: none or too many answers, one that is not there,
    /// or a text where none may be written.
    pub fn check(&self, chosen: &Chosen) -> Result<()> {
        let wrong = if let Some(missing) =
            chosen.picked.iter().find(|at| **at >= self.options.len())
        {
            format!("there is no answer {missing}")
        } else if chosen.text.is_some() && self.text.is_none() {
            "a text was not asked for".to_owned()
        } else if chosen.picked.is_empty() && chosen.text.is_none() {
            "nothing was picked".to_owned()
        } else if !self.multiple && chosen.picked.len() + usize::from(chosen.text.is_some()) > 1 {
            "only one answer may be picked".to_owned()
        } else {
            return Ok(());
        };
        let text = format!("the answer to {:?} is no answer: {wrong}", self.question);
        Err(Error::new(ErrorKind::Other, text))
    }
}

/// An answer to pick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChoiceOption {
    /// The answer.
    pub label: String,
    /// What it means; empty when the label says it.
    pub description: String,
}

impl ChoiceOption {
    /// An answer that says it all.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            description: String::new(),
        }
    }

    /// The same answer, explained.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }
}

/// What was chosen of a [`Choice`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chosen {
    /// The places of the answers picked, from 0.
    pub picked: Vec<usize>,
    /// What was written instead, or, where several answers may be given, besides.
    pub text: Option<String>,
}

impl Chosen {
    /// The answers at these places.
    pub fn picked(places: impl IntoIterator<Item = usize>) -> Self {
        Self {
            picked: places.into_iter().collect(),
            text: None,
        }
    }

    /// An answer in somebody's own words.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            picked: Vec::new(),
            text: Some(text.into()),
        }
    }
}

/// Somebody who can be asked: a person at a terminal, in a chat, behind a dialog.
///
/// Questions may come from several calls at once; an interactor that can only ask one at a time
/// lets the others wait.
///
/// # Errors
///
/// Every method fails when nobody can be asked or the one who was asked went away; what the error
/// says, the model reads. None may wait for somebody who is not there.
///
/// # Cancel safety
///
/// A future that is dropped withdraws its question: what is answered later answers another one.
#[async_trait]
pub trait Interactor: Send + Sync + 'static {
    /// Lets somebody choose. The engine checks the answer with [`Choice::check`].
    async fn choose(&self, choice: &Choice) -> Result<Chosen>;

    /// Asks for a text.
    async fn ask(&self, question: &str) -> Result<String>;

    /// Asks for a yes or a no.
    async fn confirm(&self, question: &str) -> Result<bool> {
        let choice = Choice::new(question)
            .option(ChoiceOption::new("Yes"))
            .option(ChoiceOption::new("No"));
        let chosen = self.choose(&choice).await?;
        choice.check(&chosen)?;
        Ok(chosen.picked == [0])
    }
}

#[async_trait]
impl<T: Interactor + ?Sized> Interactor for Arc<T> {
    async fn choose(&self, choice: &Choice) -> Result<Chosen> {
        (**self).choose(choice).await
    }

    async fn ask(&self, question: &str) -> Result<String> {
        (**self).ask(question).await
    }

    async fn confirm(&self, question: &str) -> Result<bool> {
        (**self).confirm(question).await
    }
}

impl fmt::Debug for dyn Interactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interactor")
    }
}
