//! The list of skills as the model reads it.

use serde::Deserialize;

use crate::util::text::{self, is_hidden};

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
/// The maximum size of the list, in bytes.
pub(crate) const MAX_CATALOG: usize = 32 * 1024;
/// The maximum size of the line about omitted skills, in bytes.
const MAX_NOTE: usize = 64;
const HEADING: &str = "Available Skills:";

/// The fields of a skill's front matter that are read; there may be more.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
}

/// A skill: a folder with a `SKILL.md`, which an agent reads when it needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// The name in the front matter, or else of the folder.
    pub name: String,
    /// The description, on one line; it may be empty.
    pub description: String,
    /// The absolute path of its `SKILL.md`.
    pub path: String,
    /// The folder that was searched, as the program named it.
    pub source: String,
}

impl Skill {
    /// Creates the skill that a file describes, held to the limits of the format. Violations are
    /// added to `complaints`.
    pub(super) fn new(
        path: String,
        folder: &str,
        source: &str,
        front: &FrontMatter,
        complaints: &mut Vec<String>,
    ) -> Self {
        let (mut name, omitted_count) =
            one_line(front.name.as_deref().unwrap_or_default(), MAX_NAME);
        if omitted_count > 0 {
            complaints.push(format!(
                "its name is longer than {MAX_NAME} characters; {omitted_count} are left out"
            ));
        }

        if name.is_empty() {
            name = one_line(folder, MAX_NAME).0;
        }

        let raw_description = front.description.as_deref().unwrap_or_default();
        let (description, omitted_count) = one_line(raw_description, MAX_DESCRIPTION);
        if description.is_empty() {
            complaints.push("it has no description, so the model cannot choose it".to_owned());
        }

        if omitted_count > 0 {
            complaints.push(format!(
                "its description is longer than {MAX_DESCRIPTION} characters; {omitted_count} are left out"
            ));
        }

        Self {
            name,
            description,
            path,
            source: source.to_owned(),
        }
    }

    fn line(&self) -> String {
        let space = if self.description.is_empty() { "" } else { " " };
        format!(
            "- [{}]{space}{} → Read {} for full instructions",
            self.name, self.description, self.path
        )
    }

    #[cfg(feature = "time")]
    fn element(&self) -> String {
        let fields = [
            ("name", &self.name),
            ("description", &self.description),
            ("location", &self.path),
            ("source", &self.source),
        ]
        .map(|(tag, text)| format!("    <{tag}>{}</{tag}>\n", xml(text)));
        format!("  <skill>\n{}  </skill>", fields.concat())
    }
}

/// Returns the section of the system prompt, which is empty without skills, and the number of the
/// last skills, which are omitted if the list would be too long with them.
pub(crate) fn catalog(skills: &[Skill]) -> (String, usize) {
    let (mut catalog, omitted_count) = list(skills, HEADING, Skill::line);
    if omitted_count > 0 {
        catalog.push_str(&format!("\n- ({omitted_count} more skills are not listed)"));
    }
    (catalog, omitted_count)
}

/// Returns the same as elements of XML.
#[cfg(feature = "time")]
pub(in crate::prompt) fn elements(skills: &[Skill]) -> (String, usize) {
    let (mut elements, omitted_count) = list(skills, "<skills>", Skill::element);
    if omitted_count > 0 {
        elements.push_str(&format!("\n  ({omitted_count} more skills are not listed)"));
    }
    if !elements.is_empty() {
        elements.push_str("\n</skills>");
    }
    (elements, omitted_count)
}

/// The heading and as many entries as there is room for, and the number of the others.
fn list(skills: &[Skill], heading: &str, entry: fn(&Skill) -> String) -> (String, usize) {
    if skills.is_empty() {
        return (String::new(), 0);
    }

    let mut list = heading.to_owned();
    for (position, skill) in skills.iter().enumerate() {
        let entry = entry(skill);
        if list.len() + 1 + entry.len() > MAX_CATALOG - MAX_NOTE {
            return (list, skills.len() - position);
        }
        list.push('\n');
        list.push_str(&entry);
    }
    (list, 0)
}

/// Escapes a text for XML.
#[cfg(feature = "time")]
fn xml(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the text on one line without invisible characters, at most `max` characters of it, and
/// how many were cut: a file must not be able to write lines of its own into the prompt.
pub(in crate::prompt) fn one_line(text: &str, max: usize) -> (String, usize) {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| {
            word.chars()
                .filter(|c| !c.is_control() && !is_hidden(*c))
                .collect::<String>()
        })
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    let (head, omitted_count) = text::head(&line, max);
    (head.to_owned(), omitted_count)
}
