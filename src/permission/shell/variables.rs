//! Variables whose value is known where they are expanded.
//!
//! A variable is known after its assignment if that is the only one of the script, and stands on
//! the straight line of the script's own commands. The variable of a loop is known in the body,
//! which is read once for each word of the loop. Any other variable may hold anything.

use std::collections::BTreeSet;

use super::context::{Context, Parse};
use super::environment::is_set_by_shell;
use super::parser::Parser;
use super::word::{Part, Word};

/// The maximum number of variables that are known at the same time.
const MAX_KNOWN: usize = 32;
/// The maximum number of times that the body of a loop, with the loops around it, is read.
const MAX_READINGS: usize = 16;

/// The variables that are known at the cursor of a parser.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// Names and values, in the order of their assignment.
    known: Vec<(String, Word)>,
    /// Variables that were replaced by their value.
    used: BTreeSet<String>,
    /// Variables that are assigned in another way as well.
    changed: BTreeSet<String>,
    /// The number of times that the loops around the cursor are read.
    readings: usize,
    /// True if no variable is known.
    is_off: bool,
}

impl Variables {
    pub(super) fn new(is_off: bool) -> Self {
        Self {
            is_off,
            ..Self::default()
        }
    }

    /// Returns `true` if a variable was replaced that may hold something else.
    pub(super) fn are_wrong(&self) -> bool {
        !self.used.is_disjoint(&self.changed)
    }

    pub(super) fn change(&mut self, name: &str) {
        self.known.retain(|(known, _)| known != name);
        self.changed.insert(name.to_owned());
    }

    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// Forgets all but the first `count` variables.
    pub(super) fn truncate(&mut self, count: usize) {
        self.known.truncate(count);
    }

    /// Removes the known variables, and returns them for [`restore`](Self::restore).
    pub(super) fn take(&mut self) -> Vec<(String, Word)> {
        std::mem::take(&mut self.known)
    }

    pub(super) fn restore(&mut self, known: Vec<(String, Word)>) {
        self.known = known;
        self.known
            .retain(|(name, _)| !self.changed.contains(name.as_str()));
    }

    fn learn(&mut self, name: &str, value: &Word) {
        if !self.is_off && self.known.len() < MAX_KNOWN && is_fixed(value) {
            self.known.push((name.to_owned(), value.clone()));
        }
    }

    fn value(&mut self, name: &str) -> Option<&Word> {
        let (name, value) = self.known.iter().find(|(known, _)| known == name)?;
        self.used.insert(name.clone());
        Some(value)
    }
}

/// Returns `true` if no part of the value is only known when the shell runs. After a colon, a tilde
/// is expanded in an assignment alone.
fn is_fixed(value: &Word) -> bool {
    !value.is_dynamic() && !value.to_string().contains(":~")
}

/// Returns `true` if the shell does not split or expand the value where it is not quoted.
fn is_one_word(value: &str) -> bool {
    !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || "*?[\\".contains(c))
}

impl Context {
    /// Notes an assignment on the straight line of the script.
    pub(super) fn assign_once(&mut self, name: &str, value: Option<&Word>) {
        let is_first = !self.constants.contains_key(name) && !self.unknown.contains(name);
        self.record(name, value, false);
        // The shell may set these by itself.
        let is_own = !matches!(name, "COLUMNS" | "LINES") && !is_set_by_shell(name);
        match value.filter(|_| is_first && is_own) {
            Some(value) => self.variables.learn(name, value),
            None => self.variables.change(name),
        }
    }
}

impl Parser<'_> {
    /// Appends a variable to a word: its value, if that is known.
    pub(super) fn variable(&mut self, word: &mut Word, name: String, quoted: bool) {
        let value = match self.cx.variables.value(&name) {
            Some(value) if quoted => value.clone(),
            Some(value) if value.literal().is_some_and(|text| is_one_word(&text)) => value.clone(),
            _ => return word.push_value(Some(name), quoted),
        };
        let has_home = value.parts.iter().any(|part| matches!(part, Part::Home(_)));
        if has_home && !word.parts.is_empty() {
            return word.push_value(Some(name), quoted);
        }

        for part in value.parts {
            match part {
                Part::Text { text, .. } => word.push_text(&text, true),
                Part::Brace(c) => word.push_text(c.encode_utf8(&mut [0; 4]), true),
                part => word.parts.push(part),
            }
        }
    }

    /// The words that a variable which is all of a word is split into, if its value is known.
    pub(super) fn split_variable(&mut self, word: &Word) -> Option<Vec<Word>> {
        let [
            Part::Value {
                name: Some(name),
                quoted: false,
            },
        ] = &word.parts[..]
        else {
            return None;
        };
        let text = self.cx.variables.value(name)?.literal()?;
        let is_split = |text: &str| text.split_whitespace().all(is_one_word);
        let words = text.split_whitespace().map(Word::from_text);
        (is_split(&text) && !text.trim().is_empty()).then(|| words.collect())
    }

    /// The body of a loop, once for each word that its variable holds.
    pub(super) fn body_for(&mut self, name: &str, words: &[Word]) -> Parse<()> {
        let variables = &mut self.cx.variables;
        let readings = variables.readings.max(1).saturating_mul(words.len());
        let is_known = words.iter().all(is_fixed) && self.heredocs.is_empty();
        if variables.is_off || !is_known || words.is_empty() || readings > MAX_READINGS {
            return self.loop_body();
        }

        if variables.known.iter().any(|(known, _)| known == name) {
            variables.change(name);
        }
        let outer = std::mem::replace(&mut variables.readings, readings);
        let count = variables.count();
        let start = self.pos;
        for word in words {
            self.pos = start;
            self.heredocs.clear();
            self.cx.variables.learn(name, word);
            self.loop_body()?;
            self.cx.variables.truncate(count);
        }

        self.cx.variables.readings = outer;
        if words.len() > 1 && !self.heredocs.is_empty() {
            return self.cx.stop("a here-document in a loop");
        }
        Ok(())
    }
}
