//! The tool `calculate`. The crate fend evaluates the expressions.

use std::time::{Duration, Instant};

use fend_core::{Context, Interrupt, evaluate_with_interrupt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::error::BoxError;
use crate::tool::{FuncTool, SideEffect, ToolContext, ToolError};
use crate::util::{Cancellation, text};

use super::compute::on_own_thread;
use super::{formula, fraction};

/// The time limit of a calculation. Fend exceeds it by the time between two checks, and its parser,
/// which is bounded separately, does not check it. A call takes less than a second of CPU time.
const LIMIT: Duration = Duration::from_millis(800);
/// The maximum number of calculations at the same time in the process. Each has a thread.
static CALCULATIONS: Semaphore = Semaphore::const_new(16);
/// The maximum length of an expression, in bytes.
const MAX_EXPRESSION: usize = 1_000;
/// The maximum length of a result, in characters; a longer result is cut in the middle.
const MAX_RESULT: usize = 2_000;
/// The prefix that fend puts before an inexact result.
const APPROXIMATE: &str = "approx. ";

/// Creates the tool `calculate`, which returns the value of an arithmetic `expression` (or `expr`).
///
/// Whole numbers and fractions are exact at any size, so `1000*1000` is `1000000` and not
/// `1e+06`. A value without a finite decimal form is rounded to 15 significant digits. `%` is the
/// remainder of whole numbers that are not negative; angles are in radians.
///
/// An expression may have 1,000 bytes and take 0.8 seconds, and the denominator of a fraction may
/// have 9,864 digits. At most 16 calculations run at the same time in the process; other calls
/// wait. A result of more than 2,000 characters is cut in the middle.
///
/// ```
/// use agentcore::{Tool, ToolContext, tools};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::BoxError> {
/// let calculate = tools::calculate();
/// let args = json!({"expression": "2 + 3 * sqrt(16)"});
/// let output = calculate.execute(ToolContext::detached(), args).await?;
/// assert_eq!(output.content.text(), "14");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn calculate() -> FuncTool {
    let description = format!(
        "Calculates an arithmetic expression, exactly where that is possible. It may have the \
         operators + - * / ^ % (remainder) ! (factorial), brackets, the constants pi, tau and e, \
         and the functions {}. Angles are in radians.",
        formula::FUNCTIONS.join(", ")
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "expression": {"type": "string", "description": "Such as (2 + 3) * sqrt(16) / 7"}
        }
    });

    FuncTool::new("calculate", description, parameters, call)
        .side_effect(SideEffect::None)
        .idempotent()
}

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "expr")]
    expression: String,
}

async fn call(cx: ToolContext, args: Value) -> Result<String, BoxError> {
    let input = Input::deserialize(args)?;
    if input.expression.len() > MAX_EXPRESSION {
        let length = input.expression.len();
        let text = format!("the expression has {length} bytes; the limit is {MAX_EXPRESSION}");
        return Err(ToolError::new(text).into());
    }

    let formula = formula::checked(&input.expression).map_err(ToolError::new)?;
    let cancellation = cx.cancellation().clone();
    let permit = CALCULATIONS.acquire().await?;
    let calculation = on_own_thread(move |_| {
        // The thread outlives a call that is dropped.
        let _permit = permit;
        // The time that the thread takes to start is not that of the calculation.
        let stop = StopConditions {
            deadline: Instant::now() + LIMIT,
            cancellation,
        };
        value(&formula, &stop)
    });
    let value = calculation.await?;
    let make_error = || ToolError::new("the expression could not be calculated");
    let value = value.ok_or_else(make_error)?.map_err(ToolError::new)?;
    let marker = |omitted| format!("... ({omitted} characters omitted) ...");
    let half_len = MAX_RESULT / 2;
    Ok(text::head_tail(&value, half_len, half_len, marker).into_owned())
}

/// The conditions that interrupt a calculation.
struct StopConditions {
    deadline: Instant,
    cancellation: Cancellation,
}

impl Interrupt for StopConditions {
    fn should_interrupt(&self) -> bool {
        self.cancellation.is_cancelled() || Instant::now() >= self.deadline
    }
}

fn value(formula: &str, stop: &StopConditions) -> Result<String, String> {
    fraction::check(formula)?;
    let result_text = evaluate(formula, stop)?;
    if result_text.is_empty() {
        return Err("the expression has no value".to_owned());
    }

    let Some(rounded) = result_text.strip_prefix(APPROXIMATE) else {
        return Ok(result_text);
    };

    // Fend rounds to ten decimals, which removes all digits of a small number.
    let digits = evaluate(&format!("({formula}) to 15 sf"), stop)?;
    let digits = digits.strip_prefix(APPROXIMATE).unwrap_or(&digits);
    let is_decimal = digits
        .bytes()
        .all(|b| b.is_ascii_digit() || b"-.".contains(&b));
    if !is_decimal {
        return Ok(rounded.to_owned());
    }

    Ok(if digits.contains('.') {
        digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        digits.to_owned()
    })
}

fn evaluate(formula: &str, stop: &StopConditions) -> Result<String, String> {
    let mut context = Context::new();
    match evaluate_with_interrupt(formula, &mut context, stop) {
        Ok(result) => Ok(result.get_main_result().trim().to_owned()),
        Err(_) if stop.should_interrupt() => Err(format!(
            "the calculation takes longer than {LIMIT:?}; calculate with smaller numbers"
        )),
        Err(error) => Err(error),
    }
}
