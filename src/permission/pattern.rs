//! Patterns of commands: `git:*`, `npm run test`, `git * main`, matched on words.

use super::glob::{GlobToken, literal_char, matches, tokens};
use super::options::{WordsAndFlags, has_flag, variants};
use super::paths::lexical;
use super::programs::is_versioned;
use super::rule_words::{file_name, folded};
use super::shell::{SimpleCommand, Word};
use super::spellings::{has_host, may_climb};

/// A specifier of `Bash(..)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    words: Vec<PatternWord>,
    /// Further words may follow: `git:*`, `git *`.
    allows_more_words: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternWord {
    /// `*` alone: one word or more.
    Any,
    /// A word, perhaps with `*` in it.
    Word(Vec<GlobToken>),
}

impl PatternWord {
    pub(super) fn new(text: &str) -> Self {
        match text {
            "*" => Self::Any,
            text => Self::Word(tokens(text)),
        }
    }

    /// Returns the word as it is written, without quotes.
    pub(super) fn text(&self) -> String {
        let pattern_char = |token: &GlobToken| literal_char(token).unwrap_or('*');
        self.tokens()
            .map_or_else(|| "*".to_owned(), |t| t.iter().map(pattern_char).collect())
    }

    /// Returns the pattern of a word that is not `*` alone.
    pub(super) fn tokens(&self) -> Option<&[GlobToken]> {
        match self {
            Self::Word(tokens) => Some(tokens),
            Self::Any => None,
        }
    }
}

impl CommandPattern {
    /// Parses `text`; the error describes a pattern that can match nothing.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let (body, mut allows_more_words) = match text.strip_suffix(":*") {
            Some(body) => (body.trim_end(), true),
            None => (text, false),
        };
        let mut words = split(body)?;
        if !allows_more_words && words.len() > 1 && words.last() == Some(&PatternWord::Any) {
            words.pop();
            allows_more_words = true;
        }
        if words.is_empty() {
            return Err(
                "empty specifier: write Bash for every command, Bash(git:*) for a prefix"
                    .to_owned(),
            );
        }
        if words == [PatternWord::Any] {
            words.clear();
            allows_more_words = true;
        }
        Ok(Self {
            words,
            allows_more_words,
        })
    }

    pub(super) fn words(&self) -> &[PatternWord] {
        &self.words
    }

    /// Returns `true` if every command matches.
    pub(crate) fn is_any(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns `true` if the command is certainly one the pattern allows: literal words, `*` within
    /// a word.
    pub(crate) fn allows(&self, command: &SimpleCommand) -> bool {
        if self.is_any() {
            return true;
        }
        let argv = &command.argv;
        let Some(program) = argv.first().and_then(Word::literal) else {
            return false;
        };
        let allows_more_words =
            self.allows_more_words || (self.words.len() == 1 && ends_open(&self.words[0]));
        let is_named = |script: usize| {
            let word = self.words.get(script).and_then(PatternWord::tokens);
            word.is_some_and(|word| word.iter().all(|t| literal_char(t).is_some()))
        };
        let first = self.words[0].tokens();
        let first_fits = first.is_none_or(|word| matches(word, &chars(&program)));
        if !first_fits || !command.script.is_none_or(is_named) {
            return false;
        }
        let words_match = self.match_words(argv, allows_more_words, &|tokens, word, _| {
            let Some(text) = word.literal() else {
                return false;
            };
            let has_star = tokens.contains(&GlobToken::Many);
            if has_star && (may_climb(&text) || !has_host(tokens, &text)) {
                return false;
            }
            let has_parent = text.split('/').any(|name| name == "..");
            let text = if has_star && has_parent {
                lexical(&text)
            } else {
                text
            };
            matches(tokens, &chars(&text))
        });
        words_match
            && command.unlisted.is_none_or(|known| {
                self.spelled_count() >= known.min(argv.len()) && self.has_plain_tail(argv, 0)
            })
            && command
                .package
                .is_none_or(|known| self.has_plain_tail(argv, known))
    }

    /// Returns the same pattern of other words.
    pub(super) fn with_words(&self, words: Vec<PatternWord>) -> Self {
        Self {
            words,
            ..self.clone()
        }
    }

    /// Returns `true` if the command is certainly one that the pattern denies or asks about: after
    /// wrappers, directories and global options are removed, flags in any order.
    pub(crate) fn catches(&self, command: &SimpleCommand) -> bool {
        if self.is_any() || command.argv.is_empty() {
            return self.is_any();
        }
        let allows_more_words = self.allows_more_words || self.words.last().is_some_and(ends_open);
        self.may_name_program_of(command)
            && variants(&command.argv).iter().any(|argv| {
                self.match_words(argv, allows_more_words, &word_matches)
                    || self.match_text(argv)
                    || self.match_flags(argv)
            })
    }

    /// Returns `false` if the pattern names another program than that of the command, and no file
    /// that it may run.
    pub(super) fn may_name_program_of(&self, command: &SimpleCommand) -> bool {
        let program = self.words.first().and_then(PatternWord::tokens);
        let text: Option<String> = program.and_then(|p| p.iter().map(literal_char).collect());
        let name = command.program().map(|name| name.to_lowercase());
        let (Some(text), Some(name)) = (text, name) else {
            return !command.argv.is_empty();
        };
        let text = text.to_lowercase();
        text.contains(['/', '.'])
            || text == name
            || text == "git" && name.starts_with("git-")
            || name.starts_with(&text) && is_versioned(&text)
    }

    /// Matches word by word, with a table of the words of the pattern (rows) against the words of
    /// the command (columns), filled from the end. `fits` matches one word, given its index.
    fn match_words(
        &self,
        argv: &[Word],
        allows_more_words: bool,
        fits: &dyn Fn(&[GlobToken], &Word, usize) -> bool,
    ) -> bool {
        let columns = argv.len() + 1;
        let mut next_row = vec![false; columns];
        for i in (0..=self.words.len()).rev() {
            let mut row = vec![false; columns];
            for j in (0..columns).rev() {
                row[j] = match (self.words.get(i), argv.get(j)) {
                    (None, None) => true,
                    (None, Some(_)) => allows_more_words,
                    (Some(_), None) => false,
                    (Some(PatternWord::Any), Some(_)) => next_row[j + 1] || row[j + 1],
                    (Some(PatternWord::Word(tokens)), Some(word)) => {
                        next_row[j + 1] && fits(tokens, word, j)
                    }
                };
            }
            next_row = row;
        }
        next_row[0]
    }

    /// Matches the pattern against the words joined by blanks, so that `*` crosses words.
    fn match_text(&self, argv: &[Word]) -> bool {
        let is_open = |word: &[GlobToken]| word.contains(&GlobToken::Many);
        let mut words = self.words.iter().map(PatternWord::tokens);
        let crosses = words.any(|word| word.is_none_or(is_open));
        let texts = argv.iter().map(Word::literal);
        let Some(texts) = texts.collect::<Option<Vec<_>>>().filter(|_| crosses) else {
            return false;
        };
        let mut pattern = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            if at > 0 {
                pattern.push(GlobToken::Char(' '));
            }
            pattern.extend_from_slice(word.tokens().unwrap_or(&[GlobToken::Many]));
        }
        if self.allows_more_words {
            pattern.push(GlobToken::Many);
        }
        matches(&pattern, &chars(&texts.join(" ")))
    }

    /// Matches the pattern's flags wherever they stand, and its other words in order: `rm -rf*` is
    /// also `rm -f x -r` and `rm --recursive --force`.
    fn match_flags(&self, argv: &[Word]) -> bool {
        let parts = self.parts().zip(WordsAndFlags::of(argv));
        let Some((pattern_parts, command_parts)) = parts else {
            return false;
        };
        let is_open = self.allows_more_words || self.words.last().is_some_and(ends_open);
        if pattern_parts.flags.is_empty() && pattern_parts.words.len() < 2
            || !command_parts.begins_with(&pattern_parts.words)
            || !is_open && command_parts.words.len() != pattern_parts.words.len()
        {
            return false;
        }
        let program = &command_parts.words[0];
        let ends_in_flag = self.words.last().is_some_and(ends_open);
        let is_open_flag = |flag: &String| ends_in_flag && pattern_parts.flags.last() == Some(flag);
        let is_given = |flag: &String| {
            let begins =
                |given: &String| flag.starts_with("--") && given.starts_with(flag.as_str());
            has_flag(program, &command_parts.flags, flag)
                || is_open_flag(flag) && command_parts.flags.iter().any(begins)
        };
        // An exact rule does not cover further flags.
        let knows = |flag: &String| {
            let is_like = |wanted: &String| {
                wanted == flag || (!flag.starts_with("--") && !wanted.starts_with("--"))
            };
            pattern_parts.flags.iter().any(is_like) || has_flag(program, &pattern_parts.flags, flag)
        };
        pattern_parts.flags.iter().all(is_given)
            && (is_open || command_parts.flags.iter().all(knows))
    }

    /// Returns the pattern's words and flags, if it has no wildcard but at the end.
    pub(super) fn parts(&self) -> Option<WordsAndFlags> {
        let mut parts = WordsAndFlags::default();
        for word in &self.words {
            let PatternWord::Word(tokens) = word else {
                return None;
            };
            let is_open = tokens.last() == Some(&GlobToken::Many);
            let literal = tokens.iter().take(tokens.len() - usize::from(is_open));
            match literal.map(literal_char).collect::<Option<String>>()? {
                text if text.starts_with('-') && text.len() > 1 => parts.flags.push(text),
                text if !is_open => parts.words.push(text),
                _ => return None,
            }
        }
        if parts.words.len() > 1 && parts.words[0].ends_with("tar") && parts.flags.is_empty() {
            parts.flags.push(format!("-{}", parts.words.remove(1)));
        }
        Some(parts)
    }
}

fn word_matches(wanted: &[GlobToken], word: &Word, at: usize) -> bool {
    let Some(text) = word.literal() else {
        // A glob in the place of the program.
        let name: Vec<char> = wanted.iter().map_while(literal_char).collect();
        return at == 0 && !word.is_dynamic() && matches(&tokens(file_name(&folded(word))), &name);
    };
    let is_path = text.contains('/') && !text.contains("://");
    let is_folded = at == 0 && matches(wanted, &chars(&text.to_lowercase()));
    is_folded
        || is_path && at > 0 && matches(wanted, &chars(&lexical(&text)))
        || matches(wanted, &chars(&text))
}

fn ends_open(word: &PatternWord) -> bool {
    matches!(word, PatternWord::Word(tokens) if tokens.last() == Some(&GlobToken::Many))
}

pub(super) fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// Returns the words of a pattern: quotes as in a shell, `*` a wildcard unless quoted.
fn split(text: &str) -> Result<Vec<PatternWord>, String> {
    let mut words = Vec::new();
    let mut tokens: Vec<GlobToken> = Vec::new();
    let mut raw = String::new();
    let mut has_word = false;
    let mut quote: Option<char> = None;
    let mut chars = text.chars().chain([' ']);
    while let Some(c) = chars.next() {
        if let Some(open_quote) = quote {
            if c == open_quote {
                quote = None;
            } else {
                tokens.push(GlobToken::Char(c));
            }
            continue;
        }
        match c {
            ' ' | '\t' => {
                if has_word {
                    words.push(word(
                        std::mem::take(&mut tokens),
                        &std::mem::take(&mut raw),
                        words.is_empty(),
                    )?);
                    has_word = false;
                }
                continue;
            }
            '\'' | '"' => quote = Some(c),
            '\\' => tokens.extend(chars.next().map(GlobToken::Char)),
            '*' => {
                if tokens.last() != Some(&GlobToken::Many) {
                    tokens.push(GlobToken::Many);
                }
                raw.push(c);
            }
            c if c.is_control() => return Err("a command pattern is one line".to_owned()),
            c => {
                tokens.push(GlobToken::Char(c));
                raw.push(c);
            }
        }
        has_word = true;
    }

    if quote.is_some() {
        return Err("a quote without its end; write `\\'` or `\\\"` for the character".to_owned());
    }

    Ok(words)
}

fn word(tokens: Vec<GlobToken>, raw: &str, first: bool) -> Result<PatternWord, String> {
    if matches!(
        raw,
        "&&" | "||" | ";" | "|" | "|&" | "&" | ">" | ">>" | "<" | "2>&1"
    ) || raw.starts_with("$(")
        || raw.starts_with('`')
        || (raw.ends_with(';') && raw.len() > 1)
    {
        return Err(format!(
            "`{raw}`: a rule is about one command; write a rule for each command of the list"
        ));
    }

    if raw.contains(":*") {
        return Err("`:*` stands only at the end; write `*` for a word in between".to_owned());
    }

    if first
        && let Some((name, _)) = raw.split_once('=')
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    {
        return Err(format!(
            "`{name}=`: a rule names the command, not the variables before it"
        ));
    }

    Ok(if tokens == [GlobToken::Many] && raw == "*" {
        PatternWord::Any
    } else {
        PatternWord::Word(tokens)
    })
}
