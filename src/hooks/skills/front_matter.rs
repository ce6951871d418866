//! The YAML between two lines `---` at the beginning of a file.

use serde::Deserialize;

use crate::util::text;

const BOM: &[u8] = b"\xEF\xBB\xBF";
/// The number of steps after which the parser stops with an error.
const MAX_EVENTS: usize = 5_000;
/// The length to which an error of the parser is shown.
const MAX_ERROR_CHARS: usize = 300;

/// The fields that are read; there may be more.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct FrontMatter {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
}

/// The front matter of a file, of which `content` may be the beginning; empty when it has none.
///
/// The description of an error, for people.
pub(super) fn read(content: &[u8]) -> Result<FrontMatter, String> {
    let content = content.strip_prefix(BOM).unwrap_or(content);
    let Some(yaml) = split(content)? else {
        return Ok(FrontMatter::default());
    };

    let yaml = std::str::from_utf8(yaml).map_err(|_| "its front matter is not UTF-8".to_owned())?;
    if yaml.trim().is_empty() {
        return Ok(FrontMatter::default());
    }

    // Metadata is small; without limits, aliases could expand without bound.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_events: MAX_EVENTS, max_nodes: MAX_EVENTS },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_EVENTS },
    };

    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let error = error.without_snippet().to_string();
        let error = text::truncate(&error, MAX_ERROR_CHARS);
        format!("its front matter is not understood: {error}")
    })
}

/// The lines between the first one, `---`, and the next such. The end of the first line is part
/// of it, so that the parser counts lines as the file has them.
fn split(content: &[u8]) -> Result<Option<&[u8]>, String> {
    let mut lines = content.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().filter(|line| is_fence(line));
    let Some(first) = first else { return Ok(None) };
    let start = first.trim_ascii_end().len();
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            return Ok(Some(&content[start..end]));
        }

        end += line.len();
    }

    Err("its front matter has no end; close it with a line ---".to_owned())
}

fn is_fence(line: &[u8]) -> bool {
    line.trim_ascii_end() == b"---"
}
