#!/usr/bin/env python3
"""Trims the price table of the `genai-prices` package down to `models.json`.

    pip download genai-prices==0.2.3 --no-deps
    python3 models.py genai_prices-0.2.3-py3-none-any.whl 2026-11-21 > models.json

The date says which of the source's dated prices hold. Where a price depends on the hour, the
dearest one is taken, so that a budget is never overspent. See README.md for the format.
"""

import datetime
import json
import re
import sys
import zipfile
from decimal import Decimal

# A provider that serves other makers' models is looked at only when it is named.
HOSTS = {"groq", "cerebras"}
ALIASES = {"google": ["gemini", "google-gla", "google-vertex"], "x-ai": ["xai"], "moonshotai": ["moonshot"]}
PROVIDERS = ["anthropic", "openai", "google", "mistral", "deepseek", "x-ai", "cohere",
             "moonshotai", "zai", "minimax", "meta", "groq", "cerebras"]
NOT_CHAT = re.compile(r"tts|audio|realtime|live|transcribe|image|embed|moderation|ocr|whisper|voxtral|guard"
                      r"|voice|banana|omni|robotics|davinci|babbage|^ada$|^curie$|:free|:extended|^ft:|\.ft-|claude-v1|^claude-2", re.I)

# Kept by hand, the source has no such fields: maximum output and context window (0: the source's)
# of the makers' model pages, by the beginning of the id; the first that fits counts.
LIMITS = [
    ("claude-3-haiku", 4096, 0), ("claude-3-opus", 4096, 0), ("claude-3-sonnet", 4096, 0),
    ("claude-3-5", 8192, 0), ("claude-3-7", 64000, 0), ("claude-opus-4-0", 32000, 0),
    ("claude-opus-4-1", 32000, 0), ("claude-opus-4-5", 64000, 0), ("claude-sonnet-4-0", 64000, 0),
    ("claude-sonnet-4-5", 64000, 0), ("claude-haiku-4-5", 64000, 0), ("claude-haiku-5", 64000, 0),
    ("claude-", 128000, 0),
    ("gpt-3.5", 4096, 16385), ("gpt-4o-2024-05-13", 4096, 0), ("gpt-4o", 16384, 128000),
    ("chatgpt-4o", 16384, 0), ("gpt-4.1", 32768, 0), ("gpt-4-turbo", 4096, 0), ("gpt-4-vision", 4096, 0),
    ("gpt-5", 128000, 0), ("gpt-6", 128000, 0),
    ("o1-mini", 65536, 0), ("o1-preview", 32768, 0), ("o1", 100000, 0), ("o3", 100000, 0), ("o4", 100000, 0),
    ("gemini-1", 8192, 0), ("gemini-2.0", 8192, 0), ("gemini-2.5", 65536, 1048576), ("gemini-3", 65536, 1048576),
]
SEES_IMAGES = re.compile(r"^(claude-|gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-4-vision|chatgpt-4o|gpt-5|gpt-6|o1$|o1-pro|o3$|o3-pro|o4"
                         r"|gemini-(?!1\.0-pro$)|pixtral|mistral-(medium|small|large)-(3|25|26|4|latest)|grok-(2-vision|4)"
                         r"|llama-3\.2-(11|90)b-vision|meta-llama/llama-4|GLM-4\.[56]V|kimi-k(2\.[5-9]|3))")


class Record:
    def __init__(self, *args, **fields):
        self.args, self.fields = args, fields

    def __getattr__(self, name):
        return self.__dict__["fields"].get(name)


def load(wheel):
    """The source's data module, its record types replaced by one that keeps what it is given."""
    text = zipfile.ZipFile(wheel).read("genai_prices/data.py").decode()
    names = {name: type(name, (Record,), {}) for name in re.findall(r"\b([A-Z]\w+)\(", text)}
    names |= {"Decimal": Decimal, "datetime": datetime, "Provider": type("Provider", (Record,), {})}
    exec(text.replace("from decimal import Decimal", "").replace("from .types import *", "")
         .replace("list[Provider]", "list"), names)
    return names["providers"]


def matchers(clause):
    kind = type(clause).__name__
    if kind in ("ClauseOr", "ClauseAnd"):
        return [m for part in clause.or_ or clause.and_ for m in matchers(part)]
    if kind == "ClauseRegex":  # Dated ids, which the reader strips, and "not a speech model".
        return []
    name = {"ClauseEquals": "exact", "ClauseStartsWith": "prefix", "ClauseContains": "contains", "ClauseEndsWith": "suffix"}[kind]
    return [{name: next(iter(clause.fields.values())).lower()}]


def current(prices, today):
    if not isinstance(prices, list):
        return prices.fields
    def start(price):
        return price.constraint and price.constraint.start_date
    lasting = [p for p in prices if p.constraint is None or (start(p) and start(p) <= today)]
    hourly = [p for p in prices if p.constraint is not None and start(p) is None]
    def dearness(price):
        value = price.prices.input_mtok
        return value.base if hasattr(value, "base") and value.base is not None else value
    return max([lasting[-1], *hourly], key=dearness).prices.fields


def number(value):
    return int(value) if value == int(value) else float(value)


def entry(model, today):
    prices = current(model.prices, today)
    keys = {"input": "input_mtok", "output": "output_mtok", "cache_read": "cache_read_mtok", "cache_write": "cache_write_mtok"}
    found = {name: prices[key] for name, key in keys.items() if prices.get(key) is not None}
    if NOT_CHAT.search(model.id) or not {"input", "output"} <= found.keys():
        return None
    out, window = next(((o, w) for start, o, w in LIMITS if model.id.startswith(start)), (0, 0))
    tiers = [value.tiers[0] for value in found.values() if isinstance(value, Record)]
    base = {name: number(value.base if isinstance(value, Record) else value) for name, value in found.items()}
    row = {"id": model.id, "match": matchers(model.match), "context_window": model.context_window or window,
           "max_output_tokens": out, "images": bool(SEES_IMAGES.match(model.id)), "prices": base}
    if tiers:
        row["prices"]["long"] = {"over": tiers[0].start} | {
            name: number(value.tiers[0].price if isinstance(value, Record) else value) for name, value in found.items()}
    return {key: value for key, value in row.items() if value or key == "images"}


def main(wheel, day):
    today = datetime.date.fromisoformat(day)
    sources = {provider.id: provider for provider in load(wheel)}
    lines = []
    for name in PROVIDERS:
        rows = [entry(model, today) for model in sources[name].models if name != "google" or model.id.startswith("gemini")]
        head = {"id": name} | ({"aliases": ALIASES[name]} if name in ALIASES else {}) | ({"host": True} if name in HOSTS else {})
        models = ",\n".join("  " + json.dumps(row) for row in rows if row)
        lines.append(json.dumps(head)[:-1] + ', "models": [\n' + models + "\n]}")
    print('{"providers": [\n' + ",\n".join(lines) + "\n]}")


main(*sys.argv[1:])
