//! Parsers of texts: values, events, rules, commands.

use agentcore::permission::{Behavior, PermissionRules, Rule};
use agentcore::tool::check_arguments;
use agentcore::{FuncTool, Message, SdkMessage, ToolCall};
use fastrand::Rng;
use serde_json::{Value, json};

use super::fuzz;
use super::generator::Grammar;

const SHELL: Grammar = Grammar {
    tokens: &[
        "a",
        "b",
        " ",
        " ",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "\n",
        "$x",
        "${x}",
        "$1",
        "*",
        "?",
        "[a-z]",
        "~",
        "{a,b}",
        "{1..9}",
        ",",
        "..",
        "<",
        ">",
        ">>",
        "2>&1",
        "<<EOF\n",
        "EOF\n",
        "<<<",
        "=",
        "x=1",
        "!",
        "if ",
        "then ",
        "else ",
        "fi",
        "while ",
        "do ",
        "done",
        "for x in ",
        "case x in ",
        "a) ",
        "esac",
        "function f ",
        "coproc ",
        "time ",
        "env ",
        "sudo ",
        "bash -c ",
        "xargs ",
        "find . -exec ",
        "ssh h ",
        "eval ",
        "git log ",
        "sed 's/a/b/e' ",
        "awk '{print}' ",
        "\\",
        "\\\n",
        "#",
        "-",
        "--",
        "-c",
        "1",
    ],
    pairs: &[
        ("$(", ")"),
        ("`", "`"),
        ("${x:-", "}"),
        ("$((", "))"),
        ("((", "))"),
        ("{ ", "; }"),
        ("(", ")"),
        ("{", ",a}"),
        ("{a,", "}"),
        ("if ", "; then a; fi"),
        ("case ", " in a) ;; esac"),
        ("[[ ", " ]]"),
        ("\"", "\""),
        ("'", "'"),
        ("$'", "'"),
        ("\"$(", ")\""),
        ("<(", ")"),
        ("bash -c '", "'"),
        ("while ", "; do a; done"),
        ("for x in ", "; do a; done"),
        ("coproc ", ""),
        ("!", ""),
        ("cat <<E\n", "\nE\n"),
        ("f() ", ""),
        ("case x in a) ", ";; esac"),
        ("eval ", ""),
        ("((x[", "]))"),
    ],
};

#[test]
fn shell_commands_are_analysed_without_panic() {
    let rules = PermissionRules::new();
    fuzz("shell command", |rng| {
        let text = SHELL.text(rng, 96 * 1024);
        std::hint::black_box(rules.explain_command(&text).decision);
        text.len()
    });
}

const OPTIONS: Grammar = Grammar {
    tokens: &[
        "cat ", "rm ", "sort ", "git log ", "make ", "gcc ", "tar ", "grep -R ", "unknown ", " -",
        " --", "n", "r", "z", "1", "=", " ", " src", " a*", " */", "é", "$x",
    ],
    pairs: &[("'", "'"), ("-o ", ""), ("--", "=a")],
};

#[test]
fn options_of_commands_are_read_without_panic() {
    let rules = PermissionRules::new()
        .workspace("/nonexistent")
        .allow("Bash")
        .and_then(|rules| rules.deny("Bash(rm -rf:*)"))
        .and_then(|rules| rules.deny("Read(.env)"))
        .unwrap();
    fuzz("options of a command", |rng| {
        let text = OPTIONS.text(rng, 64 * 1024);
        std::hint::black_box(rules.explain_command(&text).decision);
        text.len()
    });
}

const RULES: Grammar = Grammar {
    tokens: &[
        "Bash",
        "Read",
        "WebFetch",
        "mcp__a__b",
        "*",
        "**",
        "?",
        ":*",
        "/",
        "//",
        "~/",
        ".",
        "..",
        "a",
        "b",
        "domain:",
        "https://",
        "example.com",
        "127.1",
        "[::1]",
        ":80",
        "%2e",
        "%",
        "@",
        "#",
        "git ",
        "-",
        " ",
        ",",
        "!",
        "\\",
        "bücher",
        "xn--",
        "漢字",
    ],
    pairs: &[
        ("(", ")"),
        ("{", "}"),
        ("{a,", "}"),
        ("[", "]"),
        ("\"", "\""),
    ],
};

#[test]
fn permission_rules_are_matched_without_panic() {
    let any = || json!({"type": "object"});
    let tools = [
        ("Bash", "command"),
        ("Read", "file_path"),
        ("WebFetch", "url"),
    ]
    .map(|(name, field)| {
        (
            FuncTool::new(name, "", any(), |_, _| async { "" }),
            name,
            field,
        )
    });

    fuzz("permission rule", |rng| {
        let (tool, name, field) = &tools[rng.usize(..tools.len())];
        let specifier = RULES.text(rng, 4 * 1024);
        let text = match rng.u8(..4) {
            0 => specifier,
            _ => format!("{name}({specifier})"),
        };

        let behavior = [Behavior::Allow, Behavior::Deny, Behavior::Ask][rng.usize(..3)];
        let argument = RULES.text(rng, 4 * 1024);
        let argument = if rng.bool() {
            argument
        } else {
            format!("https://{argument}/")
        };

        let size = text.len() + argument.len();
        if let Ok(rule) = Rule::new(behavior, &text) {
            let call = ToolCall::new("c", *name, json!({ *field: argument }));
            std::hint::black_box(PermissionRules::new().rule(rule).explain(&call, tool));
        }

        size
    });
}

pub(super) const JSON: Grammar = Grammar {
    tokens: &[
        "{}",
        "[]",
        "null",
        "true",
        "1",
        "-0.0",
        "1e999",
        "18446744073709551615",
        "\"a\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"type\":",
        "\"role\":",
        "\"content\":",
        "\"text\"",
        "\"assistant\"",
        "\"user\"",
        ",",
        ":",
        "\"tool_use\"",
        "\"tool_result\"",
        "\"id\":",
        "\"name\":",
        "\"input\":",
        "\"message\":",
        "\"uuid\":",
        "\"session_id\":",
        " ",
        "\n",
        "\\",
        "\"",
        "{\"type\":\"text\",\"text\":\"a\"}",
        "{\"type\":\"thinking\",\"thinking\":\"a\"}",
        "{\"role\":\"user\",\"content\":\"a\"}",
    ],
    pairs: &[
        ("[", "]"),
        ("{\"a\":", "}"),
        ("{\"content\":[", "]}"),
        ("{\"role\":\"user\",\"content\":", "}"),
        ("{\"type\":\"assistant\",\"message\":", "}"),
        ("{\"type\":\"tool_use\",\"input\":", "}"),
        ("\"", "\""),
    ],
};

#[test]
fn messages_deserialize_without_panic() {
    fuzz("JSON of messages", |rng| {
        let text = JSON.text(rng, 64 * 1024);
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            std::hint::black_box(serde_json::from_value::<Vec<Message>>(value).is_ok());
        }
        std::hint::black_box(serde_json::from_str::<Message>(&text).is_ok());
        std::hint::black_box(serde_json::from_str::<SdkMessage>(&text).is_ok());
        text.len()
    });
}

/// Returns a random value; a schema if `words` are the keywords of schemas.
fn value(rng: &mut Rng, words: &[&str], depth: usize) -> Value {
    let most = if depth == 0 { 6 } else { 9 };
    match rng.u8(..most) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(rng.i64(-3..4)),
        3 => json!(rng.u64(..)),
        4 => json!(rng.f64() * 4.0),
        5 => json!(words[rng.usize(..words.len())]),
        6 => {
            let item = value(rng, words, depth - 1);
            let times = 1_usize << rng.u32(..4).min(rng.u32(..12));
            Value::Array(vec![item; times])
        }
        7 => (0..rng.usize(..5))
            .map(|_| value(rng, words, depth - 1))
            .collect(),
        _ => {
            let members = (0..rng.usize(1..5)).map(|_| {
                let key = words[rng.usize(..words.len())];
                (key.to_owned(), value(rng, words, depth - 1))
            });

            Value::Object(members.collect())
        }
    }
}

#[test]
fn arguments_are_checked_against_any_schema_without_panic() {
    const KEYWORDS: [&str; 26] = [
        "type",
        "properties",
        "items",
        "required",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "$ref",
        "#",
        "#/a",
        "enum",
        "const",
        "uniqueItems",
        "minItems",
        "maxLength",
        "minimum",
        "multipleOf",
        "object",
        "array",
        "string",
        "additionalProperties",
        "a",
        "prefixItems",
        "nullable",
        "patternProperties",
    ];
    fuzz("schema", |rng| {
        let depth = rng.usize(1..9);
        let schema = value(rng, &KEYWORDS, depth);
        let args = value(rng, &["a", "type", "properties", "items", "#"], depth);
        let (schema, args) = match rng.u8(..3) {
            0 => (
                json!({"anyOf": [schema, {"properties": {"a": {"$ref": "#"}}}]}),
                args,
            ),
            1 => (
                json!({"uniqueItems": true, "items": schema, "enum": [args]}),
                args,
            ),
            _ => (schema, args),
        };

        std::hint::black_box(check_arguments(&schema, &args).is_ok());
        schema.to_string().len() + args.to_string().len()
    });
}

#[cfg(feature = "http")]
#[test]
fn server_sent_events_decode_without_panic() {
    const EVENTS: Grammar = Grammar {
        tokens: &[
            "data:", "data: ", "event: ", "id: ", "retry: ", ":", "a", "\n", "\n\n", "\r", "\r\n",
            "{}",
        ],
        pairs: &[("data: ", "\n"), ("data: {\"a\":", "}\n\n")],
    };

    fuzz("server-sent events", |rng| {
        let text = EVENTS.text(rng, 64 * 1024);
        let mut decoder = agentcore::providers::sse::SseDecoder::new();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rng.usize(1..=rest.len().min(4096)));
            decoder.feed(chunk.to_vec());
            while let Ok(Some(event)) = decoder.next_event() {
                std::hint::black_box(event.data.len());
            }

            rest = after;
        }

        std::hint::black_box(decoder.finish().is_ok());
        text.len()
    });
}

#[cfg(feature = "yaml")]
#[test]
fn rules_in_yaml_parse_without_panic() {
    fuzz("YAML of rules", |rng| {
        let text = YAML.text(rng, 64 * 1024);
        std::hint::black_box(agentcore::permission::PermissionConfig::from_yaml(&text).is_ok());
        text.len()
    });
}

#[cfg(feature = "yaml")]
pub(super) const YAML: Grammar = Grammar {
    tokens: &[
        "allow:",
        "deny:",
        "mode:",
        "name:",
        "description:",
        " ",
        "  ",
        "\n",
        "\n  ",
        "- ",
        "-",
        "? ",
        ": ",
        ",",
        "&a ",
        "*a",
        "!!str ",
        "!",
        "|",
        ">",
        "|2-\n",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "#",
        "'",
        "\"",
        "a",
        "1",
        "Read(a)",
        "\t",
        "<<: *a",
        "~",
        "0x1",
        "\\u0000",
    ],
    pairs: &[
        ("[", "]"),
        ("{", "}"),
        ("{a: ", "}"),
        ("- ", "\n"),
        ("\"", "\""),
        ("'", "'"),
        ("? ", "\n: "),
        ("allow: [", "]\n"),
        ("&a [", ", *a]"),
        ("a:\n ", "\n"),
    ],
};
