//! The escaping of text between tags, so that it cannot end them.

/// Escapes the `<` of every tag named `tag` in `text`, in any case and with any spaces.
pub(super) fn escaped(text: &str, tag: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split('<');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let name = piece.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let is_tag = name
            .get(..tag.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(tag));
        out.push_str(if is_tag { "&lt;" } else { "<" });
        out.push_str(piece);
    }

    out
}
