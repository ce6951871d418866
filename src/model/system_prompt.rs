//! The system prompt, in sections.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// The stability of a section of the system prompt from turn to turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// The section is the same in every request. It is placed before the prompt-cache breakpoint.
    Stable,
    /// The section may change. It is placed after all stable sections.
    Volatile,
}

/// One section of a [`SystemPrompt`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// The id. Setting a section with the same id replaces this one.
    pub id: Arc<str>,
    /// The text.
    pub text: Arc<str>,
    /// The stability from turn to turn.
    pub stability: Stability,
}

/// A system prompt as a list of sections, outside the history.
///
/// Sections keep the order in which their ids were first set. Volatile sections follow all stable
/// ones, so that a prompt cache can cover the stable part. A clone copies one pointer.
///
/// ```
/// use agentcore::model::{Stability, SystemPrompt};
///
/// let mut system = SystemPrompt::from("Be brief.");
/// system.set("clock", "It is noon.", Stability::Volatile);
/// system.set("skills", "You can sing.", Stability::Stable);
/// assert_eq!(system.to_string(), "Be brief.\n\nYou can sing.\n\nIt is noon.");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemPrompt(Arc<Vec<Section>>);

impl Default for SystemPrompt {
    /// Returns an empty prompt. All empty prompts share one list.
    fn default() -> Self {
        static EMPTY: LazyLock<SystemPrompt> = LazyLock::new(|| SystemPrompt(Arc::default()));
        EMPTY.clone()
    }
}

impl SystemPrompt {
    /// Creates a prompt without sections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the section `id`. An existing section keeps its position. An empty text removes it.
    pub fn set(
        &mut self,
        id: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
        stability: Stability,
    ) {
        let id = id.into();
        let text = text.into();
        if text.is_empty() {
            self.remove(&id);
            return;
        }

        let section = Section {
            id,
            text,
            stability,
        };

        match self.0.iter().position(|old| old.id == section.id) {
            Some(index) if self.0[index] == section => {}
            Some(index) => Arc::make_mut(&mut self.0)[index] = section,
            None => Arc::make_mut(&mut self.0).push(section),
        }
    }

    /// Removes the section `id`. Returns `false` if there is none.
    pub fn remove(&mut self, id: &str) -> bool {
        match self.0.iter().position(|old| &*old.id == id) {
            Some(index) => {
                Arc::make_mut(&mut self.0).remove(index);
                true
            }
            None => false,
        }
    }

    /// Returns the section `id`, if there is one.
    pub fn get(&self, id: &str) -> Option<&Section> {
        self.0.iter().find(|section| &*section.id == id)
    }

    /// Returns all sections in the order they are sent.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.of(Stability::Stable)
            .chain(self.of(Stability::Volatile))
    }

    /// Returns the sections of one stability, in order.
    fn of(&self, stability: Stability) -> impl Iterator<Item = &Section> {
        self.0
            .iter()
            .filter(move |section| section.stability == stability)
    }

    /// Returns the texts of the sections of one stability, joined by empty lines.
    pub fn text_of(&self, stability: Stability) -> String {
        join(self.of(stability))
    }

    /// Returns `true` if there is no section.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if both are the same object, so that nothing needs to be compared.
    #[cfg(feature = "http")]
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Joins the texts of sections by empty lines.
fn join<'a>(sections: impl Iterator<Item = &'a Section>) -> String {
    let mut prompt = String::new();
    for section in sections {
        if !prompt.is_empty() {
            prompt.push_str("\n\n");
        }
        prompt.push_str(&section.text);
    }
    prompt
}

impl fmt::Display for SystemPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(self.sections()))
    }
}

impl<T: AsRef<str>> From<T> for SystemPrompt {
    /// Creates a prompt of one stable section with the id `system`.
    fn from(text: T) -> Self {
        let mut prompt = Self::new();
        prompt.set("system", text.as_ref(), Stability::Stable);
        prompt
    }
}
