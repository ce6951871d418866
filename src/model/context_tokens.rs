//! The numbers in the errors of prompts that are too long.

use crate::error::{Error, ErrorKind};

/// The words before the number of tokens of the prompt, and before the maximum.
const FORMS: [(&str, &str); 5] = [
    ("prompt is too long: ", " tokens > "),
    ("resulted in ", "maximum context length is "),
    ("you requested ", "maximum context length is "),
    ("token count (", "tokens allowed ("),
    ("request (", "available context size ("),
];

impl Error {
    /// Returns the tokens of a prompt that was too long, and the maximum, if the provider named
    /// both in its error; `None` for errors other than [`ErrorKind::ContextTooLong`].
    ///
    /// ```
    /// use agentcore::{Error, ErrorKind};
    ///
    /// let text = "prompt is too long: 212000 tokens > 200000 maximum";
    /// let error = Error::new(ErrorKind::ContextTooLong, text);
    /// assert_eq!(error.context_tokens(), Some((212_000, 200_000)));
    /// ```
    pub fn context_tokens(&self) -> Option<(u64, u64)> {
        let text = self.text();
        let is_too_long = self.kind() == ErrorKind::ContextTooLong;
        let mut forms = FORMS.iter().filter(|_| is_too_long);
        forms.find_map(|(used, max)| Some((number_after(text, used)?, number_after(text, max)?)))
    }
}

fn number_after(text: &str, words: &str) -> Option<u64> {
    let (_, number) = text.split_once(words)?;
    let end = number.find(|char: char| !char.is_ascii_digit());
    number[..end.unwrap_or(number.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_from_the_texts_of_providers() {
        for (text, expected) in [
            (
                "prompt is too long: 212000 tokens > 200000 maximum",
                Some((212_000, 200_000)),
            ),
            (
                "This model's maximum context length is 128000 tokens. However, your messages \
                 resulted in 130001 tokens.",
                Some((130_001, 128_000)),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 \
                 tokens (5000 in the messages, 4000 in the completion).",
                Some((9_000, 8_192)),
            ),
            (
                "The input token count (1200293) exceeds the maximum number of tokens allowed \
                 (1048576).",
                Some((1_200_293, 1_048_576)),
            ),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens)",
                Some((5_000, 4_096)),
            ),
            ("context size has been exceeded", None),
            ("prompt is too long: many tokens > 5 maximum", None),
        ] {
            let error = Error::new(ErrorKind::ContextTooLong, text).context("openai");
            assert_eq!(error.context_tokens(), expected, "{text}");
        }
        let other = Error::new(ErrorKind::InvalidRequest, "request (5) context size (4)");
        assert_eq!(other.context_tokens(), None);
    }
}
