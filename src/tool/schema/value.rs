//! JSON values as JSON Schema sees them: `1` and `1.0` are the same number.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use serde_json::{Number, Value};

/// The bytes of text that are as much effort to compare as one value.
const TEXT_UNIT: usize = 64;

/// Returns the JSON Schema name of a value's type.
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

/// Returns `true` if `value` is of the type `name`, or no type has this name.
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

/// Returns `true` if `number` is a multiple of `step`, or `step` is not positive.
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

/// Returns `true` if two values are the same.
fn same(a: &Value, b: &Value) -> bool {
    let mut effort = usize::MAX;
    same_within(a, b, &mut effort) == Some(true)
}

/// Compares two values. Subtracts 1 from `effort` for each value that is compared and for each
/// [`TEXT_UNIT`] bytes of text. Returns `None` if `effort` is used up first.
pub(super) fn same_within(a: &Value, b: &Value, effort: &mut usize) -> Option<bool> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            spend(effort, 0)?;
            Some(compare(a, b) == Some(Ordering::Equal))
        }
        (Value::String(a), Value::String(b)) if a.len() == b.len() => {
            spend(effort, a.len())?;
            Some(a == b)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            spend(effort, 0)?;
            for (a, b) in a.iter().zip(b) {
                if !same_within(a, b, effort)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            spend(effort, 0)?;
            for (key, a) in a {
                spend(effort, key.len())?;
                let Some(b) = b.get(key) else {
                    return Some(false);
                };
                if !same_within(a, b, effort)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (Value::Null, Value::Null) | (Value::Bool(_), Value::Bool(_)) => {
            spend(effort, 0)?;
            Some(a == b)
        }
        _ => {
            spend(effort, 0)?;
            Some(false)
        }
    }
}

/// Takes the effort of one value with a text of `text_len` bytes.
fn spend(effort: &mut usize, text_len: usize) -> Option<()> {
    *effort = effort.checked_sub(1 + text_len / TEXT_UNIT)?;
    Some(())
}

/// Returns the number of values in a value, including itself.
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

/// Returns the indices of the first two items that are the same.
pub(super) fn first_repeat(items: &[Value]) -> Option<(usize, usize)> {
    // The key is random, so that nobody can prepare items that differ and have the same digest.
    let keys = RandomState::new();
    let mut indices: HashMap<u64, Vec<usize>> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let alike = indices.entry(digest(item, &keys)).or_default();
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

/// Returns a hash that agrees with [`same`].
fn digest(value: &Value, keys: &RandomState) -> u64 {
    let mut hasher = keys.build_hasher();
    type_name(value).hash(&mut hasher);
    match value {
        Value::Null => {}
        Value::Bool(flag) => flag.hash(&mut hasher),
        Value::Number(number) => match integer(number) {
            Some(integer) => integer.hash(&mut hasher),
            None => digest_float(number.as_f64().unwrap_or_default(), &mut hasher),
        },
        Value::String(text) => text.hash(&mut hasher),
        Value::Array(items) => items
            .iter()
            .for_each(|item| digest(item, keys).hash(&mut hasher)),
        // A sum, because the order of the members does not count.
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| keys.hash_one((key, digest(value, keys))))
            .fold(0_u64, u64::wrapping_add)
            .hash(&mut hasher),
    }

    hasher.finish()
}

/// Hashes a float. A float that is an integer has the hash of that integer.
fn digest_float(float: f64, hasher: &mut impl Hasher) {
    let integer = float as i128;
    if integer as f64 == float && float.abs() < i128::MAX as f64 {
        integer.hash(hasher);
    } else {
        float.to_bits().hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_of_equal_values_agree_under_one_key_only() {
        let [a, b] = [r#"{"a": 1, "b": [2]}"#, r#"{"b": [2.0], "a": 1.0}"#]
            .map(|text| serde_json::from_str::<Value>(text).unwrap());
        let (keys, others) = (RandomState::new(), RandomState::new());
        assert_eq!(digest(&a, &keys), digest(&b, &keys));
        assert_ne!(digest(&a, &keys), digest(&a, &others));
        assert_eq!(first_repeat(&[json!(1), a, b]), Some((1, 2)));
    }
}
