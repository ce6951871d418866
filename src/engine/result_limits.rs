//! The limits of the results of tools: their nesting and their size.

use crate::message::{
    Content, MAX_JSON_DEPTH, PART_SIZE, Part, ToolCall, ToolResult, dismantle, is_text_too_deep,
    is_too_deep, part_size, parts_size, text_part_len,
};
use crate::util::json_size::{JsonSize, escaped_len, escaped_prefix};
use crate::util::text::cut_bytes;

/// The smallest limit of a result's size: a note about a cut fits into it.
pub(crate) const MIN_RESULT_BYTES: usize = 1024;

/// The size that details and a display text may have together even if the limit of each is
/// smaller: programs decide by details, and two small objects take more than
/// [`MIN_RESULT_BYTES`] in memory.
const MIN_DETAILS_BYTES: usize = 2 * MIN_RESULT_BYTES;

/// Limits a result. `max_bytes` applies separately to the content, the display text and the
/// details, except that details may have [`MIN_DETAILS_BYTES`] with the display text. Texts count
/// with their size in JSON, details with their size in memory.
pub(super) fn limit_result(result: &mut ToolResult, call: &ToolCall, max_bytes: usize) {
    remove_deep_details(result, call);
    let mut display_len = 0;
    if let Some(display) = &mut result.display {
        let len = escaped_len(display);
        cut_bytes(display, len, max_bytes, max_bytes);
        display_len = escaped_len(display);
    }

    let max_details = max_bytes.max(MIN_DETAILS_BYTES.saturating_sub(display_len));
    let details = result.details.as_ref();
    let size = details.map_or(0, |details| JsonSize::of(details).memory);
    if size > max_details {
        result.details = None;
        let note = format!(
            "\n... (the details of this result were removed: {size} bytes are more than the limit \
             of {max_details})"
        );
        let room = max_bytes.saturating_sub(escaped_len(&note));
        limit_content(&mut result.content, room, max_bytes);
        result.content.push_text(&note);
    }

    limit_content(&mut result.content, max_bytes, max_bytes);
}

/// Replaces a result whose details are nested too deep by a failure.
pub(super) fn remove_deep_details(result: &mut ToolResult, call: &ToolCall) {
    let Some(details) = result.details.take_if(|details| is_too_deep(details)) else {
        return;
    };

    dismantle(details);
    let is_silent = result.silent;
    let is_async = result.is_async;
    let text = format!(
        "the tool ran, but the details of its result are nested deeper than {MAX_JSON_DEPTH} \
         levels, so the whole result was removed"
    );
    *result = ToolResult::failed(call, text);
    (result.silent, result.is_async) = (is_silent, is_async);
}

/// Limits the content of a result to `room` bytes, including the note about a cut. `room` is what
/// is left of `max_bytes`, the limit that the note names.
pub(super) fn limit_content(content: &mut Content, room: usize, max_bytes: usize) {
    let is_deep = |part: &Part| match part {
        Part::Opaque(block) | Part::Thinking(block) => is_text_too_deep(block.raw.get()),
        _ => false,
    };

    content.parts_mut().retain(|part| !is_deep(part));
    // The memory of one part does not count, so that a single text can have all of the limit.
    let size = parts_size(content.parts()).saturating_sub(PART_SIZE);
    if size <= room {
        return;
    }

    let mut remaining = room.saturating_add(PART_SIZE);
    let mut is_cut = false;
    let mut has_note = false;
    for part in content.parts_mut() {
        if let Part::Text(text) = part {
            if is_cut {
                *text = String::new();
            } else {
                let room = remaining.saturating_sub(PART_SIZE);
                is_cut = cut_bytes(text, size, room, max_bytes);
            }
        } else if is_cut || part_size(part) > remaining {
            let note = Part::Text(replacement_text(part, max_bytes));
            // Many small media must not be replaced by more bytes of notes than there is room for.
            let is_noted = !has_note || part_size(&note) <= remaining;
            has_note = true;
            *part = if is_noted {
                note
            } else {
                Part::Text(String::new())
            };
        }

        remaining = remaining.saturating_sub(part_size(part));
    }

    let parts = content.parts_mut();
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    // The result stays in memory with its history.
    parts.shrink_to_fit();
}

/// Cuts texts to `room` bytes together, without a note. Texts without room are removed.
pub(super) fn cut_text(content: &mut Content, mut room: usize) {
    for part in content.parts_mut() {
        if let Part::Text(text) = part {
            let fitting = escaped_prefix(text, room);
            room -= escaped_len(fitting);
            text.truncate(fitting.len());
        }
    }
    let parts = content.parts_mut();
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
}

/// Returns the text that replaces a part over the limit.
fn replacement_text(part: &Part, max_bytes: usize) -> String {
    let kind = match part {
        Part::Image(_) => "image",
        Part::Document(_) => "document",
        Part::Audio(_) => "recording",
        _ => "block",
    };
    format!(
        "Error: the {kind} of {} bytes was left out: the limit of a tool result is {max_bytes} \
         bytes",
        text_part_len(part)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::Media;

    fn limited(mut result: ToolResult) -> ToolResult {
        let call = ToolCall::new("a", "f", json!({}));
        limit_result(&mut result, &call, MIN_RESULT_BYTES);
        result
    }

    #[test]
    fn long_text_is_cut_at_a_character_and_only_once() {
        let mut text = "x".to_owned();
        text.push_str(&"é".repeat(5_000));
        let limited_result = limited(ToolResult::new("a", "f", text));
        let text = limited_result.content.text();
        let len = escaped_len(&text);
        assert!(len <= MIN_RESULT_BYTES && len > MIN_RESULT_BYTES - 2);
        assert!(text.ends_with("é\n... (cut: 10001 bytes are more than the limit of 1024)"));
        assert_eq!(limited(limited_result.clone()), limited_result);
    }

    #[test]
    fn parts_count_as_they_are_in_memory() {
        let parts = vec![Part::text("x"); 500];
        let mut result = limited(ToolResult::new("a", "f", parts));
        let len = result.content.parts().len();
        assert!(result.content.parts_mut().capacity() < 2 * len);
        assert!(
            (2..=MIN_RESULT_BYTES / PART_SIZE + 2).contains(&len),
            "{len}"
        );
        let text = result.content.text();
        assert!(text.ends_with("are more than the limit of 1024)"), "{text}");
        let again = limited(result).content;
        assert_eq!(again.text().matches("more than the limit").count(), 1);
    }

    #[test]
    fn too_large_media_becomes_an_error_text() {
        let image = |len: usize| Part::Image(Media::base64("image/png", "A".repeat(len)));
        let parts = [Part::text("a"), image(500), image(2_000), Part::text("b")];
        let result = limited(ToolResult::new("a", "f", parts));
        let [a, small_part, large_part, b] = result.content.parts() else {
            panic!("{:?}", result.content);
        };
        assert_eq!((a, small_part, b), (&"a".into(), &image(500), &"b".into()));
        let text = large_part.as_text().expect("a text");
        assert!(text.starts_with("Error: the image of 2009 bytes"), "{text}");
    }

    #[test]
    fn notes_about_many_media_fit_into_the_limit() {
        let image = Part::Image(Media::base64("image/png", "A".repeat(2_000)));
        let result = limited(ToolResult::new("a", "f", vec![image; 1_000]));
        let size = parts_size(result.content.parts());
        assert!(size <= MIN_RESULT_BYTES + PART_SIZE, "{size}");
        assert!(result.content.text().starts_with("Error: the image of"));
    }

    #[test]
    fn too_large_recording_becomes_an_error_text() {
        let recording = Part::Audio(Media::base64("audio/wav", "A".repeat(2_000)));
        let result = limited(ToolResult::new("a", "f", recording));
        let text = result.content.text();
        assert!(
            text.starts_with("Error: the recording of 2009 bytes"),
            "{text}"
        );
    }

    #[test]
    fn details_of_two_objects_and_short_texts_have_room_next_to_a_short_display() {
        let name = "x".repeat(64);
        let details = json!({"handoff": {"from": name, "to": name}});
        for (display_len, has_details) in [(0, true), (300, true), (400, false)] {
            let mut result = ToolResult::new("a", "f", "done");
            result.details = Some(details.clone());
            result.display = Some("y".repeat(display_len));
            let result = limited(result);
            assert_eq!(result.details.is_some(), has_details, "{display_len}");
            let text = result.content.text();
            assert_eq!(text == "done", has_details, "{text}");
        }
    }

    #[test]
    fn large_details_and_display_texts_are_limited() {
        let mut result = ToolResult::new("a", "f", "done");
        result.details = Some(json!({"a": "x".repeat(2_000)}));
        result.display = Some("y".repeat(2_000));
        let result = limited(result);
        assert_eq!(result.details, None);
        assert!(
            result
                .display
                .is_some_and(|text| escaped_len(&text) == MIN_RESULT_BYTES)
        );
        assert!(result.content.text().starts_with("done\n... (the details"));
    }
}
