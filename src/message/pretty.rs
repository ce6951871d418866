//! A history for people to read.

use std::fmt::{self, Write as _};

use serde_json::{Number, Value};

use super::message::Message;
use super::messages::Messages;
use super::part::{Media, MediaSource, Part};

impl Messages {
    /// Returns the history as blocks of text with an empty line between them.
    ///
    /// A block is a heading, the text, and a line for each call. Arguments look as Go's `%v` prints
    /// them: sorted `map[key:value]`, lists `[a b]`, bare strings, `<nil>`. Images, documents and
    /// recordings are named in brackets; thinking and citations are omitted. The last line ends
    /// with a newline.
    ///
    /// ```
    /// use agentcore::{Messages, ToolCall};
    /// use serde_json::json;
    ///
    /// let history = Messages::new()
    ///     .human("What is 2+2?")
    ///     .ai_calling("", [ToolCall::new("call_1", "calculate", json!({"expr": "2+2"}))]);
    /// assert_eq!(
    ///     history.pretty_print(),
    ///     "[Human]\nWhat is 2+2?\n\n\
    ///      [AI]\n  → tool_call: calculate(id=call_1, args=map[expr:2+2])\n",
    /// );
    /// ```
    pub fn pretty_print(&self) -> String {
        self.to_string()
    }
}

/// The same as [`Messages::pretty_print`].
impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, message) in self.iter().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            block(f, message)?;
        }
        Ok(())
    }
}

fn block(f: &mut fmt::Formatter<'_>, message: &Message) -> fmt::Result {
    match message {
        Message::System(_) => writeln!(f, "[System]")?,
        Message::User(_) => writeln!(f, "[Human]")?,
        Message::Assistant(_) => writeln!(f, "[AI]")?,
        Message::Tool(result) => {
            writeln!(
                f,
                "[Tool: {} (call_id={})]",
                result.name, result.tool_call_id
            )?;
        }
    }

    let text = message.text();
    if !text.is_empty() {
        writeln!(f, "{text}")?;
    }

    for part in message.content().parts() {
        match part {
            Part::Image(media) => writeln!(f, "  [image: {}]", title(media))?,
            Part::Document(media) => writeln!(f, "  [document: {}]", title(media))?,
            Part::Audio(media) => writeln!(f, "  [audio: {}]", title(media))?,
            Part::Text(_)
            | Part::Thinking(_)
            | Part::ToolCall(_)
            | Part::Opaque(_)
            | Part::Annotations(_) => {}
        }
    }

    for call in message.tool_calls() {
        write!(f, "  → tool_call: {}(id={}, args=", call.name, call.id)?;
        match &*call.args {
            Value::Null => f.write_str("map[]")?,
            args => value(f, args)?,
        }

        f.write_str(")\n")?;
    }

    Ok(())
}

/// Returns the name, or else the address or the id, or else the media type.
fn title(media: &Media) -> &str {
    match (&media.name, &media.source) {
        (Some(name), _) => name,
        (None, MediaSource::Url(url)) => url,
        (None, MediaSource::File { id, .. }) => id,
        (None, MediaSource::Base64(_)) => &media.media_type,
    }
}

fn value(f: &mut fmt::Formatter<'_>, of: &Value) -> fmt::Result {
    match of {
        Value::Null => f.write_str("<nil>"),
        Value::Bool(flag) => write!(f, "{flag}"),
        Value::Number(n) => number(f, n),
        Value::String(text) => f.write_str(text),
        Value::Array(items) => {
            f.write_char('[')?;
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    f.write_char(' ')?;
                }

                value(f, item)?;
            }

            f.write_char(']')
        }
        Value::Object(map) => {
            // Sorted explicitly: the maps of serde_json keep insertion order if any crate of the
            // program enables `preserve_order`.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            f.write_str("map[")?;
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    f.write_char(' ')?;
                }

                write!(f, "{key}:")?;
                value(f, item)?;
            }

            f.write_char(']')
        }
    }
}

/// Writes a number as Go's `%v` prints it: as a float64 with the fewest digits that identify it,
/// and with an exponent if that is below -4 or above 5.
fn number(f: &mut fmt::Formatter<'_>, of: &Number) -> fmt::Result {
    let Some(float) = of.as_f64() else {
        return write!(f, "{of}");
    };

    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return f.write_str(&scientific);
    };

    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(f, "{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => write!(f, "{float}"),
    }
}
