//! Small things every layer needs.

mod cancel;
mod guarded;
#[cfg(feature = "http")]
pub(crate) mod http_client;
pub(crate) mod panic;
mod secret;
pub(crate) mod sync;
pub mod text;
pub(crate) mod values;

pub use cancel::Cancellation;
pub(crate) use guarded::Guarded;
pub use secret::Secret;
pub use values::Values;
