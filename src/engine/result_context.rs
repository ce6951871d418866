//! The additions to the result of a call.

use std::sync::{Arc, Mutex};

use crate::message::ToolResult;
use crate::tool::UnansweredQuestion;
use crate::util::secret::redact_text;
use crate::util::sync::lock;

use super::result_limits::limit_content;

/// The additions to a call: the texts for the model that hooks and gates add to its result, the
/// unanswered question of its tool, and the question that a person approved. Clones share them.
#[derive(Clone, Default)]
pub(super) struct ResultContext(Arc<Mutex<Additions>>);

#[derive(Default)]
struct Additions {
    texts: Vec<String>,
    question: Option<UnansweredQuestion>,
    approved_question: Option<String>,
}

impl ResultContext {
    /// Creates the additions of a call with the texts that were stored with it. Secrets are
    /// removed.
    pub(super) fn new(mut texts: Vec<String>) -> Self {
        texts.iter_mut().for_each(redact_text);
        Self(Arc::new(Mutex::new(Additions {
            texts,
            ..Additions::default()
        })))
    }

    /// Replaces all texts by those of the hooks, which were asked again. Secrets are removed.
    pub(super) fn replace(&self, mut texts: Vec<String>) {
        texts.iter_mut().for_each(redact_text);
        lock(&self.0).texts = texts;
    }

    /// Adds the text of the gate, unless an earlier check of the same call has added it.
    /// Secrets are removed.
    pub(super) fn add(&self, text: Option<String>) {
        let Some(mut text) = text else {
            return;
        };
        redact_text(&mut text);
        let texts = &mut lock(&self.0).texts;
        if !texts.contains(&text) {
            texts.push(text);
        }
    }

    /// Returns the texts, to be stored with a call.
    pub(super) fn texts(&self) -> Vec<String> {
        lock(&self.0).texts.clone()
    }

    /// Sets the question that was not answered when the tool was last executed.
    pub(super) fn set_question(&self, question: Option<UnansweredQuestion>) {
        lock(&self.0).question = question;
    }

    /// Sets the question that a person has approved.
    pub(super) fn approve(&self, question: String) {
        lock(&self.0).approved_question = Some(question);
    }

    /// Returns the question that a person has approved.
    pub(super) fn approved_question(&self) -> Option<String> {
        lock(&self.0).approved_question.clone()
    }

    /// Takes the question of the tool that was not answered.
    pub(super) fn take_question(&self) -> Option<UnansweredQuestion> {
        lock(&self.0).question.take()
    }

    /// Adds the texts to a result, within the limit for results.
    pub(super) fn add_to(&self, result: &mut ToolResult, max_bytes: usize) {
        for text in &lock(&self.0).texts {
            // Some providers receive the texts of a result as a single text.
            let gap = match result.content.text_len() {
                0 => "",
                _ => "\n\n",
            };
            result.content.push_text(&format!("{gap}{text}"));
        }
        limit_content(&mut result.content, max_bytes, max_bytes);
    }
}
