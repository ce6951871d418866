//! Words: what is known of an argument before the shell runs.

use std::fmt;

use crate::util::text::is_hidden;

/// The name of a value that is the names of existing files, which a program lists.
pub(crate) const LISTED: &str = "/";

/// The name of a value of which nothing is known.
const ANY: &str = "//";

/// The variable in the place of unknown parts of a text that a shell runs. A script may have one of
/// this name; its values are then examined as well.
pub(super) const OUTER: &str = "__";

/// Returns the index from which on a `]` ends a bracket with this content: directly behind the `[`,
/// a `!` or a `^`, it is a member.
pub(super) fn first_end(content: &[u8]) -> usize {
    let first = usize::from(matches!(content.first(), Some(b'!' | b'^')));
    first + usize::from(content.get(first) == Some(&b']'))
}

/// Returns the text behind a bracket with this content; `None` if nothing closes it. What may be
/// the name of a class, such as `[:alpha:]`, is part of the content.
fn behind_bracket(content: &str) -> Option<&str> {
    let mut rest = content.get(first_end(content.as_bytes())..)?;
    loop {
        let (_, found) = rest.split_at(rest.find(['[', ']', '\\'])?);
        if let Some(behind) = found.strip_prefix(']') {
            return Some(behind);
        }
        let mut chars = found.chars();
        let mark = chars.next()?;
        rest = chars.as_str();
        let Some(next) = chars.next() else { continue };
        if mark == '\\' {
            rest = chars.as_str();
        } else if ":.=".contains(next) {
            (_, rest) = chars.as_str().split_once(&*format!("{next}]"))?;
        }
    }
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Text as it will be.
    Text { text: String, quoted: bool },
    /// `*`, `?` or `[`, not quoted.
    Glob(char),
    /// `~` or `~user` at a word's beginning.
    Home(String),
    /// `{`, `}` or `,`, not quoted: gone after brace expansion.
    Brace(char),
    /// Text that is only known when the shell runs: the value of the variable `name`, or a value
    /// with the name of no variable, such as `#` for a number or [`LISTED`]. Without a name, the
    /// command makes it, and it may be any text.
    Value { name: Option<String>, quoted: bool },
}

impl Part {
    /// Returns the text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns `true` if it is the result of arithmetic, or another number.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.variable(), Some("#" | "?" | "$" | "!"))
    }

    /// Returns `true` if it is a variable that holds a folder.
    pub(crate) fn is_folder(&self) -> bool {
        let name = self.variable().unwrap_or_default();
        matches!(name, "HOME" | "PWD" | "OLDPWD" | "TMPDIR")
    }

    /// Returns the name of the variable, or of another value, that it is.
    pub(crate) fn variable(&self) -> Option<&str> {
        match self {
            Self::Value { name, .. } => name.as_deref(),
            _ => None,
        }
    }
}

/// One word of a command, after quotes and escapes are removed.
///
/// A word is *literal* when the shell can turn it into only one text; any other word is known only
/// in part, and rules treat it accordingly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Word {
    pub(crate) parts: Vec<Part>,
}

impl Word {
    /// A word that is exactly `text`.
    pub(crate) fn from_text(text: impl Into<String>) -> Self {
        Self {
            parts: vec![Part::Text {
                text: text.into(),
                quoted: true,
            }],
        }
    }

    /// A word of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            parts: vec![Part::Value {
                name: Some(ANY.to_owned()),
                quoted: false,
            }],
        }
    }

    /// A word that the command makes: it may name any file, among them protected ones.
    pub(crate) fn made() -> Self {
        let mut word = Self::default();
        word.push_value(None, true);
        word
    }

    /// Returns the word's text, if it is literal.
    pub(crate) fn literal(&self) -> Option<String> {
        let is_known = |part: &Part| matches!(part, Part::Text { .. } | Part::Brace(_));
        self.parts
            .iter()
            .all(is_known)
            .then(|| self.literal_prefix())
    }

    /// Returns `true` if the word is exactly `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.literal().is_some_and(|literal| literal == text)
    }

    /// Returns the literal text before the first part that is not known.
    pub(crate) fn literal_prefix(&self) -> String {
        let mut all = String::new();
        for part in &self.parts {
            match part {
                Part::Text { text, .. } => all.push_str(text),
                Part::Brace(c) => all.push(*c),
                _ => break,
            }
        }
        all
    }

    /// About how many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text { text, .. } => text.len(),
                _ => 1,
            })
            .sum()
    }

    /// Returns `true` if a variable or a substitution is part of it.
    pub(crate) fn is_dynamic(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Value { .. }))
    }

    /// Returns `true` if it may become several words, or none.
    pub(crate) fn may_split(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Value { quoted: false, .. }))
    }

    /// Returns `true` if all that is not known of it are numbers, and the names of new files of
    /// `mktemp`.
    pub(crate) fn is_of_new_names(&self) -> bool {
        let is_new = |part: &Part| part.is_number() || part.variable() == Some("TMPDIR");
        let mut parts = self.parts.iter();
        self.is_dynamic() && parts.all(|part| part.text().is_some() || is_new(part))
    }

    /// Returns `true` if it is the result of arithmetic, or another number.
    pub(crate) fn is_number(&self) -> bool {
        matches!(&self.parts[..], [part] if part.is_number())
    }

    /// Returns `true` if it holds `*`, `?` or `[` that the shell expands to file names.
    pub(crate) fn is_glob(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Glob(_)))
    }

    /// Returns the text, if no part of it was quoted or expanded: only then can it be a reserved
    /// word.
    pub(crate) fn plain(&self) -> Option<String> {
        self.parts.iter().try_fold(String::new(), |mut all, part| {
            match part {
                Part::Text {
                    text,
                    quoted: false,
                } => all.push_str(text),
                Part::Brace(c) => all.push(*c),
                _ => return None,
            }
            Some(all)
        })
    }

    /// Returns the part after the last `/`, if it is literal.
    pub(crate) fn basename(&self) -> Option<String> {
        let (mut first, mut name) = (0, String::new());
        for (index, part) in self.parts.iter().enumerate().rev() {
            match part {
                Part::Text { text, .. } => {
                    if let Some((_, last)) = text.rsplit_once('/') {
                        name.push_str(last);
                        first = index + 1;
                        break;
                    }
                }
                Part::Brace(_) => {}
                _ => return None,
            }
        }

        for part in &self.parts[first..] {
            match part {
                Part::Text { text, .. } => name.push_str(text),
                Part::Brace(c) => name.push(*c),
                _ => return None,
            }
        }

        Some(name)
    }

    /// Returns the part after the last `/`, known or not.
    pub(crate) fn last_name(&self) -> Self {
        let last = |part: &Part| match part {
            Part::Text { text, quoted } => {
                let (_, name) = text.rsplit_once('/')?;
                let text = name.to_owned();
                Some(Part::Text {
                    text,
                    quoted: *quoted,
                })
            }
            _ => None,
        };
        let mut names = self.parts.iter().enumerate().rev();
        let name = names.find_map(|(index, part)| Some((index, last(part)?)));
        match name {
            Some((index, name)) => {
                let parts = [&[name][..], &self.parts[index + 1..]].concat();
                Self { parts }
            }
            None => self.clone(),
        }
    }

    /// Returns the word without the slashes behind its name, if that is known.
    pub(crate) fn without_end_slashes(&self) -> Self {
        let mut word = self.clone();
        if let Some(Part::Text { text, .. }) = word.parts.last_mut() {
            let len = text.trim_end_matches('/').len();
            if len > 0 {
                text.truncate(len);
            }
        }
        word
    }

    /// Returns the word without the ending of its name; unknown if its end is not known.
    pub(crate) fn stem(&self) -> Self {
        let mut word = self.clone();
        match word.parts.last_mut() {
            Some(Part::Text { text, .. }) => {
                if let Some((stem, _)) = text.rsplit_once('.') {
                    *text = stem.to_owned();
                }
                word
            }
            _ => Self::unknown(),
        }
    }

    pub(crate) fn starts_with_dash(&self) -> bool {
        self.starts_with_text("-")
    }

    /// Returns `false` for an option, and for a number, which may be the value of one.
    pub(crate) fn may_be_file(&self) -> bool {
        let text = self.literal_prefix();
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        !text.starts_with('-') && !is_number
    }

    pub(crate) fn starts_with_text(&self, text: &str) -> bool {
        self.literal_prefix().starts_with(text)
    }

    pub(crate) fn push_text(&mut self, c: &str, is_quoted: bool) {
        if let Some(Part::Text { text, quoted }) = self.parts.last_mut()
            && *quoted == is_quoted
        {
            text.push_str(c);
            return;
        }
        self.parts.push(Part::Text {
            text: c.to_owned(),
            quoted: is_quoted,
        });
    }

    /// Appends another word, the texts of which are quoted then.
    pub(super) fn push_quoted(&mut self, word: Self) {
        for part in word.parts {
            match part {
                Part::Text { text, .. } => self.push_text(&text, true),
                Part::Brace(c) => self.push_text(c.encode_utf8(&mut [0; 4]), true),
                part => self.parts.push(part),
            }
        }
    }

    /// Returns the word with `text` after it; `*`, `?`, `[..]`, `{..}` and backslashes in it are
    /// patterns.
    pub(crate) fn followed_by(&self, text: &str) -> Self {
        let mut word = self.clone();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '[' => {
                    word.parts.push(Part::Glob('*'));
                    // Without its end, the rest is not worked out.
                    chars = behind_bracket(chars.as_str()).unwrap_or_default().chars();
                }
                '{' => {
                    word.parts.push(Part::Glob('*'));
                    chars.find(|next| *next == '}');
                }
                '\\' => word.parts.push(Part::Glob('*')),
                '*' | '?' => word.parts.push(Part::Glob(c)),
                c => word.push_text(c.encode_utf8(&mut [0; 4]), true),
            }
        }
        word
    }

    /// Returns the word with `*`, `?` and `[..]` in its texts as patterns; `None` if its texts have
    /// none of them.
    pub(super) fn as_pattern(&self) -> Option<Self> {
        let is_wild = |part: &Part| {
            part.text()
                .is_some_and(|text| text.contains(['*', '?', '[']))
        };
        if !self.parts.iter().any(is_wild) {
            return None;
        }
        let mut word = Self::default();
        let mut text = String::new();
        for part in &self.parts {
            match part {
                // A bracket may begin in one text and end in the next.
                Part::Text { text: more, .. } => text.push_str(more),
                part => {
                    word = word.followed_by(&std::mem::take(&mut text));
                    word.parts.push(part.clone());
                }
            }
        }
        Some(word.followed_by(&text))
    }

    /// Returns `true` if it is an absolute path, or begins in a home folder.
    pub(crate) fn is_anchored(&self) -> bool {
        match self.parts.first() {
            // A quoted `~` is the name of a file.
            Some(Part::Text { text, .. }) => text.starts_with('/'),
            Some(Part::Home(_)) => true,
            first => first.and_then(Part::variable) == Some("HOME"),
        }
    }

    /// Returns the word with `~` expanded, which some programs do where the shell does not.
    pub(crate) fn with_home(self) -> Self {
        let Some(rest) = self.without_prefix("~/") else {
            return self;
        };
        let mut home = Self::default();
        home.parts.push(Part::Home(String::new()));
        home.push_text("/", true);
        home.parts.extend(rest.parts);
        home
    }

    pub(crate) fn push_value(&mut self, name: Option<String>, quoted: bool) {
        self.parts.push(Part::Value { name, quoted });
    }

    /// Returns the rest of a word whose literal beginning `prefix` is cut off.
    pub(crate) fn without_prefix(&self, mut prefix: &str) -> Option<Self> {
        let mut parts = Vec::new();
        for part in &self.parts {
            if prefix.is_empty() {
                parts.push(part.clone());
                continue;
            }

            match part {
                Part::Text { text, quoted } => {
                    if let Some(rest) = prefix.strip_prefix(text.as_str()) {
                        prefix = rest;
                    } else {
                        let rest = text.strip_prefix(prefix)?;
                        prefix = "";
                        parts.push(Part::Text {
                            text: rest.to_owned(),
                            quoted: *quoted,
                        });
                    }
                }
                Part::Brace(c) => prefix = prefix.strip_prefix(*c)?,
                _ => return None,
            }
        }

        prefix.is_empty().then_some(Self { parts })
    }
}

impl fmt::Display for Word {
    /// Writes the word as in a command, with control characters escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("''");
        }

        for part in &self.parts {
            match part {
                Part::Text { text, .. } if text.is_empty() && self.parts.len() == 1 => {
                    f.write_str("''")?;
                }
                Part::Text { text, .. } => write!(f, "{}", printable(text))?,
                Part::Glob('[') => f.write_str("[..]")?,
                Part::Glob(c) | Part::Brace(c) => write!(f, "{c}")?,
                Part::Home(user) => write!(f, "~{user}")?,
                Part::Value { .. } => match part.variable() {
                    Some(name) if !name.starts_with(LISTED) => write!(f, "${name}")?,
                    _ => f.write_str("$(..)")?,
                },
            }
        }

        Ok(())
    }
}

/// `text` with control and invisible characters escaped, for people.
pub(crate) fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) || c.is_control() {
            printed.extend(c.escape_default());
        } else {
            printed.push(c);
        }
    }
    printed
}
