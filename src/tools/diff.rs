//! A unified diff of bounded size.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use similar::{DiffOp, TextDiff};

/// The number of lines shown around a change.
const CONTEXT: usize = 3;
/// The time limit of a diff. A diff that would take longer is coarser.
const TIME_LIMIT: Duration = Duration::from_millis(500);
/// The maximum number of bytes compared, from the first changed line to the last.
const MAX_BYTES: usize = 1024 * 1024;
/// The maximum number of lines compared.
const MAX_LINES: usize = 20_000;
/// The number of bytes that are compared at a time.
const PIECE: usize = 4096;

/// Returns the unified diff of a file, or only a note if the change spans too much.
pub(super) fn unified(path: &str, before: &[u8], after: &[u8]) -> String {
    let mut text = format!("--- a/{path}\n+++ b/{path}\n");
    let window = Window::around_change(before, after);
    let old = &before[window.old.clone()];
    let new = &after[window.new.clone()];
    if is_large(old) || is_large(new) {
        text.push_str("(the change spans too many lines to show)\n");
        return text;
    }

    let lines_above = count_lines(&before[..window.old.start]);
    let old = String::from_utf8_lossy(old);
    let new = String::from_utf8_lossy(new);
    let diff = TextDiff::configure()
        .timeout(TIME_LIMIT)
        .diff_lines(old.as_ref(), new.as_ref());
    let mut unified_diff = diff.unified_diff();
    unified_diff.context_radius(CONTEXT);
    for hunk in unified_diff.iter_hunks() {
        let hunk_text = hunk.to_string();

        // The hunk's own header counts lines from the start of the window.
        let body = hunk_text.split_once('\n').map_or("", |(_, body)| body);
        let old_lines = lines_of(hunk.ops(), DiffOp::old_range);
        let new_lines = lines_of(hunk.ops(), DiffOp::new_range);
        let old_range = header_range(&old_lines, lines_above);
        let new_range = header_range(&new_lines, lines_above);
        let _ = write!(text, "@@ -{old_range} +{new_range} @@\n{body}");
    }

    text
}

/// The lines between the common beginning and the common end of both versions, with the context
/// around them, as ranges of bytes.
struct Window {
    old: Range<usize>,
    new: Range<usize>,
}

impl Window {
    fn around_change(before: &[u8], after: &[u8]) -> Self {
        let prefix = common_prefix(before, after);
        let old_rest = &before[prefix..];
        let new_rest = &after[prefix..];
        let suffix = common_suffix(old_rest, new_rest);
        let mut start = line_start(before, prefix);
        for _ in 0..CONTEXT {
            start = line_start(before, start.saturating_sub(1));
        }

        let old_end = before.len() - suffix;
        let new_end = after.len() - suffix;
        let ends_line = |text: &[u8], end: usize| end == start || text[end - 1] == b'\n';
        let is_at_line_end = ends_line(before, old_end) && ends_line(after, new_end);
        // The remainder of the last changed line, and the context below it.
        let tail = &before[old_end..];
        let mut tail_len = 0;
        for _ in 0..CONTEXT + usize::from(!is_at_line_end) {
            tail_len += memchr::memchr(b'\n', &tail[tail_len..])
                .map_or(tail.len() - tail_len, |end| end + 1);
        }

        Self {
            old: start..old_end + tail_len,
            new: start..new_end + tail_len,
        }
    }
}

fn line_start(text: &[u8], offset: usize) -> usize {
    memchr::memrchr(b'\n', &text[..offset]).map_or(0, |end| end + 1)
}

/// Returns the length of the common prefix, in bytes. Compares pieces first, which is faster than
/// single bytes.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.chunks(PIECE).zip(b.chunks(PIECE));
    let equal_len = pieces
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len())
        .sum();
    let remaining = a[equal_len..].iter().zip(&b[equal_len..]);
    equal_len + remaining.take_while(|(a, b)| a == b).count()
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.rchunks(PIECE).zip(b.rchunks(PIECE));
    let equal_len: usize = pieces
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len())
        .sum();
    let a = &a[..a.len() - equal_len];
    let b = &b[..b.len() - equal_len];
    let remaining = a.iter().rev().zip(b.iter().rev());
    equal_len + remaining.take_while(|(a, b)| a == b).count()
}

fn is_large(text: &[u8]) -> bool {
    text.len() > MAX_BYTES || count_lines(text) > MAX_LINES
}

fn count_lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// Returns the lines of a hunk in one version, from its first operation to its last.
fn lines_of(ops: &[DiffOp], of: impl Fn(&DiffOp) -> Range<usize>) -> Range<usize> {
    match (ops.first(), ops.last()) {
        (Some(first), Some(last)) => of(first).start..of(last).end,
        _ => 0..0,
    }
}

/// Returns a range of lines in the form of a hunk's header, in which an empty range has the number
/// of the line before it.
fn header_range(lines: &Range<usize>, above: usize) -> String {
    let start = lines.start + above;
    let len = lines.len();
    match len {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{len}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(before: &str, after: &str) -> String {
        let diff = TextDiff::configure().diff_lines(before, after);
        let mut unified_diff = diff.unified_diff();
        unified_diff.context_radius(CONTEXT).header("a/x", "b/x");
        unified_diff.to_string()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn diff_of_one_change_equals_the_full_diff(
            head in "([a-z]{3,8}\n){0,12}",
            old in "([A-M]{3,8}\n){0,3}",
            new in "([N-Z]{3,8}\n){1,3}",
            tail in "([a-z]{3,8}\n){0,12}[a-z]{0,3}",
        ) {
            let (old_text, new_text) = (format!("{head}{old}{tail}"), format!("{head}{new}{tail}"));
            let window = unified("x", old_text.as_bytes(), new_text.as_bytes());
            prop_assert_eq!(window, whole(&old_text, &new_text));
        }

        #[test]
        fn any_change_has_a_hunk(before in "[ab\n]{0,40}", after in "[ab\n]{0,40}") {
            let text = unified("x", before.as_bytes(), after.as_bytes());
            prop_assert_eq!(text.contains("@@"), before != after);
        }
    }
}
