//! Bounding the work of fend's parser before it begins.
//!
//! The parser checks no interrupt, and reads parts of an expression repeatedly. It reads the n-th
//! term of a sum n times, because it first tries each term as an addition without a sign. It reads
//! a factor again if the text behind it is not what it expects. Brackets multiply this: nested ones
//! take time exponential in their depth.

/// The maximum number of values and brackets, each counted as often as the parser reads it.
const MAX_STEPS: u64 = 500_000;

/// The maximum number of times that a factor is read if it follows `%`, or another factor without
/// an operator.
const ADJACENT: u64 = 4;

/// The maximum number of times that the argument of a function, or a divisor, is read.
const RETRIED: u64 = 2;

/// The token before.
#[derive(Clone, Copy, PartialEq)]
enum LastToken {
    Operator,
    Value,
    Function,
}

/// The expression, or a bracket in it.
#[derive(Clone, Copy)]
struct Bracket {
    /// The number of times that all of it is read.
    bracket_reads: u64,
    /// The number of terms so far.
    terms: u64,
    /// The number of times that one reading of the current term reads its current factor.
    factor_reads: u64,
    last: LastToken,
}

/// Counts the work, token by token.
pub(super) struct ParserWork {
    level: Bracket,
    outer: Vec<Bracket>,
    steps: u64,
}

impl ParserWork {
    pub(super) fn new() -> Self {
        Self {
            level: Bracket::of(1),
            outer: Vec::new(),
            steps: 0,
        }
    }

    /// Counts a number or a constant.
    pub(super) fn value(&mut self) {
        self.begin_value();
        self.level.last = LastToken::Value;
        self.step();
    }

    pub(super) fn function(&mut self) {
        self.value();
        self.level.last = LastToken::Function;
    }

    /// Counts `+` or `-`. After another operator, it is the sign of a value.
    pub(super) fn sum(&mut self) {
        self.level.terms += u64::from(self.level.last != LastToken::Operator);
        self.product(1);
    }

    pub(super) fn multiplication(&mut self) {
        self.product(1);
    }

    pub(super) fn division(&mut self) {
        self.product(RETRIED);
    }

    pub(super) fn remainder(&mut self) {
        self.product(ADJACENT);
    }

    /// Counts an operator before a factor that is read so many times.
    fn product(&mut self, factor_reads: u64) {
        self.level.factor_reads = factor_reads;
        self.level.last = LastToken::Operator;
    }

    pub(super) fn power(&mut self) {
        self.level.last = LastToken::Operator;
    }

    pub(super) fn open(&mut self) {
        self.begin_value();
        self.step();
        let inner = Bracket::of(self.level.total_reads());
        self.outer.push(std::mem::replace(&mut self.level, inner));
    }

    /// Counts a `)`; returns `false` if there is no bracket to close.
    pub(super) fn close(&mut self) -> bool {
        let Some(outer) = self.outer.pop() else {
            return false;
        };
        self.level = outer;
        self.level.last = LastToken::Value;
        true
    }

    /// Returns the number of open brackets.
    pub(super) fn depth(&self) -> usize {
        self.outer.len()
    }

    /// Returns `true` if the parser would take too long.
    pub(super) fn is_too_much(&self) -> bool {
        self.steps > MAX_STEPS
    }

    /// Begins a value or a bracket. Without an operator before it, it is a further factor, or the
    /// argument of a function.
    fn begin_value(&mut self) {
        self.level.factor_reads = match self.level.last {
            LastToken::Operator => self.level.factor_reads,
            LastToken::Value => ADJACENT,
            LastToken::Function => RETRIED,
        };
    }

    fn step(&mut self) {
        self.steps = self.steps.saturating_add(self.level.total_reads());
    }
}

impl Bracket {
    fn of(bracket_reads: u64) -> Self {
        Self {
            bracket_reads,
            terms: 1,
            factor_reads: 1,
            last: LastToken::Operator,
        }
    }

    /// Returns the number of times that the current factor is read in all.
    fn total_reads(&self) -> u64 {
        let term_reads = self.bracket_reads.saturating_mul(self.terms);
        term_reads.saturating_mul(self.factor_reads)
    }
}
