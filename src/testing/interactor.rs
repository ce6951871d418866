//! An interactor that answers from a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::tool::Asking;
use crate::tools::ask::{Choice, Chosen, Interactor};
use crate::util::sync::lock;

/// An [`Interactor`] that gives prepared answers in order and records the questions. Clones share
/// both. A question fails when the answers are used up, or when the next one does not fit.
///
/// ```
/// use agentcore::testing::ScriptedInteractor;
/// use agentcore::tool::Asking;
/// use agentcore::tools::ask::{Chosen, Interactor};
///
/// # async fn example() -> agentcore::Result<()> {
/// let user = ScriptedInteractor::new().choose(Chosen::picked([0])).say("Ada");
/// let asking = Asking::default();
/// assert!(user.confirm(&asking, "Shall we begin?").await?);
/// assert_eq!(user.ask(&asking, "Your name?").await?, "Ada");
/// assert_eq!(user.asked(), ["Shall we begin?", "Your name?"]);
/// assert!(user.ask(&asking, "And?").await.is_err());
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScriptedInteractor(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<Scripted>,
    choices: Vec<Choice>,
    asked: Vec<String>,
    origins: Vec<Asking>,
}

#[derive(Debug)]
enum Scripted {
    Chosen(Chosen),
    Text(String),
    Gone(String),
}

impl ScriptedInteractor {
    /// Creates an interactor without answers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next question with a choice; a [`confirm`](Interactor::confirm) is one between
    /// yes and no.
    #[must_use]
    pub fn choose(self, chosen: Chosen) -> Self {
        self.then(Scripted::Chosen(chosen))
    }

    /// Answers the next question with a text.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.then(Scripted::Text(text.into()))
    }

    /// Makes the next question fail, as when there is no person to ask. The error contains `why`.
    #[must_use]
    pub fn gone(self, why: impl Into<String>) -> Self {
        self.then(Scripted::Gone(why.into()))
    }

    fn then(self, answer: Scripted) -> Self {
        lock(&self.0).answers.push_back(answer);
        self
    }

    /// Returns the questions asked so far.
    pub fn asked(&self) -> Vec<String> {
        lock(&self.0).asked.clone()
    }

    /// Returns the choices offered so far.
    pub fn choices(&self) -> Vec<Choice> {
        lock(&self.0).choices.clone()
    }

    /// Returns the origins of the questions so far.
    pub fn origins(&self) -> Vec<Asking> {
        lock(&self.0).origins.clone()
    }

    fn next(&self, asking: &Asking, question: &str) -> Result<Scripted> {
        let mut script = lock(&self.0);
        script.origins.push(asking.clone());
        script.asked.push(question.to_owned());
        match script.answers.pop_front() {
            Some(Scripted::Gone(why)) => Err(Error::new(ErrorKind::Other, why)),
            Some(answer) => Ok(answer),
            None => Err(misfit(question, "the script has no answer left")),
        }
    }
}

fn misfit(question: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::Other,
        format!("{question:?} was asked, but {why}"),
    )
}

#[async_trait]
impl Interactor for ScriptedInteractor {
    async fn choose(&self, asking: &Asking, choice: &Choice) -> Result<Chosen> {
        lock(&self.0).choices.push(choice.clone());
        match self.next(asking, &choice.question)? {
            Scripted::Chosen(chosen) => Ok(chosen),
            _ => Err(misfit(&choice.question, "the next answer is not a choice")),
        }
    }

    async fn ask(&self, asking: &Asking, question: &str) -> Result<String> {
        match self.next(asking, question)? {
            Scripted::Text(text) => Ok(text),
            _ => Err(misfit(question, "the next answer is not a text")),
        }
    }
}
