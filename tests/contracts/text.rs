//! Cuts of text.

use agentcore::message::Media;
use agentcore::text::{head, head_tail, tail, truncate};
use agentcore::{Content, Part};

#[test]
fn truncation_ends_in_three_dots_and_never_exceeds_the_limit() {
    for (text, max, expected) in [
        ("hello world", 5, "he..."),
        ("abcd", 3, "..."),
        ("abcd", 2, ".."),
        ("abcd", 0, ""),
        ("abcd", 4, "abcd"),
        ("", 0, ""),
        ("äöüß", 4, "äöüß"),
        ("äöüßé", 4, "ä..."),
        ("👍👍👍👍👍", 4, "👍..."),
    ] {
        assert_eq!(truncate(text, max), expected, "{text} to {max}");
    }
}

#[test]
fn head_and_tail_return_the_number_of_omitted_characters() {
    let text = "aä日👍z";
    for chars in 0..7 {
        let (start, after) = head(text, chars);
        let (end, before) = tail(text, chars);
        let char_count = chars.min(5);
        assert_eq!((start.chars().count(), after), (char_count, 5 - char_count));
        assert_eq!((end.chars().count(), before), (char_count, 5 - char_count));
        assert!(text.starts_with(start) && text.ends_with(end));
    }

    let mark = |omitted: usize| format!("<{omitted}>");
    assert_eq!(head_tail(text, 1, 1, mark), "a<3>z");
    assert_eq!(head_tail(text, 0, 0, mark), "<5>");
    assert_eq!(head_tail(text, 2, 3, mark), text);
    assert_eq!(head_tail(text, 9, 0, mark), text);
    assert_eq!(head_tail(text, 0, 9, mark), text);
}

#[test]
fn content_is_truncated_across_its_parts() {
    let image = || Part::Image(Media::url("u"));
    let parts = [
        Part::text("grün"),
        image(),
        Part::text("blau"),
        Part::text("rot"),
    ];
    let mut content = Content::from(parts.clone());
    assert_eq!(content.truncate(11), 0);
    assert_eq!(content, Content::from(parts.clone()));
    assert_eq!(content.truncate(5), 6);
    assert_eq!(
        content.parts(),
        [
            Part::text("grün"),
            image(),
            Part::text("b... (truncated 6 characters)")
        ]
    );
    let mut content = Content::from(parts);
    assert_eq!(content.truncate(0), 11);
    assert_eq!(
        content.parts(),
        [Part::text("... (truncated 11 characters)"), image()]
    );
}
