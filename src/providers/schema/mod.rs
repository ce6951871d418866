//! Schemas in the forms that the APIs take.

pub(in crate::providers) mod claude;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "Gemini's models are not here yet")
)]
pub(in crate::providers) mod gemini;
mod instruction;
pub(in crate::providers) mod openai;
mod walk;

pub(in crate::providers) use instruction::instruction;
