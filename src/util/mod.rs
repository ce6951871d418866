//! Small things every layer needs.

pub(crate) mod panic;
pub(crate) mod secret;
pub(crate) mod sync;
pub mod text;
pub(crate) mod values;

pub use secret::Secret;
pub use values::Values;
