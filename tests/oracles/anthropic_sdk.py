# requires: anthropic==2.12.0
"""Holds the Anthropic provider against Anthropic's SDK.

* The recorded requests have only fields that the SDK's types have, with values of their types.
* The SDK's client sends the same body to the same path when it is given the same fields. Its headers
  differ: it names the version of 2026-10-21, and sends the key as a bearer token.
* The SDK's reader of streams reads the recorded answers, and the blocks that it makes of them are those
  that go back to the server in the recorded requests. A call of a server tool without its result is not
  among them, because a message of the user follows.
"""

import json
import pathlib
import sys

from recorder import Recorder, bodies, check_types, recordings

import anthropic
from anthropic.types import message_create_params

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
STOP = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'


def check_client(client, recorder, body):
    """The client sends the fields it was given as they are."""
    recorder.answer(STOP)
    for _ in client.messages.create(**body):
        pass
    path, _, sent = recorder.requests.pop()
    assert path == "/v1/messages", path
    assert sent == body, f"the client sends\n{json.dumps(sent)}\nand not\n{json.dumps(body)}"


def plain(block):
    """A block without what is not sent back: nulls, empty lists, and breakpoints of the prompt cache."""
    return {name: field for name, field in block.items() if field not in (None, []) and name != "cache_control"}


def without_open_calls(blocks):
    """The blocks without calls of server tools that have no result among them."""
    results = {block.get("tool_use_id") for block in blocks}
    return [block for block in blocks if block["type"] != "server_tool_use" or block["id"] in results]


def check_recordings(client, recorder):
    """The blocks of the message are those that go back."""
    messages = bodies(DATA, "anthropic_answers.jsonl")[0]["messages"]
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    count = 0
    for recording, expected in zip(recordings(DATA, messages), answers, strict=True):
        recorder.answer(recording.read_bytes())
        with client.messages.stream(model="claude-sonnet-5", max_tokens=1, messages=[]) as stream:
            message = stream.get_final_message()
        recorder.requests.clear()
        blocks = [plain(block.to_dict(mode="json", exclude_unset=True)) for block in message.content]
        blocks = without_open_calls(blocks)
        expected = [plain(block) for block in expected]
        assert blocks == expected, f"{recording.name}: {json.dumps(blocks)} is not\n{json.dumps(expected)}"
        count += len(blocks)
    return count


def main():
    recorder = Recorder.start()
    client = anthropic.Anthropic(api_key="key", base_url=recorder.url, max_retries=0)
    requests = bodies(DATA, "anthropic*.jsonl")
    for body in requests:
        check_types(message_create_params.MessageCreateParamsStreaming, body)
        check_client(client, recorder, body)
    blocks = check_recordings(client, recorder)
    assert requests and blocks
    print(
        f"anthropic: {len(requests)} requests and {blocks} blocks of recordings agree with anthropic "
        f"{anthropic.__version__}"
    )


if __name__ == "__main__":
    sys.exit(main())
