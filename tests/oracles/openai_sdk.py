# requires: openai==3.54.0
"""Holds the OpenAI providers against OpenAI's SDK.

* The recorded requests have only fields that the SDK's types have, with values of their types.
* The SDK's client sends the same body, to the same path and with the same header for the key, when it
  is given the same fields.
* The SDK's reader of streams reads the recorded answers, and the items and messages that it makes of
  them are those that go back to the server in the recorded requests.
"""

import json
import pathlib
import sys

from recorder import Recorder, bodies, check_types, recordings

import openai
from openai.lib.streaming.chat._completions import ChatCompletionStreamState
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
ANSWER = {"type": "response.completed", "sequence_number": 0, "response": {"id": "r", "output": []}}


def check_client(recorder, send, path, body):
    """The client sends the fields it was given as they are."""
    recorder.answer(f"event: response.completed\ndata: {json.dumps(ANSWER)}\n\ndata: [DONE]\n\n".encode())
    for _ in send(**body):
        pass
    sent_path, headers, sent = recorder.requests.pop()
    assert sent_path == path, sent_path
    assert headers["authorization"] == "Bearer key", headers
    assert sent == body, f"the client sends\n{json.dumps(sent)}\nand not\n{json.dumps(body)}"


def plain(value):
    return value.to_dict(mode="json", exclude_unset=True)


def check_responses(client, recorder):
    """The items of the final response are those that go back."""
    input_items = bodies(DATA, "responses_answers.jsonl")[0]["input"]
    count = 0
    for recording in recordings(DATA, input_items):
        recorder.answer(recording.read_bytes())
        final = None
        with client.responses.stream(model="gpt-6-luna", input="Go") as stream:
            for event in stream:
                if event.type in ("response.completed", "response.incomplete"):
                    final = event.response
        recorder.requests.clear()
        for item in final.output:
            # The parsed forms of arguments and texts are the helper's own.
            item = without(plain(item), {"parsed", "parsed_arguments"})
            assert item in input_items, f"{recording.name}: {json.dumps(item)} does not go back"
            count += 1
    return count


def without(value, names):
    if isinstance(value, dict):
        return {name: without(field, names) for name, field in value.items() if name not in names}
    if isinstance(value, list):
        return [without(item, names) for item in value]
    return value


def check_chat(client, recorder):
    """The message that the chunks add up to is the one that goes back."""
    messages = bodies(DATA, "openai_answers.jsonl")[0]["messages"]
    answers = [message for message in messages if message["role"] == "assistant"]
    count = 0
    for recording, expected in zip(recordings(DATA, messages), answers, strict=True):
        recorder.answer(recording.read_bytes())
        state = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(model="qwen3", messages=[], stream=True):
            state.handle_chunk(chunk)
        recorder.requests.clear()
        message = plain(state.get_final_completion().choices[0].message)
        calls = [
            {"id": call["id"], "type": "function", "function": {name: call["function"][name] for name in ("name", "arguments")}}
            for call in message.get("tool_calls") or []
        ]
        assert (message.get("content") or "") == (expected.get("content") or ""), recording.name
        assert calls == expected.get("tool_calls", []), recording.name
        count += 1
    return count


def main():
    recorder = Recorder.start()
    client = openai.OpenAI(api_key="key", base_url=recorder.url + "/v1", max_retries=0)

    responses = bodies(DATA, "responses*.jsonl")
    for body in responses:
        check_types(response_create_params.ResponseCreateParamsStreaming, body)
        check_client(recorder, client.responses.create, "/v1/responses", body)
    chats = bodies(DATA, "openai*.jsonl")
    for body in chats:
        # A compatible server's reasoning, in the field that servers agree on.
        check_types(completion_create_params.CompletionCreateParamsStreaming, body, {"reasoning_content"})
        check_client(recorder, client.chat.completions.create, "/v1/chat/completions", body)
    items, messages = check_responses(client, recorder), check_chat(client, recorder)
    assert responses and chats and items and messages
    print(
        f"openai: {len(responses) + len(chats)} requests, {items} items and {messages} messages of recordings "
        f"agree with openai {openai.__version__}"
    )


if __name__ == "__main__":
    sys.exit(main())
