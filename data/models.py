#!/usr/bin/env python3
"""Makes `models.json` of the price table of the `genai-prices` package and of `extra.json`.

    pip download --no-deps --require-hashes -r source.txt
    python3 models.py genai_prices-0.2.3-py3-none-any.whl > models.json

The wheel must have the hash of `source.txt`. Its module is parsed and never executed: a node, a
record or a field that is not listed here is an error. See README.md for the format.
"""

import ast
import datetime
import hashlib
import json
import re
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).parent
MODULE = "genai_prices/data.py"
# A provider that serves other makers' models is looked at only when it is named.
HOSTS = {"groq", "cerebras"}
ALIASES = {"google": ["gemini", "google-gla", "google-vertex"], "x-ai": ["xai"], "moonshotai": ["moonshot"]}
PROVIDERS = ["anthropic", "openai", "google", "mistral", "deepseek", "x-ai", "cohere",
             "moonshotai", "zai", "minimax", "meta", "groq", "cerebras"]
NOT_CHAT = re.compile(r"tts|audio|realtime|live|transcribe|image|embed|moderation|ocr|whisper|voxtral|guard"
                      r"|voice|banana|omni|robotics|davinci|babbage|^ada$|^curie$|:free|:extended|^ft:|\.ft-|claude-v1|^claude-2", re.I)

# The fields that are read, by their names here.
PRICES = {"input": "input_mtok", "output": "output_mtok", "cache_read": "cache_read_mtok",
          "cache_write": "cache_write_mtok", "cache_write_long": "cache_write_1h_mtok"}
# The records of the source and their fields. `OTHER_PRICES` are not for tokens of text and not read.
OTHER_PRICES = """audio_hours cache_audio_read_mtok cache_image_read_mtok input_annotated_document_kpages
    input_audio_hours input_audio_mtok input_document_kpages input_image_mtok input_mchars
    input_text_messages_kcount input_video_mtok output_audio_mtok output_citation_mtok output_image_mtok
    output_reasoning_mtok output_video_mtok requests_kcount storage_searches_kcount web_searches_kcount"""
RECORDS = {name: set(fields.split()) for name, fields in {
    "Provider": "id name api_pattern description extractors fallback_model_providers model_match models "
                "price_comments pricing_urls provider_match",
    "ModelInfo": "id match name description context_window deprecated price_comments price_variants prices",
    "ModelPrice": " ".join(PRICES.values()) + " " + OTHER_PRICES,
    "ConditionalPrice": "constraint prices",
    "PriceVariant": "constraint prices when",
    "StartDateConstraint": "start_date",
    "TimeOfDateConstraint": "start_time end_time",
    "TieredPrices": "base tiers",
    "Tier": "start price",
    "ClauseAnd": "and_",
    "ClauseOr": "or_",
    "ClauseContains": "contains",
    "ClauseEndsWith": "ends_with",
    "ClauseEquals": "equals",
    "ClauseRegex": "regex",
    "ClauseStartsWith": "starts_with",
    "UsageExtractor": "api_flavor mappings model_path root",
    "UsageExtractorMapping": "dest path required",
    "ArrayMatch": "field match type",
}.items()}
# Values that are made of constants, and times of day.
VALUES = {"Decimal": Decimal, "datetime.date": datetime.date}
TIME = re.compile(r"datetime\.time\(\d+, \d+(, tzinfo=datetime\.UTC)?\)")
# The patterns of ids that are read: with a date at the end, with a digit at the end, and of no speech model.
DATED = re.compile(r"\^[\w./\\-]+?-?(\[-@\])?(\\d\{8\}|\\d\{4\}-\\d\{2\}-\\d\{2\})\$")
NUMBERED = re.compile(r"\^([\w./\\-]+-)\\d")
NOT_SPEECH = r"^(?!.*-[tT][tT][sS](?:$|-))"
CLAUSES = {"ClauseEquals": ("exact", "equals"), "ClauseStartsWith": ("prefix", "starts_with"),
           "ClauseContains": ("contains", "contains"), "ClauseEndsWith": ("suffix", "ends_with")}


class Record:
    """A record of the source: its kind and its fields. A field that is absent is `None`."""

    def __init__(self, kind, fields):
        self.kind, self.fields = kind, fields

    def __getattr__(self, name):
        return self.fields.get(name)


def stop(text):
    sys.exit(f"models.py: {text}")


def unknown(node):
    stop(f"{MODULE}:{node.lineno}: this is not read: {ast.unparse(node)[:80]}")


def value(node):
    """The value of an expression of the source."""
    match node:
        case ast.Constant():
            return node.value
        case ast.List(elts=items):
            return [value(item) for item in items]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {value(key): value(item) for key, item in zip(keys, values)}
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in RECORDS:
            for keyword in keywords:
                if keyword.arg not in RECORDS[name]:
                    stop(f"{MODULE}:{node.lineno}: {name} has an unknown field {keyword.arg!r}")
            return Record(name, {keyword.arg: value(keyword.value) for keyword in keywords})
        case ast.Call(func=func, args=args, keywords=[]) if ast.unparse(func) in VALUES:
            if not all(isinstance(arg, ast.Constant) for arg in args):
                unknown(node)
            return VALUES[ast.unparse(func)](*[arg.value for arg in args])
        case ast.Call() if TIME.fullmatch(ast.unparse(node)):
            return None  # Every price of a day is compared.
        case _:
            unknown(node)


def providers(text):
    """The source's providers, by id."""
    found = None
    for node in ast.parse(text).body:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
                pass
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                pass
            case ast.AnnAssign(target=ast.Name(id="providers"), value=ast.List() as items) if found is None:
                found = value(items)
            case _:
                unknown(node)
    return {provider.id: provider for provider in found or stop(f"{MODULE} has no `providers`")}


def checked_wheel(path):
    """The text of the source's module, from a wheel with the hash of `source.txt`."""
    expected = re.search(r"--hash=sha256:([0-9a-f]{64})\s", (HERE / "source.txt").read_text()).group(1)
    actual = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if actual != expected:
        stop(f"{path} has the sha256 {actual}; source.txt has {expected}")
    return zipfile.ZipFile(path).read(MODULE).decode()


def checked_extra():
    """The data kept by hand. Every entry names its sources."""
    extra = json.loads((HERE / "extra.json").read_text())
    lists = [extra["limits"], extra["images"], *extra["long_cache_writes"].values(), *extra["lifecycle"].values()]
    for entry in (entry for entries in lists for entry in entries):
        for source in entry["source"].split(", "):
            if source not in extra["sources"]:
                stop(f"extra.json: {entry} has the source {source!r}, which is not listed")
    for name in {**extra["long_cache_writes"], **extra["lifecycle"]}:
        if name not in PROVIDERS:
            stop(f"extra.json: {name!r} is not a provider of the table")
    return extra


def matchers(clause):
    if clause.kind == "ClauseOr":
        return [m for part in clause.or_ for m in matchers(part)]
    if clause.kind == "ClauseAnd":
        parts = [part for part in clause.and_ if part.regex != NOT_SPEECH]
        if len(parts) != 1:
            stop(f"the table has no place for {len(parts)} clauses of which all must match")
        return matchers(parts[0])
    if clause.kind == "ClauseRegex":
        if DATED.fullmatch(clause.regex):  # The reader strips dates.
            return []
        numbered = NUMBERED.fullmatch(clause.regex)
        if numbered is None:
            stop(f"the table has no place for the pattern {clause.regex!r}")
        start = numbered.group(1).replace("\\.", ".").lower()
        return [{"prefix": start + digit} for digit in "0123456789"]
    name, field = CLAUSES[clause.kind]
    return [{name: clause.fields[field].lower()}]


def current(prices, today):
    """The prices of a day; of prices that depend on the hour, the highest."""
    if isinstance(prices, Record):
        return prices.fields
    def start(price):
        return price.constraint and price.constraint.start_date
    lasting = [p for p in prices if p.constraint is None or (start(p) and start(p) <= today)]
    hourly = [p for p in prices if p.constraint is not None and start(p) is None]
    def rank(price):
        amount = price.prices.input_mtok
        return amount.base if isinstance(amount, Record) else amount
    return max([lasting[-1], *hourly], key=rank).prices.fields


def number(amount):
    return int(amount) if amount == int(amount) else float(amount)


def priced(model, today):
    """The prices of a model as `models.json` has them, or `None`."""
    prices = current(model.prices, today)
    amounts = {name: prices[field] for name, field in PRICES.items() if prices.get(field) is not None}
    if not {"input", "output"} <= amounts.keys():
        return None
    tiers = [amount.tiers for amount in amounts.values() if isinstance(amount, Record)]
    if len({tuple(tier.start for tier in one) for one in tiers}) > 1 or any(len(one) > 1 for one in tiers):
        stop(f"{model.id} has tiers that the table has no place for")
    row = {name: number(amount.base if isinstance(amount, Record) else amount) for name, amount in amounts.items()}
    if tiers:
        row["long"] = {"over": tiers[0][0].start} | {
            name: number(amount.tiers[0].price if isinstance(amount, Record) else amount)
            for name, amount in amounts.items()}
    return row


def entry(model, provider, extra, today):
    """The row of a model, or `None` if it is no chat model with a price."""
    prices = None if NOT_CHAT.search(model.id) else priced(model, today)
    if prices is None:
        return None
    limits = next((one for one in extra["limits"] if model.id.startswith(one["prefix"])), {})
    for write in extra["long_cache_writes"].get(provider, []):
        if model.id in write["ids"]:
            prices["cache_write_long"] = write["price"]
            if "long" in write:
                prices["long"]["cache_write_long"] = write["long"]
    row = {"id": model.id, "match": matchers(model.match),
           "context_window": model.context_window or limits.get("context_window"),
           "max_output_tokens": limits.get("max_output_tokens"),
           "images": any(re.match(one["pattern"], model.id) for one in extra["images"]), "prices": prices}
    return {key: item for key, item in row.items() if item or key == "images"}


def lifecycles(entries):
    rows = {}
    for one in entries:
        dates = {key: one[key] for key in ("deprecated", "ends", "use") if key in one}
        rows |= {name: dates for name in one["ids"]}
    return rows


def main(wheel):
    extra = checked_extra()
    today = datetime.date.fromisoformat(extra["as_of"])
    sources = providers(checked_wheel(wheel))
    parts = []
    for name in PROVIDERS:
        models = [model for model in sources[name].models if name != "google" or model.id.startswith("gemini")]
        rows = [row for row in (entry(model, name, extra, today) for model in models) if row]
        head = {"id": name} | ({"aliases": ALIASES[name]} if name in ALIASES else {}) | ({"host": True} if name in HOSTS else {})
        dates = lifecycles(extra["lifecycle"].get(name, []))
        text = json.dumps(head)[:-1]
        if dates:
            text += ', "lifecycle": {\n' + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in dates.items()) + "\n}"
        parts.append(text + ', "models": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]}")
    print(f'{{"as_of": {json.dumps(extra["as_of"])}, "providers": [\n' + ",\n".join(parts) + "\n]}")


if len(sys.argv) != 2:
    stop("usage: models.py WHEEL > models.json")
main(sys.argv[1])
