//! Answers of the Responses API.

use super::answers::Call;

const MESSAGE_ID: &str = "msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654";

/// The events of an answer, which are numbered.
struct Answer {
    text: String,
    number: usize,
}

pub(super) fn text(words: &[&str]) -> String {
    let mut answer = Answer::begin();
    let text = words.concat();
    let place = format!("\"item_id\":\"{MESSAGE_ID}\",\"output_index\":0,\"content_index\":0");
    let part = |text: &str| {
        format!(
            "{{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"{text}\"}}"
        )
    };
    let item = |status: &str, content: &str| {
        format!(
            "{{\"id\":\"{MESSAGE_ID}\",\"type\":\"message\",\"status\":\"{status}\",\"content\":[{content}],\"role\":\"assistant\"}}"
        )
    };

    answer.item("added", 0, &item("in_progress", ""));
    let empty_part = format!("{place},\"part\":{}", part(""));
    answer.event("content_part.added", &empty_part);
    for word in words {
        let delta = format!("{place},\"delta\":\"{word}\",\"logprobs\":[]");
        answer.event("output_text.delta", &delta);
    }

    let whole_text = format!("{place},\"text\":\"{text}\",\"logprobs\":[]");
    answer.event("output_text.done", &whole_text);
    let whole_part = format!("{place},\"part\":{}", part(&text));
    answer.event("content_part.done", &whole_part);
    let whole_item = item("completed", &part(&text));
    answer.item("done", 0, &whole_item);
    answer.end(&whole_item)
}

pub(super) fn beginning() -> String {
    Answer::begin().text
}

pub(super) fn calls(calls: &[Call]) -> String {
    let mut answer = Answer::begin();
    let mut items = Vec::new();
    for call in calls {
        let Call { index, id, .. } = call;
        let place = format!("\"item_id\":\"fc_{id}\",\"output_index\":{index}");
        answer.item("added", *index, &call_item(call, "in_progress", ""));
        for piece in &call.pieces {
            let delta = format!("{place},\"delta\":\"{piece}\"");
            answer.event("function_call_arguments.delta", &delta);
        }

        let args = call.pieces.concat();
        let whole_args = format!("{place},\"arguments\":\"{args}\"");
        answer.event("function_call_arguments.done", &whole_args);
        let item = call_item(call, "completed", &args);
        answer.item("done", *index, &item);
        items.push(item);
    }

    answer.end(&items.join(","))
}

fn call_item(call: &Call, status: &str, args: &str) -> String {
    let Call { id, name, .. } = call;
    format!(
        "{{\"id\":\"fc_{id}\",\"type\":\"function_call\",\"status\":\"{status}\",\"arguments\":\"{args}\",\"call_id\":\"{id}\",\"name\":\"{name}\"}}"
    )
}

impl Answer {
    fn begin() -> Self {
        let mut answer = Self {
            text: String::new(),
            number: 0,
        };
        let response = response("in_progress", "", "null");
        answer.event("created", &response);
        answer.event("in_progress", &response);
        answer
    }

    fn item(&mut self, step: &str, index: usize, item: &str) {
        let fields = format!("\"output_index\":{index},\"item\":{item}");
        self.event(&format!("output_item.{step}"), &fields);
    }

    fn event(&mut self, name: &str, fields: &str) {
        let number = self.number;
        self.number += 1;
        self.text += &format!(
            "event: response.{name}\ndata: {{\"type\":\"response.{name}\",\"sequence_number\":{number},{fields}}}\n\n"
        );
    }

    fn end(mut self, output: &str) -> String {
        let usage = "{\"input_tokens\":120,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":50,\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":170}";
        self.event("completed", &response("completed", output, usage));
        self.text
    }
}

fn response(status: &str, output: &str, usage: &str) -> String {
    format!(
        "\"response\":{{\"id\":\"resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654\",\"object\":\"response\",\"created_at\":1741290958,\"status\":\"{status}\",\"background\":false,\"error\":null,\"incomplete_details\":null,\"instructions\":\"You are a helpful assistant. Answer briefly.\",\"max_output_tokens\":null,\"model\":\"bench-model\",\"output\":[{output}],\"parallel_tool_calls\":true,\"previous_response_id\":null,\"reasoning\":{{\"effort\":null,\"summary\":null}},\"store\":false,\"temperature\":1.0,\"text\":{{\"format\":{{\"type\":\"text\"}}}},\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,\"truncation\":\"disabled\",\"usage\":{usage},\"user\":null,\"metadata\":{{}}}}"
    )
}
