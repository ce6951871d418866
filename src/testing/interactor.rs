//! An interactor that answers from a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::tool::Asking;
use crate::tools::ask::{Choice, Chosen, Interactor};
use crate::util::sync::lock;

/// An [`Interactor`] that gives scripted answers in order and records the questions. Clones share
/// both. A question fails if no answer is left, or if the next answer is of another kind.
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
pub struct ScriptedInteractor(Arc<Mutex<InteractorScript>>);

#[derive(Debug, Default)]
struct InteractorScript {
    answers: VecDeque<ScriptedAnswer>,
    choices: Vec<Choice>,
    asked: Vec<String>,
    origins: Vec<Asking>,
}

/// An answer of the script.
#[derive(Debug)]
enum ScriptedAnswer {
    Chosen(Chosen),
    Text(String),
    /// There is no person to ask, for this reason.
    Gone(String),
}

impl ScriptedInteractor {
    /// Creates an interactor without answers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next question with a choice. A [`confirm`](Interactor::confirm) is a choice
    /// between yes and no.
    #[must_use]
    pub fn choose(self, chosen: Chosen) -> Self {
        self.then(ScriptedAnswer::Chosen(chosen))
    }

    /// Answers the next question with a text.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.then(ScriptedAnswer::Text(text.into()))
    }

    /// Makes the next question fail, as when there is no person to ask. The error contains `why`.
    #[must_use]
    pub fn gone(self, why: impl Into<String>) -> Self {
        self.then(ScriptedAnswer::Gone(why.into()))
    }

    fn then(self, answer: ScriptedAnswer) -> Self {
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

    /// Records a question and takes the next answer.
    fn next(&self, asking: &Asking, question: &str) -> Result<ScriptedAnswer> {
        let mut script = lock(&self.0);
        script.origins.push(asking.clone());
        script.asked.push(question.to_owned());
        match script.answers.pop_front() {
            Some(ScriptedAnswer::Gone(why)) => Err(Error::new(ErrorKind::Other, why)),
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
            ScriptedAnswer::Chosen(chosen) => Ok(chosen),
            _ => Err(misfit(&choice.question, "the next answer is not a choice")),
        }
    }

    async fn ask(&self, asking: &Asking, question: &str) -> Result<String> {
        match self.next(asking, question)? {
            ScriptedAnswer::Text(text) => Ok(text),
            _ => Err(misfit(question, "the next answer is not a text")),
        }
    }
}
