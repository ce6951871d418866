"""Common parts of the scripts: a server that records requests, and a check of bodies against types.

To be imported before the SDK.
"""

import json
import re
import threading
import typing
from http.server import BaseHTTPRequestHandler, HTTPServer

from pydantic import TypeAdapter

# Pydantic reads an iterable lazily, and once: a union would always choose it and lose its items.
typing.Iterable = typing.List


class Recorder:
    """Records each request and gives it the next answer, or the last one again."""

    def __init__(self):
        self.requests = []
        self.answers = []
        self.url = ""

    @classmethod
    def start(cls):
        recorder = cls()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                recorder.requests.append((self.path, headers, json.loads(body)))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                answers = recorder.answers
                self.wfile.write(answers.pop(0) if len(answers) > 1 else answers[0])

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        recorder.url = f"http://127.0.0.1:{server.server_port}"
        return recorder

    def answer(self, *bodies):
        self.answers = list(bodies)


def bodies(data, pattern):
    """The recorded bodies in the files of this name."""
    paths = sorted((data / "requests").glob(pattern))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def recordings(data, messages):
    """The recorded streams whose answers are in a recorded request, which names them in its questions."""
    names = re.findall(r"That was ([a-z]+/[a-z_-]+\.sse)\.", json.dumps(messages))
    return [data / name for name in names]


def check_types(kind, body, further=()):
    """The body is a value of the type, which has all of its fields at any depth but for these further ones."""
    adapter = TypeAdapter(kind)
    value = adapter.validate_python(body)
    read = adapter.dump_python(value, mode="json", warnings=False)
    unknown = list(differences(body, read, "body", further))
    assert not unknown, "\n".join(unknown)


def differences(body, read, place, further):
    """The places of the body that a type does not have, or has otherwise."""
    if isinstance(body, dict) and isinstance(read, dict):
        for name, field in body.items():
            if name in read:
                yield from differences(field, read[name], f"{place}.{name}", further)
            elif name not in further:
                yield f"{place}.{name} is not in the SDK's types: {json.dumps(field)[:80]}"
    elif isinstance(body, list) and isinstance(read, list) and len(body) == len(read):
        for index, (item, own) in enumerate(zip(body, read)):
            yield from differences(item, own, f"{place}[{index}]", further)
    elif body != read:
        yield f"{place} is read as {json.dumps(read)[:80]}: {json.dumps(body)[:80]}"
