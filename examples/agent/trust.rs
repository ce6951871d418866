//! The trust in the files of the working directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentcore::Error;
use agentcore::tool::Asking;
use agentcore::tools::ask::{Choice, ChoiceOption, Interactor, TerminalInteractor};

use super::args::Args;
use super::output::note;
use super::store;
use super::tools::Tools;

/// The files of the working directory that instruct the model.
const INSTRUCTIONS: [&str; 2] = ["AGENTS.md", "skills"];

/// Returns `true` if `AGENTS.md` and the skills of `cwd` are given to the model: with
/// `--trust-project`, or if the user has agreed at the terminal, now or in an earlier run. The
/// author of the directory would otherwise instruct an agent that works for its user.
///
/// # Errors
///
/// Returns an error if the terminal fails, or the answer cannot be stored.
pub(crate) async fn is_trusted(args: &Args, cwd: &str) -> Result<bool, Error> {
    let is_there = |name: &&&str| Path::new(cwd).join(name).symlink_metadata().is_ok();
    let names: Vec<&str> = INSTRUCTIONS.iter().filter(is_there).copied().collect();
    if args.tools == Tools::None || names.is_empty() {
        return Ok(false);
    }

    let file = file();
    if args.trust_project || file.as_deref().is_some_and(|file| has(file, cwd)) {
        return Ok(true);
    }

    let names = names.join(" and ");
    let terminal = TerminalInteractor::new();
    if !terminal.is_available() {
        note(&format!(
            "{names} of this directory not read; --trust-project gives them to the model"
        ));
        return Ok(false);
    }

    let text = format!("May {names} in {cwd} instruct the model? They come with the directory.");
    let choice = Choice::new(text)
        .with_header("trust")
        .option(ChoiceOption::new("Yes"))
        .option(ChoiceOption::new("No"));
    let chosen = terminal.choose(&Asking::default(), &choice).await?;
    choice.check(&chosen)?;
    let is_yes = chosen.picked.first() == Some(&0);
    if let (true, Some(file)) = (is_yes, &file) {
        add(file, cwd)?;
    }

    Ok(is_yes)
}

/// The file with the directories that are trusted, one a line; `None` without a state directory.
pub(crate) fn file() -> Option<PathBuf> {
    Some(store::state_directory().ok()?.join("trusted"))
}

fn has(file: &Path, cwd: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == cwd))
}

/// Adds a directory in one write, because two processes may add one at the same time.
fn add(file: &Path, cwd: &str) -> io::Result<()> {
    if cwd.contains('\n') {
        // A path with a line break would be two lines.
        return Ok(());
    }

    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    let mut trusted = options.create(true).append(true).mode(0o600).open(file)?;
    trusted.write_all(format!("{cwd}\n").as_bytes())
}
