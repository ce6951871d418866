//! The size of a glob pattern, checked before a library parses it.
//!
//! The library parses without recursion, but it compiles, clones and drops nested alternatives
//! recursively, and panics when the regular expression it makes of a pattern is too large. No
//! pattern within these limits reaches either.

use std::fmt;

/// The maximum length of a pattern, in bytes.
const MAX_BYTES: usize = 1024;
/// The maximum number of opening braces. All of them count, nested or not, escaped or in a class:
/// this bounds the depth without parsing the pattern.
const MAX_BRACES: usize = 32;
/// The maximum number of stars.
const MAX_STARS: usize = 128;
/// The maximum number of commas, which separate alternatives.
const MAX_COMMAS: usize = 256;

/// A pattern over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge {
    count: usize,
    unit: &'static str,
    limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, unit, limit } = self;
        write!(
            f,
            "the pattern has {count} {unit}; at most {limit} {unit} are allowed"
        )
    }
}

/// Checks the size of a pattern.
pub(super) fn check(pattern: &str) -> Result<(), TooLarge> {
    at_most(pattern.len(), "bytes", MAX_BYTES)?;
    let mut braces = 0;
    let mut stars = 0;
    let mut commas = 0;
    for byte in pattern.bytes() {
        match byte {
            b'{' => braces += 1,
            b'*' => stars += 1,
            b',' => commas += 1,
            _ => {}
        }
    }

    at_most(braces, "`{`", MAX_BRACES)?;
    at_most(stars, "`*`", MAX_STARS)?;
    at_most(commas, "`,`", MAX_COMMAS)
}

fn at_most(count: usize, unit: &'static str, limit: usize) -> Result<(), TooLarge> {
    if count <= limit {
        return Ok(());
    }
    Err(TooLarge { count, unit, limit })
}
