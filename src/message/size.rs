//! The size of messages, in memory and in requests.

use std::mem::size_of;

use crate::util::json_size::{JsonSize, escaped_len};

use super::annotations::Annotations;
use super::message::Message;
use super::part::{Media, MediaSource, Part, ProviderBlock};
use super::result::ToolResult;

/// The estimated overhead of a field: of its allocation in memory, and of its name in JSON.
const FIELD: usize = 32;

/// The memory of a part without its content.
pub(crate) const PART_SIZE: usize = size_of::<Part>() + FIELD;

/// The memory of a citation without its texts.
pub(crate) const CITATION_SIZE: usize = 3 * FIELD;

/// The memory of a message without its content.
pub(crate) const MESSAGE_SIZE: usize = size_of::<Message>() + 2 * FIELD;

/// Returns the estimated memory of a message in bytes. Its texts count with their length in JSON.
pub(crate) fn message_size(message: &Message) -> usize {
    match message.as_tool_result() {
        Some(result) => result_size(result),
        None => MESSAGE_SIZE.saturating_add(parts_size(message.content().parts())),
    }
}

/// Returns the estimated memory of the message of a result, like [`message_size`].
pub(crate) fn result_size(result: &ToolResult) -> usize {
    let details = result.details.as_ref();
    let details = details.map_or(0, |details| JsonSize::of(details).memory);
    let display = result.display.as_deref().map_or(0, escaped_len);
    let names = escaped_len(&result.tool_call_id) + escaped_len(&result.name) + 2 * FIELD;
    let extra = details.saturating_add(display).saturating_add(names);
    MESSAGE_SIZE
        .saturating_add(parts_size(result.content.parts()))
        .saturating_add(extra)
}

/// Returns the estimated memory of parts, like [`message_size`].
pub(crate) fn parts_size(parts: &[Part]) -> usize {
    parts.iter().map(part_size).fold(0, usize::saturating_add)
}

/// Returns the estimated memory of a part, like [`message_size`].
pub(crate) fn part_size(part: &Part) -> usize {
    let content_size = match part {
        Part::ToolCall(call) => {
            let raw = call.raw_args.as_deref().map_or(0, escaped_len);
            let names = escaped_len(&call.id) + escaped_len(&call.name) + 3 * FIELD;
            let extra = call
                .extra
                .as_ref()
                .map_or(0, |fields| block_len(fields) + FIELD);
            raw + names + extra + JsonSize::of(&call.args).memory
        }
        Part::Annotations(annotations) => {
            let citations = annotations.citations.len().saturating_mul(CITATION_SIZE);
            citations.saturating_add(text_part_len(part))
        }
        _ => text_part_len(part),
    };
    PART_SIZE + content_size
}

/// Returns the size of a part's content in JSON, in bytes; 0 for a call.
pub(crate) fn text_part_len(part: &Part) -> usize {
    match part {
        Part::Text(text) => escaped_len(text),
        Part::Image(media) | Part::Document(media) | Part::Audio(media) => media_len(media),
        Part::Thinking(block) | Part::Opaque(block) => block_len(block),
        Part::Annotations(annotations) => annotations_len(annotations),
        Part::ToolCall(_) => 0,
    }
}

fn annotations_len(annotations: &Annotations) -> usize {
    let block = annotations.block.as_ref();
    let citations = annotations.citations.iter().map(|citation| {
        escaped_len(&citation.url)
            + escaped_len(&citation.title)
            + escaped_len(&citation.cited_text)
    });
    block.map_or(0, block_len) + citations.sum::<usize>()
}

fn block_len(block: &ProviderBlock) -> usize {
    block.raw.get().len() + block.provider.as_ref().map_or(0, |provider| provider.len())
}

fn media_len(media: &Media) -> usize {
    let source = match &media.source {
        MediaSource::Base64(source) | MediaSource::Url(source) => escaped_len(source),
        MediaSource::File { provider, id } => escaped_len(provider) + escaped_len(id),
    };
    let name = media.name.as_deref().map_or(0, escaped_len);
    source + escaped_len(&media.media_type) + name
}
