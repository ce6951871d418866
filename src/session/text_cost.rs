//! An estimate of the memory that reading a session or a part of one takes, made from its text
//! before it is parsed.

use crate::util::json::end_of_string;

// The memory below is in bytes of heap on 64-bit targets, rounded up. The test
// `estimate_is_at_least_the_memory_of_what_is_read` compares it with the real memory.

/// The memory of a value in its array, object or struct.
const VALUE: usize = 36;

/// The memory of a separate text, without its bytes.
const TEXT: usize = 32;

/// The least memory of a list that is not empty.
const ARRAY: usize = 112;

/// The memory of an object that is read into a struct: a part, a call, a task.
const STRUCT: usize = 160;

/// The memory of one node of the B-tree in which an object has its fields.
const NODE: usize = 640;

/// The least number of fields of a node that is not the only one.
const NODE_FIELDS: usize = 5;

/// The nestings of message parts in records. Their text is copied before it is parsed.
const PART_DEPTHS: std::ops::RangeInclusive<usize> = 4..=5;

/// The nesting at which `serde_json` gives up.
const PARSER_DEPTH: usize = 128;

/// The maximum memory per byte of a line.
const MAX_RATIO: usize = 1_024;

/// The nesting of the line of a record.
pub(super) const RECORD: usize = 0;

/// The nesting of an element of a snapshot, which equals the nesting of a message in a record.
#[cfg(any(test, feature = "session-log"))]
pub(super) const ELEMENT: usize = 2;

/// Returns `true` if reading a line, or text that is nested in one, takes more than `room` bytes of
/// memory, its own included.
///
/// Takes linear time and allocates nothing. The estimate is for `serde_json` and the types of this
/// crate; a value takes up to a hundred times the memory of its text.
#[cfg(feature = "session-log")]
pub(super) fn memory_exceeds(text: &[u8], nesting: usize, room: usize) -> bool {
    text.len().saturating_mul(MAX_RATIO) > room && cost(text, nesting) > room
}

/// Returns `true` if the values of an exported session take more than `room` bytes of memory, their
/// text included. Takes linear time and allocates nothing, as the estimate of a line does.
pub(super) fn values_memory_exceeds(text: &[u8], room: usize) -> bool {
    text.len().saturating_mul(MAX_RATIO) > room
        && count(text, RECORD).memory.saturating_add(text.len()) > room
}

/// Returns the estimate of the memory that reading a text takes.
#[cfg(any(test, feature = "session-log"))]
fn cost(text: &[u8], nesting: usize) -> usize {
    count(text, nesting).cost()
}

fn count(text: &[u8], nesting: usize) -> Counter<'_> {
    let mut counter = Counter::new(text, nesting);
    while counter.step() {}
    counter
}

/// The kind of the value that ended last.
#[derive(Clone, Copy, PartialEq)]
enum LastValue {
    /// A string that begins and ends here.
    Text(usize, usize),
    Other,
}

/// One container that is open.
#[derive(Clone, Copy, Default)]
struct OpenContainer {
    start: usize,
    fields: usize,
}

/// A pass over a text, token by token, which adds up the memory of its values.
struct Counter<'a> {
    text: &'a [u8],
    /// The number of containers around the text.
    nesting: usize,
    offset: usize,
    /// The open container of each depth. Depth 0 is the text as a whole.
    levels: [OpenContainer; PARSER_DEPTH + 1],
    depth: usize,
    /// True if the next scalar is a new value.
    is_new: bool,
    last: LastValue,
    /// True if the last name may belong to arguments in text form, which are parsed as JSON again.
    names_arguments: bool,
    memory: usize,
    /// The length of the longest string or part, which is copied when it is parsed.
    longest_copy: usize,
}

impl<'a> Counter<'a> {
    fn new(text: &'a [u8], nesting: usize) -> Self {
        Self {
            text,
            nesting,
            offset: 0,
            levels: [OpenContainer::default(); PARSER_DEPTH + 1],
            depth: 0,
            is_new: true,
            last: LastValue::Other,
            names_arguments: false,
            memory: 0,
            longest_copy: 0,
        }
    }

    /// Returns the memory of the text and of its values. The longest part may be copied twice.
    #[cfg(any(test, feature = "session-log"))]
    fn cost(&self) -> usize {
        let copies = 2 * (self.text.len() + self.longest_copy);
        self.memory.saturating_add(copies)
    }

    /// Counts the next token; returns `false` at the end, or where a parser gives up.
    fn step(&mut self) -> bool {
        let Some(&byte) = self.text.get(self.offset) else {
            return false;
        };

        self.offset += 1;
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return true,
            b',' => self.is_new = true,
            b':' => self.count_name(),
            b'[' => return self.begin_container(ARRAY),
            b'{' => return self.begin_container(STRUCT),
            b']' | b'}' => self.end_container(byte),
            b'"' => {
                self.count_string();
                return true;
            }
            _ if self.is_new => {
                self.memory += VALUE;
                self.is_new = false;
            }
            _ => {}
        }

        self.last = LastValue::Other;
        true
    }

    /// Counts the last string as the name of a field.
    fn count_name(&mut self) {
        self.is_new = true;
        let LastValue::Text(start, end) = self.last else {
            return;
        };

        // It was counted as a value.
        self.memory -= VALUE;
        let name = &self.text[start..end];
        self.names_arguments = name == b"arguments" || name.contains(&b'\\');
        let level = &mut self.levels[self.depth];
        if level.fields.is_multiple_of(NODE_FIELDS) {
            self.memory += NODE;
        }
        level.fields += 1;
    }

    fn begin_container(&mut self, memory: usize) -> bool {
        if self.depth == PARSER_DEPTH {
            return false;
        }

        self.depth += 1;
        self.levels[self.depth] = OpenContainer {
            start: self.offset,
            fields: 0,
        };
        self.is_new = true;
        self.last = LastValue::Other;
        self.memory += VALUE + memory;
        true
    }

    fn end_container(&mut self, byte: u8) {
        if byte == b'}' && PART_DEPTHS.contains(&(self.depth + self.nesting)) {
            let len = self.offset - self.levels[self.depth].start;
            self.longest_copy = self.longest_copy.max(len);
        }
        self.depth = self.depth.saturating_sub(1);
        self.is_new = false;
    }

    fn count_string(&mut self) {
        let start = self.offset;
        self.offset = end_of_string(self.text, start);
        self.is_new = false;
        let text = &self.text[start..self.offset];
        let end = start + text.strip_suffix(b"\"").unwrap_or(text).len();
        self.memory += VALUE + TEXT;
        self.longest_copy = self.longest_copy.max(end - start);
        if std::mem::take(&mut self.names_arguments) {
            self.memory = self
                .memory
                .saturating_add(cost_of_quoted(&self.text[start..end]));
        }
        self.last = LastValue::Text(start, end);
    }
}

/// Returns the memory of JSON that is quoted in a string: the text again, and its values. An
/// escaped code point may be any character, so it counts as the most expensive one.
fn cost_of_quoted(text: &[u8]) -> usize {
    let next_bytes = text.iter().skip(1).chain(b"\"");
    text.iter()
        .zip(next_bytes)
        .map(|pair| match pair {
            (b'{', _) | (b'\\', b'u') => VALUE + STRUCT + NODE,
            (b'[', _) => VALUE + ARRAY,
            (b',' | b':', _) => VALUE + TEXT + NODE / NODE_FIELDS,
            _ => 0,
        })
        .fold(text.len(), usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1024 * 1024;
    const ITEMS: usize = 1_000;

    fn list(item: &str) -> String {
        format!("[{}]", vec![item; ITEMS].join(","))
    }

    fn record(data: &str) -> usize {
        let line = format!(r#"{{"kind":"message","data":{{"message":{data}}}}}"#);
        cost(line.as_bytes(), RECORD)
    }

    fn details(value: &str) -> usize {
        record(&format!(r#"{{"role":"tool","details":{value}}}"#))
    }

    /// The bytes are those by which a process grew that read many of them.
    #[test]
    fn estimate_is_at_least_the_memory_of_what_is_read() {
        for (item, bytes) in [
            ("0", 32),
            (r#""a""#, 60),
            ("[0]", 176),
            (r#"{"a":0}"#, 705),
            (r#"{"a":{}}"#, 715),
            (r#"{"a":{"b":0}}"#, 1_400),
            (r#"{"a":[0]}"#, 850),
        ] {
            let cost = details(&list(item));
            assert!(cost >= ITEMS * bytes, "{item}: {}", cost / ITEMS);
            assert!(cost < ITEMS * bytes * 2, "{item}: {}", cost / ITEMS);
        }

        let fields: Vec<_> = (0..ITEMS).map(|key| format!(r#""{key:x}":0"#)).collect();
        let cost = details(&format!("{{{}}}", fields.join(",")));
        assert!(
            (ITEMS * 135..ITEMS * 270).contains(&cost),
            "{}",
            cost / ITEMS
        );
        let calls = record(&format!(
            r#"{{"role":"assistant","tool_calls":{}}}"#,
            list("{}")
        ));
        assert!(
            (ITEMS * 190..ITEMS * 380).contains(&calls),
            "{}",
            calls / ITEMS
        );
    }

    #[test]
    fn long_text_counts_with_its_copies() {
        let text = "x".repeat(MIB);
        for content in [
            format!(r#""{text}""#),
            format!(r#"[{{"type":"text","text":"{text}"}}]"#),
            format!(r#"[{{"type":"odd","a":[["{text}"]]}}]"#),
        ] {
            let cost = record(&format!(r#"{{"role":"user","content":{content}}}"#));
            assert!((4 * MIB..4 * MIB + 8_192).contains(&cost), "{cost}");
        }
    }

    #[test]
    fn arguments_in_a_text_count_as_the_values_they_become() {
        let quoted = list(r#"{\"\":0}"#);
        for name in ["arguments", r"\u0061rguments"] {
            let call = format!(r#"[{{"{name}" : "{{\"a\":{quoted}}}"}}]"#);
            let cost = record(&format!(r#"{{"role":"assistant","tool_calls":{call}}}"#));
            assert!(cost > ITEMS * 705, "{}", cost / ITEMS);
        }
        let text = record(&format!(r#"{{"role":"user","content":"{quoted}"}}"#));
        assert!(text < ITEMS * 60, "{}", text / ITEMS);
        let escaped = list(r"\u007b");
        let call = record(&format!(r#"[{{"arguments":"{escaped}"}}]"#));
        assert!(call > ITEMS * 705, "{}", call / ITEMS);
    }

    proptest! {
        #[test]
        fn no_byte_counts_more_than_the_ratio(text in r#"("arguments":"|[\[\]{}:,"\\ 1nu]){0,60}"#) {
            for nesting in [RECORD, ELEMENT] {
                prop_assert!(cost(text.as_bytes(), nesting) <= text.len() * MAX_RATIO);
            }
        }
    }
}
