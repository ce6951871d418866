//! Texts and wire forms that other programs depend on, compared with files.

use agentcore::gateway::{DEFAULT_RESPONSE, InboundMessage, OutboundMessage};
use agentcore::message::{Media, Part};

use super::golden;

#[test]
fn messages_have_their_json() {
    let image = Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
    let inbound = InboundMessage::new("telegram", "123", "u1", "hi")
        .with_id("tg:77")
        .with_media(image)
        .with_metadata("lang", "en");
    let mut inbound = inbound.completed();
    assert!(inbound.published_at_us.is_some());
    inbound.published_at_us = Some(1_769_936_400_000_000);
    assert_eq!(
        serde_json::to_string(&inbound).unwrap(),
        golden("inbound.json")
    );
    let read: InboundMessage = serde_json::from_str(&golden("inbound.json")).unwrap();
    assert_eq!(read, inbound);

    let outbound = OutboundMessage::new("telegram", "123", "hello")
        .with_id("tg:77:reply")
        .with_metadata("format", "markdown");
    assert_eq!(
        serde_json::to_string(&outbound).unwrap(),
        golden("outbound.json")
    );
    let read: OutboundMessage = serde_json::from_str(&golden("outbound.json")).unwrap();
    assert_eq!(read, outbound);

    // All fields but the channel and the chat are optional.
    let least = r#"{"channel":"cli","chat_id":"direct"}"#;
    let read: InboundMessage = serde_json::from_str(least).unwrap();
    assert_eq!(read, InboundMessage::new("cli", "direct", "", ""));
}

#[test]
fn default_response_has_its_text() {
    assert_eq!(DEFAULT_RESPONSE, golden("default_response.txt"));
}
