//! The choice of the session, and the lists of sessions and messages.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agentcore::session::SessionInfo;
use agentcore::tool::Asking;
use agentcore::tools::ask::{Choice, ChoiceOption, Interactor, TerminalInteractor};
use agentcore::{AgentState, Error, Message, Messages, SessionStore};
use serde_json::{Value, json};

use super::args::{Args, usage};
use super::output::{Output, note};
use super::shown;

pub(crate) type Store = Arc<dyn SessionStore>;

/// The maximum number of sessions to pick from.
const OFFERED: usize = 9;

/// The maximum length of a message in a list, in characters.
const LINE: usize = 72;

/// The id of the session that the arguments name; empty for a new one.
///
/// # Errors
///
/// Returns an error if the session must exist and does not.
pub(crate) async fn choose(args: &Args, store: &Store, cwd: &str) -> Result<String, Error> {
    match (&args.session, &args.resume) {
        (Some(id), _) if !args.needs_session() => Ok(id.clone()),
        (Some(id), _) | (None, Some(Some(id))) => match store.load(id).await? {
            Some(_) => Ok(id.clone()),
            None => Err(usage(format!(
                "there is no session {id:?}; --list-sessions shows those there are (a prompt \
                 goes before --resume)"
            ))),
        },
        (None, Some(None)) => pick(store, cwd).await,
        (None, None) if args.latest => match store.latest(cwd).await? {
            Some(info) => Ok(info.id.to_string()),
            None => Err(usage(format!(
                "no session began in {cwd}; --session ID begins one, --list-sessions shows all"
            ))),
        },
        (None, None) => Ok(String::new()),
    }
}

/// Lets the user pick a session of the working directory at the terminal.
async fn pick(store: &Store, cwd: &str) -> Result<String, Error> {
    let terminal = TerminalInteractor::new();
    if !terminal.is_available() {
        let text = "--resume needs an ID without a terminal; --list-sessions shows them, \
            --continue takes the one written last";
        return Err(usage(text.to_owned()));
    }

    let mut list = store.list().await?;
    list.retain(|info| {
        let is_of_user = info.parent.is_none() && info.problem.is_none();
        is_of_user && info.cwd.as_deref() == Some(cwd)
    });
    if list.is_empty() {
        return Err(usage(format!("no session began in {cwd}")));
    }

    let mut choice = Choice::new("Which session?");
    for info in list.iter().take(OFFERED) {
        let about = format!("{}, {}", info.id, summary(info));
        choice = choice.option(ChoiceOption::new(title(info)).with_description(about));
    }

    let chosen = terminal.choose(&Asking::default(), &choice).await?;
    choice.check(&chosen)?;
    Ok(list[chosen.picked[0]].id.to_string())
}

/// Prints the sessions: two lines each, or JSON.
///
/// # Errors
///
/// Returns an error if standard output cannot be written.
pub(crate) fn print(list: &[SessionInfo], output: Output) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            let infos: Vec<Value> = list.iter().map(info_to_json).collect();
            writeln!(out, "{}", Value::from(infos))
        }
        Output::StreamJson => list
            .iter()
            .try_for_each(|info| writeln!(out, "{}", info_to_json(info))),
        Output::Text => list.iter().try_for_each(|info| {
            let cwd = info.cwd.as_deref().unwrap_or("-");
            writeln!(out, "{}  {}", shown::line(&info.id), title(info))?;
            writeln!(out, "    {}, in {}", summary(info), shown::line(cwd))
        }),
    }
}

fn info_to_json(info: &SessionInfo) -> Value {
    let ms = |time: Option<SystemTime>| {
        let since = time?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    };

    json!({
        "id": info.id,
        "title": info.title,
        "created_at_ms": ms(info.created_at),
        "updated_at_ms": ms(info.updated_at),
        "messages": info.messages,
        "size": info.size,
        "cwd": info.cwd,
        "problem": info.problem,
    })
}

fn title(info: &SessionInfo) -> String {
    match (&info.problem, &info.title) {
        (Some(problem), _) => format!("(cannot be read: {})", shown::line(problem)),
        (None, Some(title)) => shown::line(title),
        (None, None) => "(nothing was said)".to_owned(),
    }
}

/// The age, the length and the size of a session.
fn summary(info: &SessionInfo) -> String {
    let ago = |time: Option<SystemTime>| {
        let elapsed = time.and_then(|time| time.elapsed().ok());
        elapsed.map_or("at an unknown time".to_owned(), age)
    };

    let plural = if info.messages == 1 { "" } else { "s" };
    let size = info
        .size
        .map_or(String::new(), |size| format!(", {size} bytes"));
    format!(
        "begun {}, written {}, {} message{plural}{size}",
        ago(info.created_at),
        ago(info.updated_at),
        info.messages
    )
}

fn age(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// The stored session. Without an id, or before its first run, an empty one.
///
/// # Errors
///
/// Returns an error if the store cannot be read.
pub(crate) async fn load(store: &Store, id: &str) -> Result<AgentState, Error> {
    match id {
        "" => Ok(AgentState::default()),
        id => Ok(store.load(id).await?.unwrap_or_default().state),
    }
}

/// Prints the messages of a session with their numbers.
///
/// # Errors
///
/// Returns an error if standard output cannot be written.
pub(crate) fn print_messages(messages: &Messages, output: Output) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut numbered = messages.iter().enumerate();
    match output {
        Output::Json => {
            let values: Vec<Value> = numbered.map(message_to_json).collect();
            writeln!(out, "{}", Value::from(values))
        }
        Output::StreamJson => {
            numbered.try_for_each(|message| writeln!(out, "{}", message_to_json(message)))
        }
        Output::Text => numbered.try_for_each(|(number, message)| {
            writeln!(out, "{number}  {}: {}", message.role(), headline(message))
        }),
    }
}

fn message_to_json((number, message): (usize, &Message)) -> Value {
    let calls: Vec<&str> = message.tool_calls().map(|call| &*call.name).collect();
    json!({
        "message": number,
        "role": message.role().as_str(),
        "text": message.text(),
        "calls": calls,
    })
}

/// The first line of a message, and the names of its calls.
fn headline(message: &Message) -> String {
    let text = message.text();
    let line = text.trim().lines().next().unwrap_or_default();
    let mut headline: String = line.chars().take(LINE).collect();
    if headline.len() < text.trim().len() {
        headline.push_str(" ..");
    }

    let calls: Vec<&str> = message.tool_calls().map(|call| &*call.name).collect();
    if !calls.is_empty() {
        let space = if headline.is_empty() { "" } else { " " };
        headline = format!("{headline}{space}calls {}", calls.join(", "));
    }

    shown::line(&headline)
}

/// Notes the directory of a session that began in another one, and its id if the user did not name
/// it.
pub(crate) fn introduce(args: &Args, id: &str, state: &AgentState, cwd: &str) {
    if let Some(began) = state.cwd.as_deref().filter(|began| *began != cwd) {
        note(&format!("this session began in {}", shown::line(began)));
    }
    if !args.names_session() {
        note(&format!("session {id}"));
    }
}
