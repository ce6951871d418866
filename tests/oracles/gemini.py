# requires: google-genai==3.4.0
"""Holds the Gemini provider against Google's SDK.

* The recorded requests have only fields that the SDK's types have, with values of their types.
* The SDK's client sends the same body, to the same path and with the same header for the key, when it
  is given the same conversation.
* The SDK's reader of streams reads the recorded answers, with the same texts, calls and signatures.
"""

import base64
import json
import pathlib
import sys

from google import genai
from google.genai import types

from recorder import Recorder, bodies

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
MODEL = "gemini-3.8-flash"
ANSWER = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}


def check_types(body):
    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body.get("tools", []):
        types.Tool.model_validate(tool)
    types.Content.model_validate(body.get("systemInstruction", {}))
    types.ToolConfig.model_validate(body.get("toolConfig", {}))
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    known = {"contents", "tools", "systemInstruction", "toolConfig", "generationConfig"}
    assert set(body) <= known, set(body) - known


def camel_case(name):
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def normal(value):
    """The value without nulls, with names in camel case and base64 in its standard alphabet.

    The server reads names in both cases, and the client mixes them.
    """
    if isinstance(value, dict):
        out = {camel_case(name): normal(field) for name, field in value.items() if field is not None}
        for name in {"data", "thoughtSignature"} & out.keys():
            padded = out[name] + "=" * (-len(out[name]) % 4)
            out[name] = base64.b64encode(base64.urlsafe_b64decode(padded.replace("+", "-").replace("/", "_"))).decode()
        return out
    if isinstance(value, list):
        return [normal(item) for item in value]
    return value


def check_client(client, recorder, body):
    config = types.GenerateContentConfig.model_validate(
        {
            **body.get("generationConfig", {}),
            "automaticFunctionCalling": {"disable": True},
            "tools": body.get("tools"),
            "toolConfig": body.get("toolConfig"),
            "systemInstruction": body.get("systemInstruction"),
        }
    )
    contents = [types.Content.model_validate(content) for content in body["contents"]]
    recorder.answer(b"data: " + json.dumps(ANSWER).encode() + b"\n\n")
    for _ in client.models.generate_content_stream(model=MODEL, contents=contents, config=config):
        pass
    path, headers, sent = recorder.requests.pop()
    assert path == f"/v1/models/{MODEL}:streamGenerateContent?alt=sse", path
    assert headers["x-goog-api-key"] == "key"
    sent, expected = normal(sent), normal(body)
    # The client has another order of the tools.
    for one in (sent, expected):
        one.get("tools", []).sort(key=json.dumps)
    assert sent == expected, f"the client sends\n{json.dumps(sent)}\nand not\n{json.dumps(expected)}"


def chunks(recording):
    lines = recording.read_text().splitlines()
    return [json.loads(line[len("data:"):]) for line in lines if line.startswith("data:")]


def parts(response):
    candidates = response.get("candidates") or [{}]
    return candidates[0].get("content", {}).get("parts", [])


def check_recording(client, recorder, recording):
    """The SDK's parts, as JSON, are those of the recording."""
    expected = [part for chunk in chunks(recording) for part in parts(chunk)]
    # The client continues an answer that ends with CONTINUATION: with nothing, here.
    recorder.answer(recording.read_bytes(), b"")
    read = []
    for chunk in client.models.generate_content_stream(model=MODEL, contents="Go"):
        read += parts(chunk.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert normal(read) == normal(expected), f"{recording.name}: {read}"


def main():
    recorder = Recorder.start()
    options = types.HttpOptions(base_url=recorder.url)
    client = genai.Client(api_key="key", http_options=options)

    requests = bodies(DATA, "gemini*.jsonl")
    for body in requests:
        check_types(body)
        check_client(client, recorder, body)
    recordings = [path for path in sorted((DATA / "gemini").glob("*.sse")) if not path.name.startswith("error")]
    for recording in recordings:
        check_recording(client, recorder, recording)
    assert requests and recordings
    print(f"gemini: {len(requests)} requests and {len(recordings)} recordings agree with google-genai {genai.__version__}")


if __name__ == "__main__":
    sys.exit(main())
