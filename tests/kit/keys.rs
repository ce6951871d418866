//! Spellings of a key, leaks of it, and the output of logging.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// The spellings in which servers and commands may repeat `key`. The base64 spellings have texts of
/// different lengths before the key, so that it begins at each of the three offsets within a group.
pub fn spellings(key: &str) -> Vec<(String, String)> {
    let mut out = vec![("raw".to_owned(), key.to_owned())];
    let mut add = |name: String, text: String| out.push((name, text));
    let config = GeneralPurposeConfig::new();
    for (alphabet, name) in [(&STANDARD, "standard"), (&URL_SAFE, "url")] {
        for pad in [true, false] {
            let engine = GeneralPurpose::new(alphabet, config.with_encode_padding(pad));
            for before in ["", "u", "u:", "user:", "name:"] {
                for after in ["", "\n", ">?"] {
                    let text = engine.encode(format!("{before}{key}{after}"));
                    add(format!("{name} {pad} {before:?} {after:?}"), text);
                }
            }
        }
    }

    let mut wrapped = base64::engine::general_purpose::STANDARD.encode(format!("KEY={key}\n"));
    wrapped.insert(12, '\n');
    add("wrapped".into(), wrapped);
    add("percent".into(), percent(key, |_| true, true));
    add("percent lower".into(), percent(key, |_| true, false));
    add(
        "percent some".into(),
        percent(key, |at| at % 3 == 1, at_even(key)),
    );
    add(
        "percent twice".into(),
        percent(key, |at| at % 2 == 0, true).replace('%', "%25"),
    );
    add(
        "hex".into(),
        key.bytes()
            .fold(String::new(), |out, b| format!("{out}{b:02x}")),
    );
    add(
        "HEX".into(),
        key.bytes()
            .fold(String::new(), |out, b| format!("{out}{b:02X}")),
    );
    let json = serde_json::to_string(key).unwrap();
    add("json".into(), json[1..json.len() - 1].to_owned());
    add(
        "json slash".into(),
        json[1..json.len() - 1].replace('/', "\\/"),
    );
    let unicode = key
        .chars()
        .fold(String::new(), |out, c| format!("{out}\\u{:04x}", c as u32));
    add("json unicode".into(), unicode.clone());
    add("json twice".into(), unicode.replace('\\', "\\\\"));
    add("debug".into(), format!("{key:?}"));
    out
}

fn at_even(key: &str) -> bool {
    key.len().is_multiple_of(2)
}

/// Percent-encodes the bytes whose offsets `chosen` picks, and those that an address must not
/// contain.
fn percent(key: &str, chosen: impl Fn(usize) -> bool, upper: bool) -> String {
    let mut out = String::new();
    for (at, byte) in key.bytes().enumerate() {
        match (
            chosen(at) || !byte.is_ascii_graphic() || b"%\\\"".contains(&byte),
            upper,
        ) {
            (false, _) => out.push(char::from(byte)),
            (true, true) => write!(out, "%{byte:02X}").unwrap(),
            (true, false) => write!(out, "%{byte:02x}").unwrap(),
        }
    }

    out
}

/// Describes the first leak of `key` in `text`: a spelling of the whole key, or a piece of seven
/// bytes of it. A piece that has digits only is no leak: a text may contain durations, which have
/// any digits.
pub fn leak(text: &str, key: &str) -> Option<String> {
    for (name, spelling) in spellings(key) {
        if text.contains(&spelling) {
            return Some(format!("{name}: {spelling} in {text}"));
        }
    }
    let mut pieces = (0..key.len().saturating_sub(6))
        .filter_map(|at| key.get(at..at + 7))
        .filter(|piece| !piece.bytes().all(|byte| byte.is_ascii_digit()));
    let piece = pieces.find(|piece| text.contains(piece))?;
    Some(format!("the piece {piece} in {text}"))
}

#[track_caller]
pub fn assert_no_leak(text: &str, key: &str, what: &str) {
    if let Some(leak) = leak(text, key) {
        panic!("{what}: {leak}");
    }
}

/// Passes the events of this thread to `subscriber` until the guard is dropped.
///
/// While the process has only one subscriber, a thread without it that is the first to reach a log
/// statement disables that statement for all threads. A second subscriber, which receives nothing,
/// prevents this.
pub fn listen(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&OTHER);
    tracing::subscriber::set_default(subscriber)
}

/// Everything that is logged, including spans.
#[derive(Clone, Default)]
pub struct Logged(Arc<Mutex<String>>);

struct Writer<'a>(&'a mut String);

impl Visit for Writer<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0, "{field}={value:?}").unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        writeln!(self.0, "{field}={value}").unwrap();
    }
}

impl Logged {
    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Logged {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Writer(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Writer(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Writer(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Formats an error and its sources with `Display` and `Debug`.
pub fn printed(error: &(dyn std::error::Error + 'static)) -> String {
    let mut out = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        writeln!(out, "{error}\n{error:?}\n{error:#?}").unwrap();
        next = error.source();
    }
    out
}
