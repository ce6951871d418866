//! Questions at the terminal.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::sync::Semaphore;

use crate::error::{Error, ErrorKind, Result};
use crate::permission::shell::printable;
use crate::tool::Asking;
use crate::util::Cancellation;

use super::interactor::{Choice, Chosen, Interactor};

/// The interval at which a wait for input checks whether its question was withdrawn.
const WATCH: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 64 * 1024;
/// The maximum number of bytes written at once. Linux reports a terminal with room for 256 as
/// ready.
const MAX_PIECE: usize = 256;

/// Asks the person at the terminal of this process: `/dev/tty`, or standard input if that is a
/// terminal. Clones share the terminal and ask one question at a time.
///
/// Without a terminal, and in the background of a shell, every question fails at once. Text typed
/// before a question is shown does not answer it. Control characters in a question are shown
/// escaped, since a model may have written it.
///
/// The wait takes place on the runtime's threads for blocking work and blocks no task. Dropping a
/// question soon releases its thread and the terminal.
///
/// # Panics
///
/// Asking panics outside of a tokio runtime.
///
/// ```no_run
/// use agentcore::tools::ask::{InteractorConfirmer, TerminalInteractor, ask_user_question};
///
/// let terminal = TerminalInteractor::new();
/// let tool = ask_user_question(terminal.clone());
/// let confirmer = InteractorConfirmer::new(terminal);
/// # let _ = (tool, confirmer);
/// ```
#[derive(Clone, Debug)]
pub struct TerminalInteractor(Arc<Semaphore>);

impl TerminalInteractor {
    /// Creates an interactor that opens the terminal at its first question.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Returns `true` if there is currently a terminal to ask at.
    pub fn is_available(&self) -> bool {
        open_terminal().is_ok()
    }

    /// Shows `text` and reads a line, without its line ending.
    async fn line(&self, text: String) -> Result<String> {
        let cancellation = Cancellation::default();
        let _withdrawn = cancellation.guard();
        let work = move || converse(&text, &cancellation);
        let line = tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Error::new(ErrorKind::Cancelled, error.to_string()))?;
        line.map_err(|error| {
            let text = format!("the question was not answered at a terminal: {error}");
            Error::new(ErrorKind::Io, text).with_source(error)
        })
    }
}

impl Default for TerminalInteractor {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Interactor for TerminalInteractor {
    async fn choose(&self, _asking: &Asking, choice: &Choice) -> Result<Chosen> {
        let _turn = self.0.acquire().await;
        let mut text = format_choice(choice);
        loop {
            let line = self.line(text).await?;
            match parse(choice, &line) {
                Ok(chosen) => return Ok(chosen),
                Err(wrong) => text = format!("{wrong}\n{}", prompt(choice)),
            }
        }
    }

    async fn ask(&self, _asking: &Asking, question: &str) -> Result<String> {
        let _turn = self.0.acquire().await;
        self.line(format!("\n{}\n> ", lines(question))).await
    }
}

/// Returns the question with its options, and the possible inputs.
fn format_choice(choice: &Choice) -> String {
    let mut text = String::from("\n");
    if let Some(header) = &choice.header {
        let _ = write!(text, "[{}] ", printable(header));
    }

    let _ = writeln!(text, "{}", lines(&choice.question));
    for (at, option) in choice.options.iter().enumerate() {
        let _ = write!(text, "  {}) {}", at + 1, printable(&option.label));
        if !option.description.is_empty() {
            let _ = write!(text, " - {}", printable(&option.description));
        }

        text.push('\n');
    }

    text.push_str(&prompt(choice));
    text
}

/// Keeps line breaks and escapes all other invisible characters.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(printable).collect();
    lines.join("\n")
}

fn prompt(choice: &Choice) -> String {
    let mut text = match choice.options.len() {
        1 => "1".to_owned(),
        count => format!("1-{count}"),
    };
    if choice.multiple {
        text.push_str(", several with commas");
    }
    if let Some(text_prompt) = &choice.text {
        let _ = write!(text, ", or {text_prompt}");
    }
    text + ": "
}

/// Parses a line: numbers, prefixes of labels, or a text.
fn parse(choice: &Choice, line: &str) -> Result<Chosen, String> {
    let line = line.trim();
    if line.is_empty() {
        return Err("nothing was typed".to_owned());
    }

    let items: Vec<&str> = if choice.multiple {
        line.split(',').map(str::trim).collect()
    } else {
        vec![line]
    };

    let indices: Option<Vec<usize>> = items.iter().map(|item| pick(choice, item)).collect();
    match indices {
        Some(mut indices) => {
            indices.sort_unstable();
            indices.dedup();
            Ok(Chosen::picked(indices))
        }
        None if choice.text.is_some() && line.parse::<usize>().is_err() => Ok(Chosen::text(line)),
        None => Err(format!("`{}` is not one of the answers", printable(line))),
    }
}

/// Returns the index of the option that `item` names: its number, its label, or the beginning of
/// only one label.
fn pick(choice: &Choice, item: &str) -> Option<usize> {
    if let Ok(number) = item.parse::<usize>() {
        return number
            .checked_sub(1)
            .filter(|at| *at < choice.options.len());
    }

    let options = &choice.options;
    if let Some(index) = options.iter().position(|option| option.label == item) {
        return Some(index);
    }

    let typed = item.to_lowercase();
    let labels = options.iter().map(|option| option.label.to_lowercase());
    let labels: Vec<String> = labels.collect();
    if labels.contains(&typed) {
        return only_index(&labels, |label| label == typed);
    }
    only_index(&labels, |label| label.starts_with(&typed))
}

/// Returns the index of the only label for which `condition` holds.
fn only_index(labels: &[String], condition: impl Fn(&str) -> bool) -> Option<usize> {
    let mut indices = (0..labels.len()).filter(|index| condition(&labels[*index]));
    match (indices.next(), indices.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Returns the terminal to ask at.
fn open_terminal() -> io::Result<File> {
    let absent = |text: &str| io::Error::new(io::ErrorKind::NotFound, text.to_owned());
    let tty = OpenOptions::new().read(true).write(true).open("/dev/tty");
    if let Ok(tty) = tty
        && is_ours(&tty)
    {
        return Ok(tty);
    }

    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(absent("there is no terminal"));
    }

    let stdin = File::from(stdin.as_fd().try_clone_to_owned()?);
    if is_ours(&stdin) {
        Ok(stdin)
    } else {
        Err(absent(
            "this process runs in the background of its terminal",
        ))
    }
}

/// Returns `true` if this process may read from the terminal: a process in the background of a
/// shell would be stopped. A terminal that does not control this process never stops it.
fn is_ours(terminal: &File) -> bool {
    tcgetpgrp(terminal).map_or(true, |foreground| foreground == getpgrp())
}

fn converse(text: &str, withdrawn: &Cancellation) -> io::Result<String> {
    let mut terminal = open_terminal()?;
    tcflush(&terminal, QueueSelector::IFlush)?;
    write(&mut terminal, text, withdrawn)?;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        wait(&terminal, PollFlags::IN, withdrawn)?;
        let mut piece = [0; 1024];
        let bytes_read = terminal.read(&mut piece)?;
        if bytes_read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the input was closed",
            ));
        }

        line.extend_from_slice(&piece[..bytes_read]);
        if line.len() > MAX_LINE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the line is too long",
            ));
        }
    }

    let text = String::from_utf8_lossy(&line);
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Writes in pieces that a terminal has room for, because a person can pause its output.
fn write(terminal: &mut File, text: &str, withdrawn: &Cancellation) -> io::Result<()> {
    for piece in text.as_bytes().chunks(MAX_PIECE) {
        wait(terminal, PollFlags::OUT, withdrawn)?;
        terminal.write_all(piece)?;
    }
    terminal.flush()
}

/// Waits until there is input or room for output, and checks at intervals whether the question was
/// withdrawn: a thread blocked in a read would take the line meant for the next question, and keep
/// the runtime from shutting down.
fn wait(terminal: &File, event: PollFlags, withdrawn: &Cancellation) -> io::Result<()> {
    loop {
        if withdrawn.is_cancelled() {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "the question was withdrawn",
            ));
        }

        let mut watched = [PollFd::new(terminal, event)];
        match poll(&mut watched, Some(&WATCH)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ChoiceOption;
    use super::*;

    #[test]
    fn option_is_picked_by_its_number_its_label_or_a_unique_beginning() {
        let labels = ["JSON", "JSON Lines", "YAML", "go", "Go"];
        let choice = labels.iter().fold(Choice::new("Which?"), |choice, label| {
            choice.option(ChoiceOption::new(*label))
        });
        for (item, index) in [
            ("2", Some(1)),
            ("0", None),
            ("6", None),
            ("Go", Some(4)),
            ("GO", None),
            ("json", Some(0)),
            ("JSON l", Some(1)),
            ("JSON Lines", Some(1)),
            ("js", None),
            ("y", Some(2)),
            ("toml", None),
        ] {
            assert_eq!(pick(&choice, item), index, "{item}");
        }
    }
}
