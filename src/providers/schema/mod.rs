//! Schemas in the forms that the APIs take.

pub(in crate::providers) mod claude;
pub(in crate::providers) mod gemini;
mod instruction;
pub(in crate::providers) mod openai;
mod walk;

pub(in crate::providers) use instruction::{any_object, instruction};
