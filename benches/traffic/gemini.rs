//! Answers of the Gemini API.

use super::answers::Call;

const SIGNATURE: &str =
    "CiQBjz1rX2pVYl6uMwZQ0vN1dJ2eY7hT9gK3sF5aR8bW4cX6oL0pEl8KVQGPPWtfalViXq4zBlDS83V0";

pub(super) fn text(words: &[&str]) -> String {
    let mut out = String::new();
    for (count, word) in (1..).zip(words) {
        out += &chunk(&format!("{{\"text\": \"{word}\"}}"), "", count);
    }

    out + &chunk(
        "{\"text\": \"\"}",
        "\"finishReason\": \"STOP\",",
        words.len(),
    )
}

pub(super) fn beginning() -> String {
    chunk("{\"text\": \"Let\"}", "", 1)
}

pub(super) fn calls(calls: &[Call]) -> String {
    let mut out = String::new();
    for call in calls {
        let Call {
            index, id, name, ..
        } = call;
        let args = call.args();
        let signature = match index {
            0 => format!(",\"thoughtSignature\": \"{SIGNATURE}\""),
            _ => String::new(),
        };
        let part = format!(
            "{{\"functionCall\": {{\"id\": \"{id}\",\"name\": \"{name}\",\"args\": {args}}}{signature}}}"
        );
        out += &chunk(&part, "", 12 * (index + 1));
    }

    out + &chunk("{\"text\": \"\"}", "\"finishReason\": \"STOP\",", 50)
}

fn chunk(part: &str, finish: &str, count: usize) -> String {
    let total = 120 + count;
    format!(
        "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{part}],\"role\": \"model\"}},{finish}\"index\": 0}}],\"usageMetadata\": {{\"promptTokenCount\": 120,\"candidatesTokenCount\": {count},\"totalTokenCount\": {total},\"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 120}}]}},\"modelVersion\": \"bench-model\",\"responseId\": \"Rk1naYq2Ea7MnvgP3ZyXsQk\"}}\n\n"
    )
}
