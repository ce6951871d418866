//! Tools without the macro: closures, typed arguments, contexts, registries.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use agentcore::tool::{Access, Concurrency, SideEffect};
use agentcore::{
    Answer, Content, FuncTool, Json, Tool, ToolContext, ToolError, ToolOutput, ToolRegistry,
};
use serde_json::{Value, json};

fn empty() -> Value {
    json!({"type": "object", "properties": {}})
}

fn named(name: &str) -> FuncTool {
    FuncTool::new(name, "", empty(), |_, _| async {})
}

async fn text_of(tool: FuncTool) -> String {
    let output = tool.execute(ToolContext::detached(), json!({})).await;
    output
        .expect("the tool succeeds")
        .content
        .text()
        .into_owned()
}

#[tokio::test]
async fn closure_may_return_any_text_type() {
    let cases = [
        (
            FuncTool::new("t", "", empty(), |_, _| async { "str" }),
            "str",
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { String::from("string") }),
            "string",
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { Cow::Borrowed("cow") }),
            "cow",
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { Content::from("content") }),
            "content",
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { json!("plain") }),
            "plain",
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { json!({"a": [1]}) }),
            r#"{"a":[1]}"#,
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { Json(vec![1, 2]) }),
            "[1,2]",
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { ToolOutput::new("output") }),
            "output",
        ),
        (FuncTool::new("t", "", empty(), |_, _| async {}), "done"),
        (
            FuncTool::new("t", "", empty(), |_, _| async { Ok("ok") }),
            "ok",
        ),
        (
            FuncTool::new("t", "", empty(), |_, _| async { Ok(Json(1.5)) }),
            "1.5",
        ),
    ];
    for (tool, expected) in cases {
        assert_eq!(text_of(tool).await, expected);
    }
}

#[tokio::test]
async fn question_mark_converts_any_error_in_a_closure() {
    let tool = FuncTool::new("t", "", empty(), |_, args| async move {
        match args["how"].as_str() {
            Some("std") => Ok("x".parse::<i32>()?.to_string()),
            Some("own") => Err(ToolError::new("no such city").with_details(json!({"code": 4})))?,
            _ => Err("plain".into()),
        }
    });

    let failed = async |how: &str| {
        let output = tool
            .execute(ToolContext::detached(), json!({"how": how}))
            .await;
        output.expect_err("the tool fails")
    };

    assert_eq!(
        failed("std").await.to_string(),
        "invalid digit found in string"
    );
    assert_eq!(failed("text").await.to_string(), "plain");
    let own = failed("own")
        .await
        .downcast::<ToolError>()
        .expect("its own type is kept");
    assert_eq!(own.details(), Some(&json!({"code": 4})));
}

#[test]
fn tool_properties_have_defaults_and_setters() {
    let tool = named("t");
    assert_eq!(Tool::side_effect(&tool), SideEffect::Mutating);
    assert_eq!(Tool::concurrency(&tool), Concurrency::Parallel);
    assert_eq!(Tool::timeout(&tool), None);
    assert!(!tool.is_idempotent());
    assert!(Tool::accesses(&tool, &json!({})).is_empty());

    let tool = tool
        .side_effect(SideEffect::ReadOnly)
        .exclusive()
        .timeout(Duration::from_secs(3))
        .idempotent()
        .accesses(|args| {
            vec![Access::Read(
                args["path"].as_str().unwrap_or_default().into(),
            )]
        });

    // The pointer has the same properties as the tool.
    let tool: Arc<dyn Tool> = Arc::new(Arc::new(tool));
    assert_eq!(tool.side_effect(), SideEffect::ReadOnly);
    assert_eq!(tool.concurrency(), Concurrency::Exclusive);
    assert_eq!(tool.timeout(), Some(Duration::from_secs(3)));
    assert!(tool.is_idempotent());
    assert_eq!(
        tool.accesses(&json!({"path": "a"})),
        [Access::Read("a".into())]
    );
}

#[tokio::test]
async fn detached_context_has_its_own_state_and_leaves_questions_unanswered() {
    let cx = ToolContext::detached();
    cx.progress(json!({"done": 1})).await;
    assert_eq!(cx.ask("May I?").await, Answer::Unanswered);
    assert!(cx.backend().is_none());
    assert!(!cx.cancellation().is_cancelled());

    let write = FuncTool::new("write", "", empty(), |cx, _| async move {
        cx.with_state(|mut state| {
            state.files_mut().insert("a".into(), "text".into());
            state.values.insert(7_u32);
        });

        "written"
    });

    write.execute(cx.clone(), json!({})).await.unwrap();
    assert_eq!(cx.with_state(|state| state.files().len()), 1);
    assert_eq!(cx.value::<u32>().as_deref(), Some(&7));
    assert_eq!(
        ToolContext::detached().with_state(|state| state.files().len()),
        0
    );
}

#[test]
fn tool_name_that_providers_reject_is_rejected_at_registration() {
    let long = "x".repeat(65);
    let mut tools = ToolRegistry::new();
    for name in ["", "a b", "a.b", "caf\u{e9}", "a/b", "a\n", &long] {
        let error = tools.register(named(name)).unwrap_err();
        assert!(
            error.to_string().contains("is not a tool name"),
            "{name:?}: {error}"
        );
        assert!(tools.replace(named(name)).is_err(), "{name:?}");
    }

    for name in ["a", "A-b_9", "-", &"x".repeat(64)] {
        tools.register(named(name)).unwrap();
    }

    assert_eq!(tools.names().len(), 4);
}

#[test]
fn parameters_that_are_not_an_object_schema_are_rejected() {
    let with = |schema| FuncTool::new("t", "", schema, |_, _| async {});
    for schema in [
        Value::Null,
        json!(true),
        json!([]),
        json!({"type": "string"}),
        json!({"type": ["object"]}),
    ] {
        let error = ToolRegistry::new()
            .register(with(schema.clone()))
            .unwrap_err();
        assert!(
            error.to_string().contains("of type object"),
            "{schema}: {error}"
        );
    }

    for schema in [json!({}), json!({"type": "object"})] {
        ToolRegistry::new().register(with(schema)).unwrap();
    }
}

#[test]
fn second_tool_of_a_name_is_rejected_unless_replaced() {
    let described = |text: &str| FuncTool::new("t", text, empty(), |_, _| async {});
    let mut tools = ToolRegistry::new();
    tools.register(described("first")).unwrap();
    let error = tools.register(described("second")).unwrap_err();
    assert!(
        error.to_string().contains("already a tool \"t\""),
        "{error}"
    );
    assert_eq!(tools.get("t").unwrap().description(), "first");
    let old = tools.replace(described("second")).unwrap().unwrap();
    assert_eq!(old.description(), "first");
    assert_eq!(tools.remove("t").unwrap().description(), "second");
    assert!(tools.get("t").is_none() && tools.remove("t").is_none());
}

#[test]
fn disabled_tool_has_no_definition_but_can_be_looked_up() {
    let mut tools = ToolRegistry::new();
    tools.disable("b");
    for name in ["c", "a", "b"] {
        tools.register(named(name)).unwrap();
    }

    let names = |tools: &ToolRegistry| -> Vec<String> {
        tools
            .definitions()
            .iter()
            .map(|d| d.name.to_string())
            .collect()
    };

    assert_eq!(tools.names(), ["a", "b", "c"]);
    assert_eq!(names(&tools), ["a", "c"]);
    assert!(tools.is_disabled("b") && tools.get("b").is_some());
    tools.enable("b");
    assert_eq!(names(&tools), ["a", "b", "c"]);
}

#[test]
fn clone_of_a_registry_is_independent() {
    let mut tools = ToolRegistry::new();
    tools.register(named("a")).unwrap();
    let mut copy = tools.clone();
    copy.register(named("b")).unwrap();
    copy.allow("a");
    assert_eq!(tools.names(), ["a"]);
    assert!(copy.is_allowed("a") && !tools.is_allowed("a"));
}

#[test]
fn debug_output_of_tools_and_registries_shows_names() {
    let mut tools = ToolRegistry::new();
    tools.register(named("a")).unwrap();
    assert!(format!("{tools:?} {:?}", named("b")).contains("\"b\""));
}

#[cfg(feature = "schema")]
mod typed {
    use agentcore::schemars::{self, JsonSchema};
    use agentcore::tool::{ArgumentError, schema_of};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct Weather {
        /// Where.
        city: String,
        days: Option<u8>,
        #[serde(default)]
        places: Vec<Place>,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Place {
        zip: i32,
    }

    /// An argument whose own code checks it, so that the schema does not describe the check.
    #[derive(Deserialize, JsonSchema)]
    struct Address {
        ip: Nested,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Nested {
        #[schemars(with = "String")]
        v4: std::net::Ipv4Addr,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Unit;

    #[derive(Deserialize, JsonSchema)]
    struct Braces {}

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "op", rename_all = "lowercase")]
    enum Change {
        Add { text: String },
        Clear,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Tree {
        #[serde(default)]
        children: Vec<Tree>,
    }

    async fn run(tool: &FuncTool, args: Value) -> Result<String, agentcore::BoxError> {
        let output = tool.execute(ToolContext::detached(), args).await?;
        Ok(output.content.text().into_owned())
    }

    fn weather() -> FuncTool {
        FuncTool::typed("weather", "", |args: Weather| async move {
            let zips: i32 = args.places.iter().map(|place| place.zip).sum();
            format!("{} {:?} {zips}", args.city, args.days)
        })
    }

    #[tokio::test]
    async fn typed_arguments_are_deserialized() {
        let args = json!({"city": "Oslo", "places": [{"zip": 1}, {"zip": 2}]});
        assert_eq!(run(&weather(), args).await.unwrap(), "Oslo None 3");
    }

    #[tokio::test]
    async fn whole_float_is_accepted_as_an_integer() {
        let args = json!({"city": "Oslo", "days": 2.0, "places": [{"zip": -1.0}]});
        assert_eq!(run(&weather(), args).await.unwrap(), "Oslo Some(2) -1");
        assert!(
            run(&weather(), json!({"city": "Oslo", "days": 2.5}))
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn deserialization_error_names_the_path() {
        for (args, path) in [
            (json!({"city": 5}), "/city"),
            (json!({"city": "", "days": 300}), "/days"),
            (
                json!({"city": "", "places": [{"zip": 1}, {"zip": "x"}]}),
                "/places/1/zip",
            ),
            (json!({}), "/"),
        ] {
            let error = run(&weather(), args.clone()).await.unwrap_err();
            let error = error
                .downcast::<ArgumentError>()
                .expect("an argument error");
            assert_eq!(error.paths().collect::<Vec<_>>(), [path], "{args}: {error}");
        }

        let address = FuncTool::typed(
            "a",
            "",
            |args: Address| async move { args.ip.v4.to_string() },
        );
        let error = run(&address, json!({"ip": {"v4": "1.2.3"}}))
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "/ip/v4: invalid IPv4 address syntax");
    }

    #[tokio::test]
    async fn typed_with_context_passes_the_context() {
        let tool = FuncTool::typed_with_context("t", "", |cx: ToolContext, _: Unit| async move {
            cx.tool_name().to_owned()
        });
        assert_eq!(run(&tool, json!({})).await.unwrap(), "detached");
    }

    #[tokio::test]
    async fn types_without_fields_have_an_empty_object_schema() {
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!(schema_of::<()>(), empty);
        assert_eq!(schema_of::<Unit>(), empty);
        assert_eq!(schema_of::<Braces>(), empty);
        let unit = FuncTool::typed("t", "", |(): ()| async { "called" });
        assert_eq!(run(&unit, json!({})).await.unwrap(), "called");
        let braces = FuncTool::typed("t", "", |_: Braces| async { "called" });
        assert_eq!(run(&braces, json!({})).await.unwrap(), "called");
    }

    #[test]
    fn derived_schema_is_inlined_and_has_no_title() {
        let schema = schema_of::<Weather>();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["required"], json!(["city"]));
        assert_eq!(
            schema["properties"]["city"],
            json!({"type": "string", "description": "Where."})
        );
        assert_eq!(
            schema["properties"]["places"]["items"]["required"],
            json!(["zip"])
        );
        for absent in ["$schema", "title", "$defs"] {
            assert!(schema.get(absent).is_none(), "{absent} in {schema}");
        }
    }

    #[tokio::test]
    async fn enum_and_recursive_arguments_become_object_schemas() {
        let change = FuncTool::typed("change", "", |args: Change| async move {
            match args {
                Change::Add { text } => text,
                Change::Clear => "cleared".to_owned(),
            }
        });

        assert_eq!(change.parameters()["type"], "object");
        assert_eq!(
            run(&change, json!({"op": "add", "text": "x"}))
                .await
                .unwrap(),
            "x"
        );
        assert_eq!(
            run(&change, json!({"op": "clear"})).await.unwrap(),
            "cleared"
        );

        let tree = FuncTool::typed("tree", "", |args: Tree| async move {
            args.children.len().to_string()
        });

        let args = json!({"children": [{"children": [{}]}, {}]});
        agentcore::tool::check_arguments(tree.parameters(), &args).unwrap();
        assert_eq!(run(&tree, args).await.unwrap(), "2");
        let wrong = json!({"children": [{"children": [{"children": 1}]}]});
        let error = agentcore::tool::check_arguments(tree.parameters(), &wrong).unwrap_err();
        assert_eq!(
            error.paths().collect::<Vec<_>>(),
            ["/children/0/children/0/children"]
        );
        for tool in [change, tree] {
            ToolRegistry::new().register(tool).unwrap();
        }
    }
}

#[test]
#[should_panic(expected = "with_state was called inside with_state")]
fn nested_access_to_detached_state_panics_instead_of_deadlocking() {
    let cx = ToolContext::detached();
    cx.with_state(|_| cx.with_state(|_| ()));
}

#[test]
#[should_panic(expected = "with_state was called inside with_state")]
fn value_access_inside_detached_state_panics_instead_of_deadlocking() {
    let cx = ToolContext::detached();
    cx.with_state(|_| cx.value::<u32>().is_some());
}

#[test]
fn detached_state_is_unlocked_after_a_panic() {
    let cx = ToolContext::detached();
    let inner = cx.clone();
    let nested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        inner.with_state(|_| inner.with_state(|_| ()));
    }));
    assert!(nested.is_err());
    assert_eq!(cx.with_state(|state| state.todos().len()), 0);
}
