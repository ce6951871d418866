//! Session ids as file names.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, ErrorKind, Result};
use crate::session::MAX_FILE_NAME;
use crate::util::text::truncate;

/// Capital letters are escaped, too: some file systems ignore case.
const ESCAPED: &AsciiSet = &capitals();

const fn capitals() -> AsciiSet {
    let mut escape_set = NON_ALPHANUMERIC.remove(b'-').remove(b'_');
    let mut letter = b'A';
    while letter <= b'Z' {
        escape_set = escape_set.add(letter);
        letter += 1;
    }
    escape_set
}

/// Returns the name of the file of a session, which ends in `extension`. No two ids share one, nor
/// does one differ from another in case alone.
pub(in crate::session) fn file_name(id: &str, extension: &str) -> Result<String> {
    let name = utf8_percent_encode(id, ESCAPED).to_string();
    let reason = match name.len() {
        0 => "it is empty".to_owned(),
        len if len > MAX_FILE_NAME => format!(
            "its file name would have {len} bytes, {MAX_FILE_NAME} at most; letters other than a \
             to z take three"
        ),
        _ => return Ok(name + extension),
    };

    let short_id = truncate(id, 60);
    Err(Error::new(
        ErrorKind::InvalidRequest,
        format!("session id {short_id:?} cannot be kept: {reason}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::file_name_len;

    #[test]
    fn length_of_a_name_is_known_without_it() {
        for id in [
            "a",
            "th_8f-3",
            "Th:1",
            "p:sub:a:call_1-0f",
            "/..",
            "\u{e4} \u{0}",
        ] {
            assert_eq!(
                file_name(id, "").unwrap().len(),
                file_name_len(id),
                "{id:?}"
            );
        }
    }
}
