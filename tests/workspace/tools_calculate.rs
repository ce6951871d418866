//! `calculate`: accepted expressions, results and limits.

use agentcore::testing::ScriptedModel;
use agentcore::{Tool, ToolContext, tools};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::kit::{agent, results};

async fn call(args: Value) -> Result<String, String> {
    let output = tools::calculate()
        .execute(ToolContext::detached(), args)
        .await;
    match output {
        Ok(output) => Ok(output.content.text().into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn value(expression: &str) -> Result<String, String> {
    call(json!({"expression": expression})).await
}

/// Returns the value of an expression that takes much less than the time limit. On a busy machine
/// the limit may end first, so it is tried several times.
async fn quick_value(expression: &str) -> Result<String, String> {
    for _ in 0..50 {
        match value(expression).await {
            Err(error) if error.contains("longer than 800ms") => {}
            outcome => return outcome,
        }
    }
    value(expression).await
}

#[tokio::test]
async fn expressions_are_calculated() {
    for (expression, expected) in [
        ("2+2", "4"),
        ("10/4", "2.5"),
        ("2^10", "1024"),
        ("2**10", "1024"),
        ("7%3", "1"),
        ("7 % 3 * 2", "2"),
        ("2 * 7 % 4", "2"),
        ("10 % 4 + 1", "3"),
        ("7 mod 3", "1"),
        ("-5+3", "-2"),
        ("sqrt(16)", "4"),
        ("1000*1000", "1000000"),
        ("2+3*4", "14"),
        ("(2+3)*4", "20"),
        ("0.1+0.2", "0.3"),
        ("2^100", "1267650600228229401496703205376"),
        ("1.5e3", "1500"),
        ("1e-3", "0.001"),
        ("-2^2", "-4"),
        ("2^-1", "0.5"),
        ("5!", "120"),
        ("1/3", "0.333333333333333"),
        ("2/3", "0.666666666666667"),
        ("-1/3", "-0.333333333333333"),
        ("sqrt(2)", "1.4142135623731"),
        ("log10(100)", "2"),
        ("pi", "3.14159265358979"),
        ("2π", "6.28318530717959"),
        ("sin(pi/2)", "1"),
        ("6 ÷ 2 × 3 − 1", "8"),
        (" \t2\n+ 2 ", "4"),
        ("floor(2.7) + ceil(2.2) + abs(-1)", "6"),
    ] {
        assert_eq!(
            quick_value(expression).await.as_deref(),
            Ok(expected),
            "{expression}"
        );
    }

    assert_eq!(call(json!({"expr": "1+1"})).await.as_deref(), Ok("2"));
    let tiny = quick_value("1/3 * 1e-30").await.unwrap();
    assert!(
        tiny.starts_with("0.0000") && tiny.ends_with("333333333333333"),
        "{tiny}"
    );
}

#[tokio::test]
async fn invalid_expressions_are_errors_with_a_reason() {
    for (expression, why) in [
        ("10/0", "division by zero"),
        ("10 % 0", "modulo by zero"),
        ("", "empty"),
        (" \n", "empty"),
        ("2 +", "unexpected"),
        ("(1", "a closing ) is missing"),
        ("((1", "2 closing ) are missing"),
        ("1)", "has no opening ("),
        ("1,5 + 1", "without commas"),
        ("1 << 1000000000", "is not allowed"),
        ("a = 3", "not known"),
        ("f = \\x. f(x)", "not known"),
        ("\\x. x", "is not allowed"),
        ("@debug 1", "is not allowed"),
        ("\"text\"", "is not allowed"),
        ("d6", "not known"),
        ("2d6", "is not a number"),
        ("3 km to miles", "not known"),
        ("0x1F", "is not a number"),
        ("1.2.3", "is not a number"),
        (".", "is not a number"),
        ("2e", "exponent"),
        ("200 * 10%", "ten percent"),
        ("7%-3", "ten percent"),
        ("max(1, 2)", "not known"),
        ("1; 2", "is not allowed"),
        ("système", "not known"),
        ("2 € 3", "is not allowed"),
        ("1\u{0}", "is not allowed"),
    ] {
        let error = quick_value(expression).await.unwrap_err();
        assert!(error.contains(why), "{expression:?}: {error}");
    }

    for args in [json!({}), json!({"expression": 2}), json!(null)] {
        assert!(call(args).await.is_err());
    }
}

/// Returns the number of threads of this process that calculate.
#[cfg(target_os = "linux")]
fn calculating_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("agentcore-compu"))
        .count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn many_calculations_share_sixteen_threads() {
    let calls = join_all((0..48).map(|_| value("9^9^9^9")));
    let mut max_count = 0;
    let count_threads = async {
        loop {
            max_count = max_count.max(calculating_threads());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = calls => {}
        () = count_threads => {}
    }
    // Threads whose calculation has ended may still exist.
    assert!((16..=32).contains(&max_count), "{max_count} threads");
}

#[tokio::test]
async fn hostile_expressions_time_out() {
    let hostile = ["9^9^9^9", "100000!", "1e999999999"];
    for (expression, found) in hostile.iter().zip(join_all(hostile.map(value)).await) {
        let error = found.unwrap_err();
        assert!(
            error.contains("longer than 800ms; calculate with smaller numbers"),
            "{expression}: {error}"
        );
    }
}

#[tokio::test]
async fn too_large_fractions_are_rejected_before_calculation() {
    for expression in [
        "(1/3)^100000 * 3^100000",
        "3^-100000 * 3^100000",
        "0.1^(10^6)",
        "1.5^(2 * 50000)",
        "1.5^(99999 1/3)",
        "(1/3)^(1 1/100000)",
        "(2/3)^((10^30 + 10^6) - 10^30)",
        "sqrt(1/9)^100000",
        "(1/3)^7!!",
        "1/3^100000 + 1/7^90000",
        "5^200000 / 7^100000",
        "1e-999999999",
        "1.5^9^9",
        "(1/3)^sqrt(10^12)",
        "1.0001^(floor(99999.5) * 9)",
        "2/30000!",
        "3^100000/3^99999 mod 7",
        "(/3)^100000",
        // The exponents have numbers that a float cannot hold, or not exactly.
        "(1/3)^(1e400/1e394)",
        "(1/3)^(1e-400 * 1e400 * 10^6)",
        "(1/3)^(1e400/1e400 * 10^6)",
        "(1/3)^floor(1e406/1e400)",
        "(1/3)^floor(10^6 / \
         (1267650600228229542234191560705 - 1267650600228229542234191560704))",
        "(1/3)^floor(10^12 / (1000000 1/2))",
    ] {
        let error = value(expression).await.unwrap_err();
        assert!(error.contains("9864 digits"), "{expression}: {error}");
    }

    for expression in ["sqrt^100000 (1/9)", "(sqrt)(4)", "2 + sin"] {
        let error = value(expression).await.unwrap_err();
        assert!(
            error.contains("argument right behind it"),
            "{expression}: {error}"
        );
    }
}

#[tokio::test]
async fn fractions_of_a_common_size_are_calculated() {
    for (expression, expected) in [
        ("1000 * (1 + 0.05/12)^(12*4)", "1220.89535502542"),
        ("52!/(5! * 47!)", "2598960"),
        ("1000!/998!", "999000"),
        ("(1/3)^100 * 3^100", "1"),
        ("1.05^-10", "0.613913253540759"),
        ("2^0.5 * 2^(1/2)", "2"),
        ("2^sqrt(16) + 1.5^floor(2.7)", "18.25"),
        ("1 2/3 * 3", "5"),
        ("2^(100000 - 99990)", "1024"),
        ("2^(40000 - 40000)", "1"),
        ("10^400 / 10^398", "100"),
        ("2^100000 mod 7", "2"),
        ("2 sqrt(9) (2^3)", "48"),
        ("1e400/1e399", "10"),
        ("10^6 / (1000000 1/2) * 2000001", "2000000"),
    ] {
        assert_eq!(
            quick_value(expression).await.as_deref(),
            Ok(expected),
            "{expression}"
        );
    }
}

#[tokio::test]
async fn nesting_is_bounded_by_length_and_never_by_the_stack() {
    for (expression, expected) in [
        (format!("{}1{}", "(".repeat(499), ")".repeat(499)), "1"),
        (format!("{}1", "-".repeat(998)), "1"),
        (format!("{}1", "sqrt ".repeat(190)), "1"),
        (format!("{}1", "1+".repeat(499)), "500"),
        (format!("{}1", "1^".repeat(499)), "1"),
    ] {
        // On a slow machine the time limit may end first, but the stack must not overflow.
        match value(&expression).await {
            Ok(found) => assert_eq!(found, expected, "{expression}"),
            Err(error) => assert!(error.contains("longer than"), "{expression}: {error}"),
        }
    }

    for long in ["(".repeat(1_000_000), "1+".repeat(600)] {
        let error = value(&long).await.unwrap_err();
        assert!(error.contains("the limit is 1000"), "{error}");
    }
}

/// Parsing these expressions would take minutes.
#[tokio::test]
async fn brackets_that_the_parser_would_read_too_often_are_rejected() {
    let nested = |open: &str, depth: usize| format!("{}1{}", open.repeat(depth), ")".repeat(depth));
    for expression in [
        nested("1+(", 40),
        nested("1-2-3-4(", 12),
        nested("2(", 40),
        nested("2^3 (", 30),
        nested("1/(1+", 60),
        nested("2 3^(", 20),
        nested("1-2 pi^(", 20),
        nested("1-1-1-1-1-1-1-1-1-1-(", 8),
        nested("-2(1+2 sqrt(", 10),
        format!("{}!{}", "abs (".repeat(40), ")!".repeat(40)),
        format!("{}!{}", "1/(".repeat(60), ")".repeat(60)),
        format!("{}!{}", "1%(".repeat(60), ")".repeat(60)),
    ] {
        let error = value(&expression).await.unwrap_err();
        assert!(error.contains("nested too deeply"), "{expression}: {error}");
    }

    for (expression, expected) in [
        (nested("1+(", 12), "13"),
        (nested("2*(", 12), "4096"),
        (nested("1+2*(", 10), "2047"),
        (nested("sqrt(", 12), "1"),
        (nested("sqrt(1*", 12), "1"),
        (nested("2(", 6), "64"),
    ] {
        let result = quick_value(&expression).await;
        assert_eq!(result.as_deref(), Ok(expected), "{expression}");
    }
}

#[tokio::test]
async fn long_result_is_cut_in_the_middle() {
    let long = quick_value("10^2500").await.unwrap();
    assert!(long.starts_with("1000") && long.ends_with("000"), "{long}");
    assert!(long.contains("... (501 characters omitted) ..."), "{long}");
}

#[tokio::test]
async fn calculation_error_is_returned_to_the_model() {
    let model = ScriptedModel::new()
        .call("calculate", json!({"expression": "10/0"}))
        .say("That has no value.");
    let agent = agent(model).tool(tools::calculate()).build().unwrap();
    let output = agent.run("What is ten by zero?").await.unwrap();
    let results = results(&output.messages);
    assert_eq!(results[0].content.text(), "Error: division by zero");
    assert!(results[0].is_error);
}
