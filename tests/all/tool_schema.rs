//! Arguments against schemas.

use agentcore::tool::check_arguments;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

fn lines(schema: &Value, args: &Value) -> Vec<String> {
    match check_arguments(schema, args) {
        Ok(()) => Vec::new(),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

/// Each row: a schema, arguments, and what is said of them; nothing means that they match.
fn hold(rows: Vec<(Value, Value, &[&str])>) {
    for (schema, args, expected) in rows {
        assert_eq!(lines(&schema, &args), expected, "{schema} on {args}");
    }
}

#[test]
fn types() {
    hold(vec![
        (
            json!({"type": "string"}),
            json!(5),
            &["/: expected string, got number"],
        ),
        (json!({"type": "integer"}), json!(1), &[]),
        (json!({"type": "integer"}), json!(1.0), &[]),
        (json!({"type": "integer"}), json!(u64::MAX), &[]),
        (
            json!({"type": "integer"}),
            json!(1.5),
            &["/: expected integer, got 1.5"],
        ),
        (
            json!({"type": "integer"}),
            json!("1"),
            &["/: expected integer, got string"],
        ),
        (json!({"type": "number"}), json!(1), &[]),
        (
            json!({"type": "boolean"}),
            json!(null),
            &["/: expected boolean, got null"],
        ),
        (
            json!({"type": "array"}),
            json!({}),
            &["/: expected array, got object"],
        ),
        (json!({"type": ["string", "null"]}), json!(null), &[]),
        (
            json!({"type": ["string", "null"]}),
            json!([]),
            &["/: expected string or null, got array"],
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!(null),
            &[],
        ),
        (
            json!({"type": "string", "nullable": false}),
            json!(null),
            &["/: expected string, got null"],
        ),
        (json!({"type": "future"}), json!(1), &[]),
    ]);
}

#[test]
fn objects() {
    let city =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let closed = json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false});
    hold(vec![
        (city.clone(), json!({}), &["/city: required, but missing"]),
        (
            city.clone(),
            json!({"city": null}),
            &["/city: expected string, got null"],
        ),
        (city, json!({"city": "Oslo", "more": 1}), &[]),
        (closed.clone(), json!({"a": 1, "b": 1}), &[]),
        (
            closed,
            json!({"c": 1}),
            &["/c: unexpected property; known are a, b"],
        ),
        (
            json!({"additionalProperties": false}),
            json!({"c": 1}),
            &["/c: unexpected property; none is known here"],
        ),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"c": 1}),
            &["/c: expected string, got number"],
        ),
        (
            json!({"additionalProperties": false, "patternProperties": {"^x": {}}}),
            json!({"xy": 1}),
            &[],
        ),
        (
            json!({"minProperties": 1}),
            json!({}),
            &["/: expected at least 1 members, got 0"],
        ),
        (
            json!({"maxProperties": 0}),
            json!({"a": 1}),
            &["/: expected at most 0 members, got 1"],
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"a": 1}),
            &["/b: required beside \"a\", but missing"],
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"c": 1}),
            &[],
        ),
        (
            json!({"properties": {"a/b~c": {"type": "null"}}}),
            json!({"a/b~c": 1}),
            &["/a~1b~0c: expected null, got number"],
        ),
        (
            json!({"properties": {"": {"type": "null"}}}),
            json!({"": 1}),
            &["/: expected null, got number"],
        ),
    ]);
}

#[test]
fn arrays() {
    hold(vec![
        (
            json!({"items": {"type": "string"}}),
            json!(["a", 1, "b", 2]),
            &[
                "/1: expected string, got number",
                "/3: expected string, got number",
            ],
        ),
        (json!({"items": false}), json!([1]), &["/0: not allowed"]),
        (
            json!({"prefixItems": [{"type": "string"}], "items": {"type": "null"}}),
            json!([1, 1]),
            &[
                "/0: expected string, got number",
                "/1: expected null, got number",
            ],
        ),
        (
            json!({"items": [{"type": "string"}], "additionalItems": false}),
            json!(["a", 1]),
            &["/1: not allowed"],
        ),
        (
            json!({"minItems": 2}),
            json!([1]),
            &["/: expected at least 2 items, got 1"],
        ),
        (
            json!({"maxItems": 1}),
            json!([1, 2]),
            &["/: expected at most 1 items, got 2"],
        ),
        (
            json!({"uniqueItems": true}),
            json!([{"a": 1, "b": 2}, 3, {"b": 2.0, "a": 1}]),
            &["/2: the same as item 0, but items must differ"],
        ),
        (
            json!({"uniqueItems": true}),
            json!([0.0, -0.0]),
            &["/1: the same as item 0, but items must differ"],
        ),
        (
            json!({"uniqueItems": true}),
            json!([1, "1", true, [1], {"1": 1}, null]),
            &[],
        ),
    ]);
}

#[test]
fn strings_and_numbers() {
    hold(vec![
        (json!({"maxLength": 2}), json!("\u{e9}\u{1f600}"), &[]),
        (
            json!({"minLength": 3}),
            json!("\u{e9}\u{1f600}"),
            &["/: expected at least 3 characters, got 2"],
        ),
        (
            json!({"pattern": "^a$", "format": "email"}),
            json!("b"),
            &[],
        ),
        (json!({"minimum": 1, "maximum": 3}), json!(1), &[]),
        (
            json!({"minimum": 1}),
            json!(0.5),
            &["/: expected at least 1, got 0.5"],
        ),
        (
            json!({"maximum": 3}),
            json!(4),
            &["/: expected at most 3, got 4"],
        ),
        (
            json!({"exclusiveMinimum": 1}),
            json!(1.0),
            &["/: expected more than 1, got 1.0"],
        ),
        (
            json!({"exclusiveMaximum": 1}),
            json!(1),
            &["/: expected less than 1, got 1"],
        ),
        (
            json!({"maximum": 9_007_199_254_740_993_u64}),
            json!(9_007_199_254_740_994_u64),
            &["/: expected at most 9007199254740993, got 9007199254740994"],
        ),
        (json!({"multipleOf": 0.1}), json!(0.3), &[]),
        (
            json!({"multipleOf": 3}),
            json!(7),
            &["/: expected a multiple of 3, got 7"],
        ),
        (json!({"multipleOf": 0}), json!(7), &[]),
        (json!({"minimum": "1", "maxLength": -1}), json!(0), &[]),
    ]);
}

#[test]
fn fixed_values() {
    hold(vec![
        (json!({"const": 1}), json!(1.0), &[]),
        (
            json!({"const": {"a": [1]}}),
            json!({"a": [2]}),
            &[r#"/: expected {"a":[1]}, got {"a":[2]}"#],
        ),
        (
            json!({"enum": ["c", "f"]}),
            json!("k"),
            &[r#"/: expected one of "c", "f", got "k""#],
        ),
        (json!({"enum": [null, 2]}), json!(2.0), &[]),
        (
            json!({"properties": {"x": false}}),
            json!({"x": 1}),
            &["/x: not allowed"],
        ),
        (json!(true), json!({"x": 1}), &[]),
        (json!("no schema"), json!({"x": 1}), &[]),
    ]);
}

#[test]
fn alternatives_are_reported_by_the_one_that_was_meant() {
    let optional = json!({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]});
    let tagged = json!({"oneOf": [
        {"type": "object", "properties": {"op": {"const": "add"}, "text": {"type": "string"}}, "required": ["op", "text"]},
        {"type": "object", "properties": {"op": {"const": "move"}, "to": {"type": "integer"}}, "required": ["op", "to"]},
    ]});
    hold(vec![
        (optional.clone(), json!(null), &[]),
        (optional.clone(), json!({}), &["/a: required, but missing"]),
        (
            optional,
            json!(1),
            &[
                "/: matches none of the alternatives (expected object, got number; expected null, got number)",
            ],
        ),
        (tagged.clone(), json!({"op": "move", "to": 1}), &[]),
        (
            tagged.clone(),
            json!({"op": "move", "to": "x"}),
            &["/to: expected integer, got string"],
        ),
        (
            tagged,
            json!({"op": "cut"}),
            &[
                "/: matches none of the alternatives (/text: required, but missing; /to: required, but missing)",
            ],
        ),
        (
            json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}),
            json!(1),
            &["/: matches 2 of the alternatives, but must match one"],
        ),
        (
            json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}),
            json!(1.5),
            &[],
        ),
        (
            json!({"allOf": [{"minimum": 1}, {"maximum": 3}]}),
            json!(0),
            &["/: expected at least 1, got 0"],
        ),
        (
            json!({"not": {"type": "null"}}),
            json!(null),
            &["/: matches what the schema excludes"],
        ),
        (json!({"not": {"type": "null"}}), json!(1), &[]),
        (json!({"anyOf": []}), json!(1), &[]),
    ]);
}

#[test]
fn references() {
    let tree = json!({
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "value": {"type": "integer"}}}},
    });
    hold(vec![
        (tree.clone(), json!({"next": {"next": {"value": 1}}}), &[]),
        (
            tree,
            json!({"next": {"next": {"value": "x"}}}),
            &["/next/next/value: expected integer, got string"],
        ),
        (
            json!({"$ref": "#/definitions/a%20b~1c", "definitions": {"a b/c": {"type": "null"}}}),
            json!(1),
            &["/: expected null, got number"],
        ),
        (json!({"$ref": "#"}), json!(1), &[]),
        (
            json!({"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}),
            json!(1),
            &[],
        ),
        (json!({"$ref": "#/nowhere"}), json!(1), &[]),
        (
            json!({"$ref": "https://example.com/schema.json"}),
            json!(1),
            &[],
        ),
        (
            json!({"$ref": "#/%", "minimum": 2}),
            json!(1),
            &["/: expected at least 2, got 1"],
        ),
    ]);
}

#[test]
fn many_failures_are_counted_after_ten() {
    let args = Value::from(vec![1; 25]);
    let lines = lines(&json!({"items": {"type": "string"}}), &args);
    assert_eq!(lines.len(), 11);
    assert_eq!(lines[10], "and 15 more");
}

#[test]
fn a_failure_quotes_little_and_lists_little() {
    let names: Vec<String> = (0..1_000).map(|i| format!("option {i}")).collect();
    let error = lines(&json!({"enum": names}), &json!("x".repeat(100_000)));
    assert!(error[0].len() < 600, "{}", error[0].len());
}

#[test]
fn the_model_is_given_each_path_and_the_schema() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let error = check_arguments(&schema, &json!({"city": 1})).unwrap_err();
    assert_eq!(
        error.for_model("weather", &schema),
        "invalid arguments for tool \"weather\":\n/city: expected string, got number\n\
         The arguments must be a JSON object that matches this schema: \
         {\"properties\":{\"city\":{\"type\":\"string\"}},\"type\":\"object\"}"
    );
    let large = json!({"description": "\u{e9}".repeat(50_000)});
    assert!(error.for_model("weather", &large).len() < 20_000);
}

#[test]
fn nesting_without_end_is_refused() {
    let mut args = json!(1);
    for _ in 0..2_000 {
        args = json!({ "a": args });
    }
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
    let error = lines(&schema, &args);
    assert_eq!(
        error,
        ["/: nested too deeply or too large to check against the schema"]
    );
    // Dropping two thousand levels is the test's own recursion, not the validator's.
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
fn checking_fits_a_small_stack() {
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
fn alternatives_within_alternatives_end() {
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
    fn no_schema_and_no_arguments_make_it_panic(schema in any_schema(), args in any_json()) {
        if let Err(error) = check_arguments(&schema, &args) {
            prop_assert!((1..=10).contains(&error.paths().count()));
            for path in error.paths() {
                prop_assert!(path.starts_with('/'), "{path}");
            }
        }
    }

    #[test]
    fn a_value_matches_itself_and_not_its_negation(value in any_json()) {
        let itself = json!({"const": value});
        let negation = json!({"not": {"enum": [value]}});
        prop_assert!(check_arguments(&itself, &value).is_ok());
        prop_assert!(check_arguments(&negation, &value).is_err());
    }
}
