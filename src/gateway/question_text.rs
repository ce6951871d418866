//! The texts of questions in chats.

use crate::sdk::PermissionRequest;
use crate::tools::ask::Choice;

/// Returns the text of a question about a call.
pub(super) fn permission_text(request: &PermissionRequest) -> String {
    let question = &request.question;
    if let Some(choice) = Choice::of_request(request) {
        choice_text(&choice)
    } else if request.expects_text {
        question.clone()
    } else {
        format!("{question}\n\nReply yes, always, no, or no with a reason.")
    }
}

/// Returns the text of a question with its options, each with its number.
pub(super) fn choice_text(choice: &Choice) -> String {
    let mut text = choice.question.clone();
    for (index, option) in choice.options.iter().enumerate() {
        let number = index + 1;
        text.push_str(&format!("\n{number}. {}", option.label));
        if !option.description.is_empty() {
            text.push_str(&format!(" - {}", option.description));
        }
    }
    text.push_str(if choice.text.is_some() {
        "\n\nReply with a number, or in your own words."
    } else {
        "\n\nReply with a number."
    });
    text
}
