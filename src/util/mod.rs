//! Small things every layer needs.

mod cancel;
#[cfg(feature = "http")]
pub(crate) mod http_client;
pub(crate) mod panic;
pub(crate) mod secret;
pub(crate) mod sync;
pub mod text;
pub(crate) mod values;

pub use cancel::Cancellation;
pub use secret::Secret;
pub use values::Values;
