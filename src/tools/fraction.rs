//! Bounding the size of the fractions in an expression before it is calculated.
//!
//! Fend checks its interrupt while it computes with whole numbers, but not while it compares two
//! fractions: it converts them to one denominator, in time quadratic in their size. The maximum
//! size of each value is therefore computed here from the expression alone, as fend parses it, and
//! an expression whose fractions could grow too large is refused.
//!
//! Roots, logarithms and the like return a whole number, or a fraction with a denominator of 2^50
//! and more. With the latter as an exponent, a calculation does not end, but can be interrupted. An
//! exponent is therefore bounded by its value and by the denominators that are written in the
//! expression itself.
//!
//! The bounds of a value are floating-point numbers. A lower bound is never infinite and an upper
//! one is zero only for zero, so that a value too large or too small for them stays between both.

use super::formula::FUNCTIONS;

/// The maximum number of bits of a denominator.
const MAX_DENOMINATOR: f64 = 32_768.0;
/// The maximum number of bits of a numerator that has a denominator.
const MAX_NUMERATOR: f64 = 1_048_576.0;
/// The number of bits of the numerator and the denominator of a floating-point number, a constant
/// or a root.
const INEXACT: f64 = 128.0;
/// The part of a lower bound that is certain: an expression has too few operations for their
/// rounding to exceed the rest.
const CERTAIN: f64 = 1.0 - f64::EPSILON * 1_048_576.0;
/// The least whole number to which a greater one may be rounded.
const INEXACT_WHOLE: f64 = 9_007_199_254_740_992.0;
/// The number of bits of a decimal digit.
const DIGIT: f64 = std::f64::consts::LOG2_10;

/// Checks an expression that [`checked`](super::formula::checked) accepts.
///
/// # Errors
///
/// Returns an error if a fraction in it could be over a limit, or a function has no argument.
pub(super) fn check(formula: &str) -> Result<(), String> {
    let mut reader = Reader { rest: formula };
    loop {
        reader.sum()?;
        // Fend rejects an unreadable remainder as well.
        let mut chars = reader.rest().chars();
        if chars.next().is_none() {
            return Ok(());
        }
        reader.rest = chars.as_str();
    }
}

/// The bounds of a value.
#[derive(Clone, Copy, Default)]
struct FractionSize {
    /// The bits of the numerator, before reduction.
    numerator: f64,
    /// The bits of the denominator, before reduction; 0 for a whole number.
    denominator: f64,
    /// The bits of the denominator that is written in the expression itself.
    written: f64,
    /// The least absolute value.
    least: f64,
    /// The greatest absolute value.
    most: f64,
    /// True if the value may be negative.
    is_signed: bool,
}

impl FractionSize {
    fn of_number(text: &str) -> Self {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse().unwrap_or(0.0)),
            None => (text, 0.0_f64),
        };

        let decimals = match mantissa.find('.') {
            Some(at) => (mantissa.len() - at - 1) as f64,
            None => 0.0,
        };

        let digits = mantissa.replace('.', "");
        let max_bits = digits.len() as f64 * DIGIT;
        let value: f64 = text.parse().unwrap_or(f64::INFINITY);
        let is_zero = digits.bytes().all(|digit| digit == b'0');
        let most = if is_zero {
            0.0
        } else {
            value.max(f64::MIN_POSITIVE)
        };

        Self {
            numerator: bits(digits.parse().unwrap_or(f64::INFINITY)).min(max_bits)
                + exponent.max(0.0) * DIGIT,
            denominator: (decimals + (-exponent).max(0.0)) * DIGIT,
            written: (decimals - exponent).max(0.0) * DIGIT,
            least: value.min(f64::MAX),
            most,
            is_signed: false,
        }
    }

    /// Creates the bounds of a value that was a floating-point number of at most `most`.
    fn inexact(most: f64) -> Self {
        Self {
            numerator: INEXACT,
            denominator: INEXACT,
            written: 0.0,
            least: 0.0,
            most,
            is_signed: true,
        }
    }

    fn of_call(function: &str, argument: Self) -> Self {
        match function {
            "abs" => argument,
            "floor" | "ceil" | "round" => Self::inexact(argument.most + 1.0),
            "sqrt" | "cbrt" => Self {
                numerator: argument.numerator / 2.0 + INEXACT,
                denominator: argument.denominator / 2.0 + INEXACT,
                least: 0.0,
                most: argument.most.max(1.0),
                ..argument
            },
            "ln" | "log" | "log2" | "log10" => {
                Self::inexact(argument.numerator.max(argument.denominator) + 1.0)
            }
            "sin" | "cos" | "asin" | "acos" | "atan" | "tanh" => Self::inexact(4.0),
            // Fend keeps 64 bits before the point of a floating-point number.
            _ => Self::inexact(64_f64.exp2()),
        }
    }

    /// Returns `true` for a whole number that both bounds are equal to.
    fn is_exact(self) -> bool {
        self.denominator == 0.0 && self.least == self.most && self.most < INEXACT_WHOLE
    }

    /// Returns the least absolute value except zero.
    fn smallest(self) -> f64 {
        self.least.max((-self.denominator).exp2())
    }

    fn plus(self, other: Self) -> Self {
        let left_bits = self.numerator + other.denominator;
        let right_bits = other.numerator + self.denominator;
        // With different signs, the absolute values are subtracted from each other.
        let difference = (self.least * CERTAIN - other.most).max(other.least * CERTAIN - self.most);
        Self {
            numerator: left_bits.max(right_bits) + 1.0,
            denominator: self.denominator + other.denominator,
            written: self.written + other.written,
            least: difference.max(0.0),
            most: self.most + other.most,
            is_signed: self.is_signed || other.is_signed,
        }
    }

    fn minus(self, other: Self) -> Self {
        let least = if self.is_exact() && other.is_exact() {
            self.least
        } else {
            self.least * CERTAIN
        };
        let is_greater = least >= other.most && !self.is_signed;
        Self {
            is_signed: !is_greater || other.is_signed,
            ..self.plus(other)
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            numerator: self.numerator + other.numerator,
            denominator: self.denominator + other.denominator,
            written: self.written + other.written,
            least: (self.least * other.least).min(f64::MAX),
            most: product(self.most, other.most),
            is_signed: self.is_signed || other.is_signed,
        }
    }

    fn inverse(self) -> Self {
        Self {
            numerator: self.denominator,
            denominator: self.numerator,
            written: self.numerator,
            least: self.most.recip().min(f64::MAX),
            most: self.smallest().recip(),
            is_signed: self.is_signed,
        }
    }

    fn modulo(self, other: Self) -> Self {
        Self {
            numerator: self.numerator.min(other.numerator),
            most: self.most.min(other.most),
            ..Self::default()
        }
    }

    fn power(self, exponent: Self) -> Self {
        // Fend raises to the exponent's numerator and takes the root of its denominator.
        let times = product(exponent.most, exponent.written.exp2());
        let root = if exponent.denominator > 0.0 {
            INEXACT
        } else {
            0.0
        };

        let mut numerator = product(self.numerator, times) + root;
        let mut denominator = product(self.denominator, times) + root;
        let mut base = self.most.max(1.0);
        if exponent.is_signed {
            numerator = numerator.max(denominator);
            denominator = numerator;
            base = base.max(self.smallest().recip());
        }

        Self {
            numerator,
            denominator,
            written: denominator,
            least: 0.0,
            most: base.powf(exponent.most),
            is_signed: self.is_signed,
        }
    }

    fn factorial(self) -> Self {
        Self {
            numerator: product(self.most, bits(self.most)),
            least: 1.0,
            most: self.most.max(1.0).powf(self.most),
            ..Self::default()
        }
    }

    fn checked(self) -> Result<Self, String> {
        let is_small = self.denominator <= MAX_DENOMINATOR && self.numerator <= MAX_NUMERATOR;
        if self.denominator == 0.0 || is_small {
            return Ok(self);
        }
        let digits = |bits: f64| (bits / DIGIT) as u64;
        Err(format!(
            "a fraction in the expression may need a denominator of more than {} digits, or a \
             numerator of more than {}; use smaller numbers or exponents, or whole numbers",
            digits(MAX_DENOMINATOR),
            digits(MAX_NUMERATOR)
        ))
    }
}

/// Returns the number of bits of a number.
fn bits(value: f64) -> f64 {
    value.log2().max(0.0)
}

/// Returns the product of two upper bounds, which is zero only if one of them is.
fn product(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 {
        0.0
    } else {
        (a * b).max(f64::MIN_POSITIVE)
    }
}

/// Reads an expression with the precedences of fend.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn rest(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let suffix = self.rest().strip_prefix(symbol);
        self.rest = suffix.unwrap_or(self.rest);
        suffix.is_some()
    }

    /// Returns `true` if a value begins here, not an operator.
    fn is_at_value(&mut self) -> bool {
        let remaining = self.rest();
        let is_value = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '(';
        remaining.starts_with(is_value) && !remaining.starts_with("mod")
    }

    fn sum(&mut self) -> Result<FractionSize, String> {
        let mut size = self.term()?;
        loop {
            size = if self.takes("+") {
                size.plus(self.term()?)
            } else if self.takes("-") {
                size.minus(self.term()?)
            } else {
                return Ok(size);
            }
            .checked()?;
        }
    }

    fn term(&mut self) -> Result<FractionSize, String> {
        let mut size = self.signed()?;
        loop {
            size = if self.takes("*") {
                size.times(self.signed()?)
            } else if self.takes("/") {
                size.times(self.signed()?.inverse())
            } else if self.takes("%") || self.takes("mod") {
                size.modulo(self.signed()?)
            } else if self
                .rest()
                .starts_with(|c: char| c.is_ascii_digit() || c == '.')
            {
                // A mixed fraction such as 1 2/3, whose value depends on what follows.
                let factor = self.power()?;
                FractionSize {
                    least: 0.0,
                    most: f64::INFINITY,
                    is_signed: true,
                    ..size.plus(factor).times(size.times(factor))
                }
            } else if self.is_at_value() {
                size.times(self.power()?)
            } else {
                return Ok(size);
            }
            .checked()?;
        }
    }

    /// Returns a power, with signs before it.
    fn signed(&mut self) -> Result<FractionSize, String> {
        let mut is_negative = false;
        let mut is_inverse = false;
        loop {
            if self.takes("-") {
                is_negative = true;
            } else if self.takes("/") {
                is_inverse = true;
            } else if !self.takes("+") {
                break;
            }
        }

        let mut size = self.power()?;
        size.is_signed |= is_negative;
        if is_inverse {
            // Two inversions cancel out; the bound of both is valid for either.
            let inverse = size.inverse();
            size = FractionSize {
                numerator: size.numerator.max(inverse.numerator),
                denominator: size.denominator.max(inverse.denominator),
                written: size.written.max(inverse.written),
                least: size.least.min(inverse.least),
                most: size.most.max(inverse.most),
                is_signed: size.is_signed,
            };
        }

        size.checked()
    }

    fn power(&mut self) -> Result<FractionSize, String> {
        let mut size = self.value()?;
        while self.takes("!") {
            size = size.factorial();
        }
        if self.takes("^") {
            size = size.power(self.signed()?);
        }
        size.checked()
    }

    fn value(&mut self) -> Result<FractionSize, String> {
        if self.takes("(") {
            let size = self.sum()?;
            self.takes(")");
            return Ok(size);
        }

        let remaining = self.rest();
        if remaining.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let name = self.take(word_length(remaining));
            if !FUNCTIONS.contains(&name) {
                return Ok(FractionSize::inexact(8.0));
            }

            if !self.is_at_value() {
                return Err(format!("{name} needs its argument right behind it"));
            }

            let size = FractionSize::of_call(name, self.power()?);
            return size.checked();
        }

        match number_length(remaining) {
            0 => Ok(FractionSize::default()),
            length => FractionSize::of_number(self.take(length)).checked(),
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (prefix, suffix) = self.rest.split_at(length);
        self.rest = suffix;
        prefix
    }
}

fn word_length(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    end.unwrap_or(text.len())
}

fn number_length(text: &str) -> usize {
    let is_digit = |c: char| c.is_ascii_digit();
    let mantissa = text.trim_start_matches(|c: char| is_digit(c) || c == '.');
    let end = text.len() - mantissa.len();
    let exponent = mantissa.strip_prefix(['e', 'E']).unwrap_or(mantissa);
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let suffix = digits.trim_start_matches(is_digit);
    if end == 0 || exponent.len() == mantissa.len() || suffix.len() == digits.len() {
        return end;
    }
    text.len() - suffix.len()
}
