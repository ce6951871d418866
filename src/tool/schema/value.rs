//! JSON values as JSON Schema sees them: `1` and `1.0` are the same number.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Number, Value};

/// The JSON Schema name of a value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns `true` if `value` is of the type `name`; any value is of an unknown type.
pub(super) fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_number().is_some_and(is_integer),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

fn is_integer(number: &Number) -> bool {
    integer(number).is_some() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

fn integer(number: &Number) -> Option<i128> {
    let signed_value = number.as_i64().map(i128::from);
    signed_value.or_else(|| number.as_u64().map(i128::from))
}

/// Compares by value: a float near a large integer is not that integer.
pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => compare_to_float(a, b.as_f64()?),
        (None, Some(b)) => compare_to_float(b, a.as_f64()?).map(Ordering::reverse),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn compare_to_float(integer: i128, float: f64) -> Option<Ordering> {
    // The conversion saturates, outside the range of all integers.
    match integer.cmp(&(float.trunc() as i128)) {
        Ordering::Equal => 0.0.partial_cmp(&float.fract()),
        order => Some(order),
    }
}

/// Returns `true` if `number` is a multiple of `step`. Any number is one of a step that is not
/// positive.
pub(super) fn is_multiple(number: &Number, step: &Number) -> bool {
    if let (Some(number), Some(step)) = (integer(number), integer(step)) {
        return step <= 0 || number % step == 0;
    }
    let (Some(number), Some(step)) = (number.as_f64(), step.as_f64()) else {
        return true;
    };
    let quotient = number / step;
    // A tolerance: 0.3 is not an exact multiple of 0.1 in binary.
    step <= 0.0 || (quotient - quotient.round()).abs() <= 1e-9 * quotient.abs().max(1.0)
}

pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The number of values in a value, including itself.
pub(super) fn size(value: &Value) -> usize {
    let mut count = 0;
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        count += 1;
        match value {
            Value::Array(items) => stack.extend(items),
            Value::Object(members) => stack.extend(members.values()),
            _ => {}
        }
    }
    count
}

/// The indices of the first two items that are the same.
pub(super) fn first_repeat(items: &[Value]) -> Option<(usize, usize)> {
    let mut indices: HashMap<u64, Vec<usize>> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let alike = indices.entry(digest(item)).or_default();
        if let Some(earlier_index) = alike
            .iter()
            .find(|earlier_index| same(&items[**earlier_index], item))
        {
            return Some((*earlier_index, index));
        }

        alike.push(index);
    }

    None
}

/// A hash that agrees with [`same`].
fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    type_name(value).hash(&mut hasher);
    match value {
        Value::Null => {}
        Value::Bool(flag) => flag.hash(&mut hasher),
        Value::Number(number) => match integer(number) {
            Some(integer) => integer.hash(&mut hasher),
            None => digest_float(number.as_f64().unwrap_or_default(), &mut hasher),
        },
        Value::String(text) => text.hash(&mut hasher),
        Value::Array(items) => items.iter().for_each(|item| digest(item).hash(&mut hasher)),
        // A sum, because the order of the members does not count.
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                let mut member = DefaultHasher::new();
                (key, digest(value)).hash(&mut member);
                member.finish()
            })
            .fold(0_u64, u64::wrapping_add)
            .hash(&mut hasher),
    }

    hasher.finish()
}

/// A float that is an integer hashes as that integer.
fn digest_float(float: f64, hasher: &mut DefaultHasher) {
    let integer = float as i128;
    if integer as f64 == float && float.abs() < i128::MAX as f64 {
        integer.hash(hasher);
    } else {
        float.to_bits().hash(hasher);
    }
}
