//! Validation of arguments against schemas.

use agentcore::tool::check_arguments;
use serde_json::{Value, json};

pub(crate) fn lines(schema: &Value, args: &Value) -> Vec<String> {
    match check_arguments(schema, args) {
        Ok(()) => Vec::new(),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

/// Checks rows of a schema, arguments, and the lines of the expected error, if there is one.
fn check_rows(rows: Vec<(Value, Value, &[&str])>) {
    for (schema, args, expected) in rows {
        assert_eq!(lines(&schema, &args), expected, "{schema} on {args}");
    }
}

#[test]
fn type_keyword_is_checked() {
    check_rows(vec![
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
fn failure_names_a_long_list_of_types_by_its_beginning() {
    let names = vec!["string"; 10_000];
    let schema = json!({"type": "object", "properties": {"a": {"type": names}}});
    let lines = lines(&schema, &json!({"a": 1}));
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("/a: expected string or string or"),
        "{lines:?}"
    );
    assert!(lines[0].len() < 200, "{lines:?}");
}

#[test]
fn object_keywords_are_checked() {
    let city =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let closed = json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false});
    check_rows(vec![
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
            &["/b: required together with \"a\", but missing"],
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
fn array_keywords_are_checked() {
    check_rows(vec![
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
fn string_and_number_keywords_are_checked() {
    check_rows(vec![
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
fn const_enum_and_boolean_schemas_are_checked() {
    check_rows(vec![
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
fn failed_alternatives_report_the_closest_one() {
    let optional = json!({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]});
    let tagged = json!({"oneOf": [
        {"type": "object", "properties": {"op": {"const": "add"}, "text": {"type": "string"}}, "required": ["op", "text"]},
        {"type": "object", "properties": {"op": {"const": "move"}, "to": {"type": "integer"}}, "required": ["op", "to"]},
    ]});
    check_rows(vec![
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
fn local_references_are_resolved() {
    let tree = json!({
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "value": {"type": "integer"}}}},
    });

    check_rows(vec![
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
fn error_for_the_model_lists_each_path_and_the_schema() {
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
