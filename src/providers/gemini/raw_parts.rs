//! The parts of a frame as JSON text.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};

use super::super::lenient::{Count, List, Object};

/// The parts of a frame as JSON text. They are read on the first use, because few frames have a
/// part that is neither text nor call.
pub(super) struct RawParts<'a> {
    frame: &'a str,
    /// The number of parts before the current one.
    passed_count: usize,
    /// The parts, once they were read.
    all: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawChunk<'a> {
    #[serde(borrow)]
    candidates: List<RawCandidate<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCandidate<'a> {
    index: Count,
    #[serde(borrow)]
    content: Object<RawContent<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContent<'a> {
    #[serde(borrow)]
    parts: List<RawPart<'a>>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct RawPart<'a>(#[serde(borrow)] &'a RawValue);

impl<'a> RawParts<'a> {
    /// Creates the parts of the first candidates in `frame`.
    pub(super) fn new(frame: &'a str) -> Self {
        Self {
            frame,
            passed_count: 0,
            all: None,
        }
    }

    pub(super) fn frame(&self) -> &'a str {
        self.frame
    }

    /// Passes to the next part.
    pub(super) fn pass(&mut self) {
        self.passed_count += 1;
    }

    /// Returns the current part; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Protocol`] if the parts are not a list.
    pub(super) fn current(&mut self) -> Result<Option<&'a RawValue>> {
        let parts = match &mut self.all {
            Some(parts) => parts,
            all => all.insert(read_parts(self.frame).map_err(|error| {
                let text = "the parts of a chunk cannot be read";
                Error::new(ErrorKind::Protocol, text).with_source(error)
            })?),
        };
        Ok(parts.get(self.passed_count).copied())
    }
}

fn read_parts(frame: &str) -> serde_json::Result<Vec<&RawValue>> {
    let chunks: List<RawChunk<'_>> = serde_json::from_str(frame)?;
    let candidates = chunks.0.into_iter().flat_map(|chunk| chunk.candidates.0);
    let first_candidates = candidates.filter(|candidate| candidate.index.get() == 0);
    let contents = first_candidates.filter_map(|candidate| candidate.content.0);
    let parts = contents.flat_map(|content| content.parts.0);
    Ok(parts.map(|part| part.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_first_candidates_are_counted() {
        let frame = r#"[null,
            {"candidates": [null, {"index": 1, "content": {"parts": [{"other": 1}]}},
                {"content": {"parts": [{"text": "a"}, null, { "x": 1.50 }]}}]},
            {"candidates": {"content": {"parts": [{"y": 2}]}}},
            {"usageMetadata": {}}]"#;
        let mut parts = RawParts::new(frame);
        let mut texts = Vec::new();
        while let Some(part) = parts.current().unwrap() {
            texts.push(part.get());
            parts.pass();
        }
        assert_eq!(
            texts,
            [r#"{"text": "a"}"#, r#"{ "x": 1.50 }"#, r#"{"y": 2}"#]
        );
    }
}
