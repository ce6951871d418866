//! Arguments and schemas that are too many, too large, too deep or contradictory.

use agentcore::Secret;
use agentcore::tool::check_arguments;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

use crate::kit::keys::assert_no_leak;
use crate::tool_schema::lines;

#[test]
fn failures_after_the_tenth_are_only_counted() {
    let args = Value::from(vec![1; 25]);
    let lines = lines(&json!({"items": {"type": "string"}}), &args);
    assert_eq!(lines.len(), 11);
    assert_eq!(lines[10], "and 15 more");
}

#[test]
fn place_of_a_failure_has_the_beginning_of_a_long_key() {
    let schema = json!({"additionalProperties": {"required": ["city"]}});
    let lines = lines(&schema, &json!({"k".repeat(100_000): {}}));
    let expected = format!("/{}.../city: required, but missing", "k".repeat(80));
    assert_eq!(lines, [expected]);
}

#[test]
fn quote_in_a_failure_shows_no_part_of_a_key() {
    const KEY: &str = "qjkzgwvhxqzwvjxqykzwzxqgjvkqvwzhxjqzkbwtpd";
    let _known = Secret::new(KEY);
    for before in (40..80).step_by(4) {
        let text = format!("{}{KEY}{}", "x".repeat(before), "y".repeat(100));
        let failures = [
            lines(&json!({"enum": ["a"]}), &json!(text)),
            lines(&json!({"enum": ["a"]}), &json!([{ text.clone(): 1 }])),
            lines(
                &json!({"additionalProperties": {"type": "string"}}),
                &json!({ text: 1 }),
            ),
        ]
        .concat();
        assert_eq!(failures.len(), 3);
        for failure in failures {
            assert!(failure.contains("xxxx"), "{failure}");
            assert_no_leak(&failure, KEY, &format!("{before}"));
        }
    }
}

#[test]
fn failure_text_is_short_for_large_values_and_enums() {
    let names: Vec<String> = (0..1_000).map(|i| format!("option {i}")).collect();
    let error = lines(&json!({"enum": names}), &json!("x".repeat(100_000)));
    assert!(error[0].len() < 600, "{}", error[0].len());
}

#[test]
fn arguments_nested_1000_deep_are_rejected() {
    let mut args = json!(1);
    for _ in 0..1_000 {
        args = json!({ "a": args });
    }
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
    let error = lines(&schema, &args);
    assert_eq!(
        error,
        ["/: nested too deeply or too large to check against the schema"]
    );
    // The drop of the test's own value recurses, so it has only a thousand levels.
    assert!(lines(&json!({}), &args).is_empty());
}

#[test]
fn large_arguments_are_checked_to_the_end() {
    let schema = json!({"items": {"anyOf": [{"type": "string"}, {"items": {"type": "integer"}}]}});
    let mut args = vec![json!([1, 2, 3]); 50_000];
    assert!(lines(&schema, &Value::from(args.clone())).is_empty());
    args.push(json!([1, "x"]));
    let expected = ["/50000/1: expected integer, got string"];
    assert_eq!(lines(&schema, &Value::from(args)), expected);
}

#[test]
fn check_of_nested_arguments_fits_a_stack_of_one_mebibyte() {
    let check = || {
        let mut args = json!(1);
        for _ in 0..300 {
            args = json!({ "a": [args] });
        }

        let schema = json!({"anyOf": [{"properties": {"a": {"items": {"$ref": "#"}}}}]});
        lines(&schema, &args).len()
    };

    let thread = std::thread::Builder::new()
        .stack_size(1024 * 1024)
        .spawn(check);
    assert_eq!(thread.unwrap().join().unwrap(), 1);
}

#[test]
fn nested_alternatives_are_rejected_at_the_step_limit() {
    let schema = json!({"anyOf": [
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["c"]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["d"]},
    ]});
    let mut args = json!({});
    for _ in 0..40 {
        args = json!({ "a": args });
    }

    assert_eq!(
        lines(&schema, &args),
        ["/: nested too deeply or too large to check against the schema"]
    );
}

const TOO_LARGE: &str = "/: nested too deeply or too large to check against the schema";

#[test]
fn comparison_with_many_values_is_rejected_at_the_effort_limit() {
    let variants: Vec<_> = (0..4_000).map(|n| json!({"v": n})).collect();
    let args = Value::from(vec![json!({"v": 3_999}); 200]);
    let schema = json!({"items": {"enum": variants}});
    assert_eq!(lines(&schema, &args), [TOO_LARGE]);

    let constants: Vec<_> = (0..4_000).map(|n| json!({"const": {"v": n}})).collect();
    let schema = json!({"items": {"anyOf": constants}});
    assert_eq!(lines(&schema, &args), [TOO_LARGE]);
}

#[test]
fn comparison_with_long_texts_is_rejected_at_the_effort_limit() {
    let texts: Vec<_> = (10..74)
        .map(|n| "x".repeat(65_536) + &n.to_string())
        .collect();
    let args = Value::from(vec![texts[63].clone(); 64]);
    assert_eq!(
        lines(&json!({"items": {"enum": texts}}), &args),
        [TOO_LARGE]
    );
    let args = json!("x".repeat(16 * 1024 * 1024));
    assert!(lines(&json!({"const": args}), &args).is_empty());
}

#[test]
fn texts_and_paths_of_discarded_failures_count_toward_the_effort_limit() {
    let variants: Vec<_> = (0..20).map(|n| format!("{n:0>80}")).collect();
    let listing = json!({"anyOf": vec![json!({"enum": variants}); 100]});
    let items = json!(vec!["x"; 50]);
    let deep = (0..90).fold(
        json!({"anyOf": vec![json!({"type": "null"}); 1_000]}),
        |inner, _| json!({"properties": {"a": inner}}),
    );
    let nested = (0..90).fold(json!(1), |inner, _| json!({"a": inner}));
    for (schema, args) in [
        (
            json!({"properties": {"a": {"items": listing}}}),
            json!({"a": items}),
        ),
        (
            json!({"properties": {"a": {"items": deep}}}),
            json!({"a": vec![nested; 50]}),
        ),
    ] {
        let error = check_arguments(&schema, &args).unwrap_err().to_string();
        assert!(error.contains("too large to check"), "{error:.200}");
    }
}

#[test]
fn long_list_is_compared_with_a_usual_enum() {
    let codes: Vec<_> = (0..250).map(|n| format!("code {n}")).collect();
    let mut args = vec![json!("code 249"); 5_000];
    let schema = json!({"items": {"enum": codes}});
    assert!(lines(&schema, &Value::from(args.clone())).is_empty());
    args.push(json!("code 250"));
    assert_eq!(lines(&schema, &Value::from(args)).len(), 1);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[ab#/$%~]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[ab]{0,2}", inner), 0..4).prop_map(object),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    const KEYWORDS: &[&str] = &[
        "type",
        "nullable",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "dependentRequired",
        "items",
        "prefixItems",
        "minItems",
        "uniqueItems",
        "minLength",
        "minimum",
        "exclusiveMaximum",
        "multipleOf",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "$ref",
        "$defs",
        "a",
        "b",
    ];
    let leaf = prop_oneof![
        any_json(),
        proptest::sample::select(
            &[
                "string",
                "integer",
                "object",
                "array",
                "#",
                "#/$defs",
                "#/anyOf/0"
            ][..]
        )
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(KEYWORDS), inner), 0..6)
                .prop_map(object),
        ]
    })
}

fn object<K: Into<String>>(members: Vec<(K, Value)>) -> Value {
    let members = members.into_iter().map(|(key, value)| (key.into(), value));
    Value::Object(Map::from_iter(members))
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(2020),
        failure_persistence: None,
        ..ProptestConfig::with_cases(512)
    })]

    #[test]
    fn check_never_panics_for_any_schema_and_arguments(schema in any_schema(), args in any_json()) {
        if let Err(error) = check_arguments(&schema, &args) {
            prop_assert!((1..=10).contains(&error.paths().count()));
            for path in error.paths() {
                prop_assert!(path.starts_with('/'), "{path}");
            }
        }
    }

    #[test]
    fn value_matches_its_const_and_not_its_negation(value in any_json()) {
        let itself = json!({"const": value});
        let negation = json!({"not": {"enum": [value]}});
        prop_assert!(check_arguments(&itself, &value).is_ok());
        prop_assert!(check_arguments(&negation, &value).is_err());
    }
}

#[test]
fn names_of_a_schema_count_toward_the_effort_limit() {
    let names: Vec<String> = (0..8_000).map(|n| format!("n{n}")).collect();
    let members: Map<String, Value> = (0..50_000).map(|n| (format!("m{n}"), json!(0))).collect();
    let empty = Value::from(vec![json!({}); 50_000]);
    let open = json!({"type": "object", "additionalProperties": true});
    let reference = format!("#/{}", "x/".repeat(8_000));
    let shapes = [
        (json!({"items": {"required": names}}), empty.clone()),
        (
            json!({"items": {"dependentRequired": {"a": names}}}),
            Value::from(vec![json!({"a": 0}); 50_000]),
        ),
        (
            json!({"items": {"type": names.iter().map(|_| "string").collect::<Vec<_>>()}}),
            empty,
        ),
        (
            json!({"items": {"$ref": reference}}),
            Value::from(vec![0; 50_000]),
        ),
        (json!({"allOf": vec![open; 2_000]}), Value::from(members)),
        (
            json!({"allOf": vec![json!({"uniqueItems": true}); 2_000]}),
            Value::from((0..50_000).collect::<Vec<_>>()),
        ),
        (
            json!({"allOf": vec![json!({"minLength": 1}); 2_000]}),
            json!("x".repeat(8 * 1024 * 1024)),
        ),
    ];
    for (schema, args) in &shapes {
        let head = schema.to_string().chars().take(60).collect::<String>();
        assert_eq!(lines(schema, args), [TOO_LARGE], "{head}");
    }
}

#[test]
fn names_in_references_count_toward_the_effort_limit() {
    let target = (0..99).fold(json!({}), |inner, _| json!({ "": inner }));
    let schema = |reference: String| {
        let references = vec![json!({ "$ref": reference }); 20];
        json!({"": target, "$defs": {"a": {}}, "items": {"allOf": references}})
    };
    let args = Value::from(vec![0; 5_000]);
    assert_eq!(
        lines(&schema(format!("#{}", "/".repeat(100))), &args),
        [TOO_LARGE]
    );
    assert!(lines(&schema("#/$defs/a".to_owned()), &args).is_empty());
}

#[test]
fn many_unexpected_members_among_many_known_ones_are_counted() {
    let properties: Map<String, Value> = (0..3_500).map(|n| (format!("p{n}"), json!({}))).collect();
    let schema = json!({"properties": properties, "additionalProperties": false});
    let members: Map<String, Value> = (0..50_000).map(|n| (format!("m{n}"), json!(0))).collect();
    let lines = lines(&schema, &Value::from(members));
    assert_eq!(lines[10], "and 49990 more");
    assert!(lines[0].ends_with(": unexpected property"), "{}", lines[0]);
}
