//! Asking the user: the [`Interactor`], and what is made with one.
//!
//! | | |
//! |---|---|
//! | [`ask_user_question`] | the tool `AskUserQuestion`, by which the model asks |
//! | [`InteractorConfirmer`] | answers the permission questions of a run |
//! | [`TerminalInteractor`] | asks at the terminal (Unix) |
//!
//! [`ScriptedInteractor`](crate::testing::ScriptedInteractor) answers in tests.

mod confirmer;
mod interactor;
mod question;
#[cfg(unix)]
mod terminal;

pub use confirmer::InteractorConfirmer;
pub use interactor::{Choice, ChoiceOption, Chosen, Interactor};
pub use question::ask_user_question;
#[cfg(unix)]
pub use terminal::TerminalInteractor;
