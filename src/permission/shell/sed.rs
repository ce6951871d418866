//! What a `sed` script may do.

use std::slice::Iter;

use super::analysis::{Files, Reason, SimpleCommand};
use super::context::Context;
use super::word::Word;

/// `sed`: scripts of plain commands are harmless; `e`, `w`, `r` and what is not known are not.
pub(super) fn sed(cx: &mut Context, index: usize, command: &SimpleCommand) {
    let Some(given) = Given::read(&command.argv[1..]) else {
        cx.note(Reason::InlineCode("sed".to_owned()));
        return;
    };
    if given.in_place {
        cx.note(Reason::Edit("sed".to_owned(), "-i".to_owned()));
        cx.found.commands[index].files = Files::Changed;
        cx.found.commands[index].changes = true;
    }
    match given.script() {
        Some(text) if is_plain_sed(&text) => {}
        _ => cx.note(Reason::InlineCode("sed".to_owned())),
    }
}

/// What the words of a call say.
#[derive(Default)]
struct Given<'a> {
    /// Scripts in words of their own, after `-e`.
    scripts: Vec<&'a Word>,
    /// Scripts in the word of their option.
    attached: Vec<Word>,
    /// The first word that is not an option: the script, when no option has one.
    first: Option<&'a Word>,
    in_place: bool,
}

impl<'a> Given<'a> {
    /// `None` when the script is in a file.
    fn read(args: &'a [Word]) -> Option<Self> {
        let mut given = Self::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let prefix = word.literal_prefix();
            if prefix == "--" && word.literal().is_some() {
                given.first = given.first.or(words.next());
                break;
            }

            if prefix.starts_with("--") {
                given.long(word, &prefix, &mut words)?;
            } else if prefix.len() > 1 && prefix.starts_with('-') {
                given.short(word, &prefix, &mut words)?;
            } else {
                given.first = given.first.or(Some(word));
            }
        }

        Some(given)
    }

    fn long(&mut self, word: &Word, prefix: &str, next: &mut Iter<'a, Word>) -> Option<()> {
        let name = prefix[2..].split('=').next().unwrap_or_default();
        if "in-place".starts_with(name) {
            self.in_place = true;
        } else if "expression".starts_with(name) {
            match word.without_prefix(&format!("--{name}=")) {
                Some(script) if prefix.contains('=') => self.attached.push(script),
                _ => self.scripts.extend(next.next()),
            }
        } else if "file".starts_with(name) {
            return None;
        }

        Some(())
    }

    fn short(&mut self, word: &Word, prefix: &str, next: &mut Iter<'a, Word>) -> Option<()> {
        for (at, letter) in prefix.char_indices().skip(1) {
            let letters = &prefix[..at + letter.len_utf8()];
            let rest = word.without_prefix(letters).unwrap_or_default();
            match letter {
                'i' => {
                    self.in_place = true;
                    break;
                }
                'e' if rest.literal().is_some_and(|rest| rest.is_empty()) => {
                    self.scripts.extend(next.next());
                    break;
                }
                'e' => {
                    self.attached.push(rest);
                    break;
                }
                'f' => return None,
                'l' => {
                    if rest.parts.is_empty() {
                        next.next();
                    }

                    break;
                }
                _ => {}
            }
        }

        Some(())
    }

    /// All of the script, if it is known.
    fn script(&self) -> Option<String> {
        let mut scripts: Vec<&Word> = self.scripts.iter().copied().chain(&self.attached).collect();
        if scripts.is_empty() {
            scripts.extend(self.first);
        }
        let texts: Option<Vec<String>> = scripts.into_iter().map(Word::literal).collect();
        Some(texts?.join("\n"))
    }
}

/// Whether the script only selects, deletes, prints, substitutes, inserts text and jumps.
fn is_plain_sed(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
        if rest.is_empty() {
            return true;
        }

        let Some(after) = after_addresses(rest) else {
            return false;
        };

        let after = after.trim_start_matches([' ', '!']);
        let Some(command) = after.chars().next() else {
            return false;
        };

        rest = &after[command.len_utf8()..];
        match command {
            'p' | 'd' | 'D' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' | 'q'
            | 'Q' | '{' => {
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                if command != '{' && !rest.is_empty() && !rest.starts_with([';', '\n', '}']) {
                    return false;
                }
            }
            's' | 'y' => {
                let Some(flags) = after_substitution(rest) else {
                    return false;
                };

                let end = flags.find([';', '\n', '}', ' ']).unwrap_or(flags.len());
                if !flags[..end]
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b"gpiI".contains(&b))
                {
                    return false;
                }

                rest = &flags[end..];
                let next = rest.trim_start_matches(' ');
                if !next.is_empty() && !next.starts_with([';', '\n', '}']) {
                    return false;
                }
            }
            'a' | 'i' | 'c' => rest = after_text(rest),
            ':' | 'b' | 't' | 'T' => {
                rest = rest.trim_start_matches(' ');
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                rest = &rest[end.unwrap_or(rest.len())..];

                // Some take all of the line for the label.
                let one_line = !script.contains('\n');
                let ends = rest.is_empty()
                    || rest.starts_with('\n')
                    || one_line && rest.starts_with([';', '}']);
                if !ends {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// What follows the text of `a`, `i` or `c`: it ends with a line that no backslash continues.
fn after_text(rest: &str) -> &str {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        if c == '\n' && !escaped {
            return &rest[at..];
        }
        escaped = c == '\\' && !escaped;
    }
    ""
}

fn after_addresses(script: &str) -> Option<&str> {
    let mut rest = script;
    for turn in 0..2 {
        if turn == 1 {
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start_matches(['+', '~']),
                None => return Some(rest),
            }
        }

        if let Some(after) = rest.strip_prefix('/') {
            rest = after_delimiter(after, '/')?.trim_start_matches(['I']);
        } else if rest.starts_with('\\') {
            return None;
        } else {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '$' || c == '~');
        }
    }

    Some(rest)
}

fn after_substitution(rest: &str) -> Option<&str> {
    let delimiter = rest.chars().next()?;
    if delimiter == '\\' || delimiter == '\n' {
        return None;
    }
    let rest = &rest[delimiter.len_utf8()..];
    after_delimiter(after_delimiter(rest, delimiter)?, delimiter)
}

/// What follows the next `delimiter`; `None` if it stands between brackets, where it is text.
fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    let mut in_brackets = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == '[' {
            in_brackets = true;
        } else if c == ']' {
            in_brackets = false;
        } else if c == delimiter {
            if in_brackets {
                return None;
            }

            return Some(&text[at + c.len_utf8()..]);
        }
    }

    None
}
