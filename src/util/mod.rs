//! Small things every layer needs.

mod cancel;
pub(crate) mod panic;
mod secret;
pub(crate) mod sync;
pub mod text;
pub(crate) mod values;

pub use cancel::Cancellation;
pub use secret::Secret;
pub use values::Values;
