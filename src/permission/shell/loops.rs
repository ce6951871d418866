//! Loops over words that are known.
//!
//! The variable of such a loop is known in the body, which is read once for each word. All other
//! variables may hold anything.

use std::collections::BTreeSet;

use super::analysis::Reason;
use super::context::{MAX_WORK, Parse, Stop};
use super::parser::Parser;
use super::word::{Part, Word};

/// The maximum number of times that the body of a loop, with the loops around it, is read.
const MAX_READINGS: usize = 16;

/// The loops around the cursor of a parser whose variables are known.
#[derive(Debug, Default)]
pub(super) struct Loops {
    /// The variables and their values.
    values: Vec<(String, Word)>,
    /// Variables that were replaced by their value.
    used: BTreeSet<String>,
    /// Variables that are set in another way than by one loop at a time.
    changed: BTreeSet<String>,
    /// The number of times that the loops around the cursor are read.
    readings: usize,
    /// True if no variable of a loop, and no output of a program, is taken as known: an earlier
    /// reading of the command found that one of them may be something else.
    pub(super) is_off: bool,
}

impl Loops {
    /// Returns `true` if a variable was replaced that may hold something else.
    pub(super) fn are_wrong(&self) -> bool {
        !self.used.is_disjoint(&self.changed)
    }

    /// Notes that the variable may hold something else than a word of its loop.
    pub(super) fn change(&mut self, name: &str) {
        self.changed.insert(name.to_owned());
    }

    /// Notes that none of the variables around the cursor has to hold a word of its loop.
    pub(super) fn change_all(&mut self) {
        let names = self.values.iter().map(|(name, _)| name.clone());
        self.changed.extend(names);
    }

    /// Returns `true` if the value of the variable is known.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _)| known == name)
    }

    fn value(&mut self, name: &str) -> Option<&Word> {
        let (name, value) = self.values.iter().find(|(known, _)| known == name)?;
        self.used.insert(name.clone());
        Some(value)
    }
}

/// Returns `true` if the shell does not split or expand the value where it is not quoted.
fn is_one_word(value: &str) -> bool {
    !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || "*?[]\\".contains(c))
}

/// Returns the value without the ending that a pattern behind `%` cuts off.
fn without_ending(mut value: Word, pattern: &str) -> Option<Word> {
    let is_star = |part: &Part| matches!(part, Part::Glob('*'));
    match (pattern, value.literal()) {
        ("%.*", Some(text)) => Some(Word::from_text(text.split('.').next()?)),
        ("%.*", None) => {
            // The names that a star stands for, cut off, are names that it stands for as well.
            let at = value.parts.iter().position(is_star)?;
            let is_plain =
                |part: &Part| matches!(part, Part::Text { text, .. } if !text.contains('.'));
            let is_known = value.parts[..at].iter().all(is_plain);
            value.parts.truncate(at + 1);
            is_known.then_some(value)
        }
        _ => {
            let Some(Part::Text { text, .. }) = value.parts.last_mut() else {
                return None;
            };
            let end = match pattern {
                ".*" => text.rfind('.')?,
                "" => return None,
                _ if pattern.contains(['%', '*']) => return None,
                _ => text.strip_suffix(pattern)?.len(),
            };
            text.truncate(end);
            Some(value)
        }
    }
}

impl Parser<'_> {
    /// Appends a variable to a word: its value, if that is known.
    pub(super) fn variable(&mut self, word: &mut Word, name: String, quoted: bool) {
        if name == "HOME" && self.cx.has_other_home() {
            return word.push_value(None, quoted);
        }

        match self.loop_value(word, &name, quoted) {
            Some(value) => word.push_quoted(value),
            None => word.push_value(Some(name), quoted),
        }
    }

    /// Returns the value of the variable of a loop, if it is known and becomes a part of the word
    /// as it is.
    fn loop_value(&mut self, word: &Word, name: &str, quoted: bool) -> Option<Word> {
        let value = self.cx.loops.value(name)?;
        let is_one = quoted || value.literal().is_some_and(|text| is_one_word(&text));
        let has_home = value.parts.iter().any(|part| matches!(part, Part::Home(_)));
        if !is_one || has_home && !word.parts.is_empty() {
            return None;
        }

        // The value of a loop may be made of those of the loops around it, many times each.
        let value = value.clone();
        if !quoted {
            // It stays one word unless the script sets other separators.
            self.cx.loops.used.insert("IFS".to_owned());
        }
        self.cx.work += value.len();
        (self.cx.work <= MAX_WORK).then_some(value)
    }

    /// Appends the value of the variable of a loop without the ending that `%.txt}`, `%.*}` or
    /// `%%.*}` at the cursor cuts off. Returns `false`, and appends nothing, for another operator,
    /// a variable that is not known, and a value without the ending.
    pub(super) fn cut_ending(&mut self, word: &mut Word, name: &str, quoted: bool) -> Parse<bool> {
        let ahead = &self.src[self.pos..];
        let is_plain = |b: &&u8| b.is_ascii_alphanumeric() || b"%._-*".contains(b);
        let operator = &ahead[..ahead.iter().take_while(is_plain).count()];
        let is_whole = ahead.get(operator.len()) == Some(&b'}');
        let operator = String::from_utf8_lossy(operator).into_owned();
        let Some(pattern) = operator.strip_prefix('%').filter(|_| is_whole) else {
            return Ok(false);
        };
        let value = self.loop_value(word, name, quoted);
        let Some(value) = value.and_then(|value| without_ending(value, pattern)) else {
            return Ok(false);
        };
        if !quoted && value.len() == 0 {
            return Ok(false);
        }

        word.push_quoted(value);
        self.bump_by(operator.len() + 1)?;
        Ok(true)
    }

    /// Parses the body of a loop: once for each word that its variable holds, or, if these are not
    /// known or too many, once without replacing the variable.
    pub(super) fn body_for(&mut self, name: &str, words: &[Word]) -> Parse<()> {
        let loops = &mut self.cx.loops;
        let readings = loops.readings.max(1).saturating_mul(words.len());
        let is_known = !words.iter().any(Word::is_dynamic) && self.heredocs.is_empty();
        if loops.is_off || !is_known || words.is_empty() || readings > MAX_READINGS {
            loops.change(name);
            self.repeating(true, Self::loop_body)?;
            if is_known && words.len() > 1 && !self.heredocs.is_empty() {
                self.cx.note(Reason::Syntax("a here-document in a loop"));
            }
            return Ok(());
        }

        if loops.has(name) || name == "IFS" {
            loops.change(name);
        }
        let outer = std::mem::replace(&mut loops.readings, readings);
        let start = self.pos;
        for word in words {
            self.pos = start;
            self.heredocs.clear();
            self.cx.loops.values.push((name.to_owned(), word.clone()));
            self.loop_body()?;
            self.cx.loops.values.pop();
        }

        self.cx.loops.readings = outer;
        if words.len() > 1 && !self.heredocs.is_empty() {
            // A document has one body for all words: all of it is read again, without them.
            let loops = &mut self.cx.loops;
            loops.change(name);
            loops.used.insert(name.to_owned());
            return Err(Stop);
        }
        Ok(())
    }
}
