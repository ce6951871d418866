//! Answers in the wire formats of the four APIs.

use super::{Dialect, anthropic, gemini, openai, responses};

/// The number of deltas of a short answer.
const SHORT: usize = 50;

/// The deltas of a text, escaped for a JSON string.
const WORDS: [&str; 8] = [
    " the",
    " weather",
    " in",
    " Lisbon",
    " is",
    " mild,\\n",
    " \\\"sunny\\\"",
    " and dry",
];

pub(super) fn short(dialect: Dialect) -> String {
    deltas(dialect, SHORT)
}

pub(super) fn deltas(dialect: Dialect, count: usize) -> String {
    let words: Vec<_> = WORDS.iter().copied().cycle().take(count).collect();
    match dialect {
        Dialect::OpenAi => openai::text(&words),
        Dialect::Anthropic => anthropic::text(&words),
        Dialect::Responses => responses::text(&words),
        Dialect::Gemini => gemini::text(&words),
    }
}

/// An answer that begins and does not continue.
pub(super) fn beginning(dialect: Dialect) -> String {
    match dialect {
        Dialect::OpenAi => openai::beginning(),
        Dialect::Anthropic => anthropic::beginning(),
        Dialect::Responses => responses::beginning(),
        Dialect::Gemini => gemini::beginning(),
    }
}

/// Four calls. `number` makes their ids and arguments different from those of other answers.
pub(super) fn calls(dialect: Dialect, number: usize) -> String {
    let calls: Vec<_> = (0..4).map(|index| Call::new(number, index)).collect();
    match dialect {
        Dialect::OpenAi => openai::calls(&calls),
        Dialect::Anthropic => anthropic::calls(&calls),
        Dialect::Responses => responses::calls(&calls),
        Dialect::Gemini => gemini::calls(&calls),
    }
}

/// A call of an answer.
pub(super) struct Call {
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) name: String,
    /// The pieces of the arguments, escaped for a JSON string.
    pub(super) pieces: [String; 5],
}

impl Call {
    fn new(number: usize, index: usize) -> Self {
        let pieces = [
            "{\\\"city\\\":",
            "\\\"Lis",
            "bon\\\",",
            "\\\"day\\\":",
            &format!("{number}}}"),
        ];
        Self {
            index,
            id: format!("call_{number:08}_{index}"),
            name: format!("forecast_{index}"),
            pieces: pieces.map(str::to_owned),
        }
    }

    /// Returns the unescaped arguments.
    pub(super) fn args(&self) -> String {
        self.pieces.concat().replace('\\', "")
    }
}
