//! The answers that people write to questions in a chat.

use crate::agent::Decision;
use crate::session::PendingCall;
use crate::tool::Answer;
use crate::tools::ask::{Choice, Chosen, late_result};

/// Returns the answer to a question about a call: `yes`, `always` or `no`. Any other text is a
/// refusal with that reason, so that only a plain yes allows a call.
pub(super) fn permission_answer(text: &str) -> Answer {
    let text = text.trim();
    match plain(text).as_str() {
        "yes" | "y" => Answer::Allow,
        "always" => Answer::AllowForSession,
        "no" | "n" => Answer::Deny("The user refused the call.".to_owned()),
        _ => Answer::Deny(reason(text).to_owned()),
    }
}

/// Returns the text in lower case, without punctuation at its end.
fn plain(text: &str) -> String {
    let text = text.trim_end_matches(['.', '!', ',']);
    text.trim().to_lowercase()
}

/// Returns the text after a `no` at its beginning.
fn reason(text: &str) -> &str {
    let Some((head, tail)) = text.split_at_checked(2) else {
        return text;
    };
    let is_word = tail.starts_with(|next: char| !next.is_alphanumeric());
    if !head.eq_ignore_ascii_case("no") || !is_word {
        return text;
    }
    tail.trim_start_matches(|next: char| next.is_whitespace() || ",.:;-".contains(next))
}

/// Returns the answer to a question with options to pick from: numbers, a label, or another text.
pub(super) fn chosen_of(choice: &Choice, text: &str) -> Chosen {
    let text = text.trim();
    let lower_text = text.to_lowercase();
    let is_label = |label: &str| label.to_lowercase() == lower_text;
    let label_index = choice
        .options
        .iter()
        .position(|option| is_label(&option.label));
    if let Some(index) = label_index {
        return Chosen::picked([index]);
    }

    let words = text.split([' ', ',', ';']).filter(|word| !word.is_empty());
    match indices_of(words, choice) {
        Some(indices) if choice.multiple && !indices.is_empty() => Chosen::picked(indices),
        Some(indices) if indices.len() == 1 => Chosen::picked(indices),
        _ => Chosen::text(text),
    }
}

/// Returns the picked options, each once, however often the text repeats it. Returns `None` if a
/// word picks none.
fn indices_of<'a>(words: impl Iterator<Item = &'a str>, choice: &Choice) -> Option<Vec<usize>> {
    let mut indices = Vec::new();
    for word in words {
        let index = index_of(word, choice)?;
        if !indices.contains(&index) {
            indices.push(index);
        }
    }
    Some(indices)
}

fn index_of(word: &str, choice: &Choice) -> Option<usize> {
    let number: usize = word.trim_end_matches(['.', ')']).parse().ok()?;
    let index = number.checked_sub(1)?;
    (index < choice.options.len()).then_some(index)
}

/// Returns the decision about a call that waited, by the text of a late answer.
pub(super) fn late_decision(call: &PendingCall, text: &str) -> Decision {
    if call.expects_text {
        let select = |choice: &Choice| chosen_of(choice, text);
        let result = late_result(&call.call.args, &call.question, select);
        return Decision::reply(call, result.unwrap_or_else(|| text.trim().to_owned()));
    }
    match permission_answer(text) {
        Answer::Allow => Decision::allow(call),
        Answer::AllowForSession => Decision::allow_for_session(call),
        Answer::Deny(reason) => Decision::deny(call, reason),
        _ => Decision::reply(call, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ask::ChoiceOption;

    #[test]
    fn only_a_plain_yes_allows() {
        for text in ["yes", " Yes. ", "Y", "YES!"] {
            assert_eq!(permission_answer(text), Answer::Allow, "{text}");
        }
        assert_eq!(permission_answer("Always"), Answer::AllowForSession);
        let denials = [
            ("no", "The user refused the call."),
            ("No, use the other file", "use the other file"),
            ("no: later", "later"),
            ("not now", "not now"),
            ("yes but only one", "yes but only one"),
            ("é", "é"),
        ];
        for (text, reason) in denials {
            assert_eq!(permission_answer(text), Answer::Deny(reason.to_owned()));
        }
    }

    #[test]
    fn numbers_and_labels_pick_and_other_texts_are_answers() {
        let choice = Choice::new("Which?")
            .option(ChoiceOption::new("JSON"))
            .option(ChoiceOption::new("YAML"))
            .or_text("another");
        let cases = [
            ("2", Chosen::picked([1])),
            ("2.", Chosen::picked([1])),
            ("yaml", Chosen::picked([1])),
            ("3", Chosen::text("3")),
            ("0", Chosen::text("0")),
            ("1, 2", Chosen::text("1, 2")),
            ("TOML please", Chosen::text("TOML please")),
        ];
        for (text, chosen) in cases {
            assert_eq!(chosen_of(&choice, text), chosen, "{text}");
        }
        let choice = choice.multiple(true);
        assert_eq!(chosen_of(&choice, "1, 2"), Chosen::picked([0, 1]));
        let repeated_text = "2 1 ".repeat(1_000);
        assert_eq!(chosen_of(&choice, &repeated_text), Chosen::picked([1, 0]));
    }
}
