//! Texts that the shell may evaluate as arithmetic, or expand again, when the script runs.

use std::collections::BTreeSet;

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;
use super::parser::Parser;
use super::shells::script_of;
use super::word::{OUTER, Part, Word};

/// The wrapper of commands in texts that the shell may evaluate.
const EVALUATION: &str = "an evaluation";

/// The maximum number of substitutions of a text that are tried as its beginning.
const MAX_ATTEMPTS: usize = 16;

impl SimpleCommand {
    /// Returns `true` if it runs only if the shell evaluates the text that it is in. Rules to deny
    /// ask about it, as about every text that is not examined.
    pub(crate) fn may_be_evaluated(&self) -> bool {
        self.guessed && self.via.iter().any(|name| name == EVALUATION)
    }

    /// Returns the command as the wrapper of a text that the shell may evaluate.
    pub(super) fn evaluating(&self) -> Self {
        let mut command = self.clone();
        command.via.push(EVALUATION.to_owned());
        command
    }
}

impl Context {
    /// Keeps the text of a word if a substitution in it would run when the shell evaluates it.
    pub(super) fn keep_text(&mut self, word: &Word) {
        if !may_hold_substitution(word) {
            return;
        }
        let (text, _) = script_of(word);
        if has_substitution(&text) || has_substitution(&unescaped(&text)) {
            self.kept_texts.insert(text);
        }
    }

    /// Examines a text that the shell may evaluate, or may read in another way. Its commands only
    /// may run.
    pub(super) fn examine_evaluation(&mut self, examine: impl FnOnce(&mut Self)) {
        self.guessing(|cx| {
            cx.via.push(EVALUATION.to_owned());
            cx.examine_text(examine);
            cx.via.pop();
        });
    }

    /// Notes that a script which is sure to run is only known when the shell runs it.
    pub(super) fn hide_script(&mut self) {
        self.hides_script |= !self.is_guessing;
    }

    /// Notes a script that is only known when the shell runs it, unless it comes from outside.
    pub(super) fn hide_own_script(&mut self, script: &Word) {
        let mut own_script = script.clone();
        // The script around it holds what is not known of this one.
        let is_outer = |part: &Part| part.variable() == Some(OUTER);
        own_script.parts.retain(|part| !is_outer(part));
        if !self.is_foreign(&own_script) {
            self.hide_script();
        }
    }

    /// Returns `true` if the shell may evaluate a text that is not written as code: because of a
    /// construct of the script, or because arithmetic looks at a variable that may be no number.
    pub(super) fn evaluates_texts(&self) -> bool {
        self.evaluates || self.has_unsafe_numbers()
    }

    /// Examines the substitutions in the texts that the shell may evaluate: values of variables,
    /// words of commands and the input of `read`. Which of them it evaluates is not followed, so
    /// they only may run. Returns `false` if all of them were examined before.
    pub(super) fn examine_kept_texts(&mut self) -> bool {
        let reads = ["read", "mapfile", "readarray"];
        let mut words = Vec::new();
        let commands = &self.analysis.commands;
        for command in &commands[self.searched_commands..] {
            let is_reader = reads.iter().any(|name| command.is(name));
            let input = command.input.iter().filter(|_| is_reader);
            let texts = command.argv.iter().chain(input);
            words.extend(texts.filter(|word| may_hold_substitution(word)).cloned());
        }
        self.searched_commands = commands.len();
        words.iter().for_each(|word| self.keep_text(word));

        let texts = self.kept_texts.difference(&self.examined_texts);
        let texts: Vec<String> = texts.cloned().collect();
        for text in &texts {
            // It may be evaluated twice, and `${x@P}` decodes it.
            let variants = [text.clone(), text.replace('\\', ""), unescaped(text)];
            let has_escapes = text.contains('\\');
            for variant in BTreeSet::from(variants) {
                let mut is_examined = true;
                self.examine_evaluation(|cx| is_examined = expand(cx, &variant, has_escapes));
                if !is_examined {
                    let reason = Reason::Limit("nesting");
                    self.analysis.unread.get_or_insert(reason);
                }
            }
        }
        let has_texts = !texts.is_empty();
        self.examined_texts.extend(texts);
        has_texts
    }
}

/// Parses the substitutions of a text as in double quotes. What the shell reads before one that it
/// runs is not known, so each of them may be the first.
///
/// Returns `false` if the text has more of them than are tried.
fn expand(cx: &mut Context, text: &str, has_escapes: bool) -> bool {
    let mut rest = text;
    for _ in 0..MAX_ATTEMPTS {
        let starts = [rest.find("$("), rest.find('`')];
        let Some(start) = starts.into_iter().flatten().min() else {
            return true;
        };
        rest = &rest[start..];
        if cx.enter().is_err() {
            // The limit of nesting is noted.
            return true;
        }
        let depth = cx.depth;
        let is_read = Parser::new(rest, cx).text_until(None).is_ok();
        cx.depth = depth;
        cx.leave();
        // An escaped one may hide the next in a comment.
        if cx.is_full || is_read && !has_escapes {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

/// Returns `true` if what the reason is about evaluates texts that are not written as code.
pub(super) fn evaluates(reason: &Reason) -> bool {
    const BUILTINS: &str = "\
        [ bind compgen complete declare export getopts let local mapfile printf read readarray \
        readonly test typeset unset wait";
    match reason {
        Reason::Expansion(what) => *what != "a quote in an expansion",
        Reason::Builtin(name) => {
            let name = name.split(' ').next().unwrap_or_default();
            BUILTINS.split(' ').any(|known| known == name)
        }
        _ => false,
    }
}

/// Returns `true` if an assignment evaluates the text of this variable, which bash keeps as a
/// number.
pub(super) fn is_evaluated(name: &str) -> bool {
    matches!(name, "RANDOM" | "SRANDOM" | "OPTIND" | "HISTCMD")
}

fn may_hold_substitution(word: &Word) -> bool {
    let mut texts = word.parts.iter().filter_map(Part::text);
    texts.any(|text| text.contains(['$', '`', '\\']))
}

fn has_substitution(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}

/// Returns the text with its escapes decoded.
pub(super) fn unescaped(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut all = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (c, rest) = escape(piece).unwrap_or(('\\', piece));
        all.push(c);
        all.push_str(rest);
    }
    all
}

/// Returns the character that the text behind a backslash represents, and the rest of the text.
fn escape(piece: &str) -> Option<(char, &str)> {
    let code = |start: usize, radix: u32, most: usize| {
        let digits = piece[start..].chars().take(most);
        let count = digits.take_while(|c| c.is_digit(radix)).count();
        let (digits, rest) = piece[start..].split_at(count);
        let byte = u8::from_str_radix(digits, radix).ok()?;
        byte.is_ascii().then(|| (char::from(byte), rest))
    };
    match piece.bytes().next()? {
        b'n' | b'r' => Some(('\n', &piece[1..])),
        b't' | b'f' | b'v' => Some(('\t', &piece[1..])),
        b'x' => code(1, 16, 2),
        // `echo` has a zero before the digits.
        b'0' => code(0, 8, 4).or_else(|| code(0, 8, 3)),
        b'1'..=b'7' => code(0, 8, 3),
        _ => None,
    }
}
