//! Questions to the user: the [`Interactor`], and its uses.
//!
//! | | |
//! |---|---|
//! | [`ask_user_question`] | the tool `AskUserQuestion`, with which the model asks |
//! | [`ask_user_question_in_stream`] | the same, through the stream of the run |
//! | [`InteractorConfirmer`] | answers the permission questions of a run |
//! | [`TerminalInteractor`] | asks at the terminal (Unix) |
//!
//! In tests, [`ScriptedInteractor`](crate::testing::ScriptedInteractor) answers.

mod confirmer;
mod interactor;
mod question;
#[cfg(unix)]
mod terminal;

pub use confirmer::InteractorConfirmer;
pub use interactor::{Choice, ChoiceOption, Chosen, Interactor};
#[cfg(feature = "gateway")]
pub(crate) use question::late_result;
pub use question::{ask_user_question, ask_user_question_in_stream};
#[cfg(unix)]
pub use terminal::TerminalInteractor;
