//! Helpers without a layer of their own: text, JSON, time, secrets, blocking work.

pub(crate) mod blocking;
pub(crate) mod byte_pool;
mod cancel;
#[cfg(unix)]
pub(crate) mod folder;
#[cfg(feature = "yaml")]
pub(crate) mod front_matter;
#[cfg(all(test, any(feature = "web", feature = "docker", feature = "redis")))]
pub(crate) mod fuzz;
mod guarded;
pub(crate) mod hash;
#[cfg(feature = "http")]
pub(crate) mod http_body;
#[cfg(feature = "http")]
pub(crate) mod http_client;
#[cfg(feature = "http")]
pub(crate) mod http_secrets;
pub(crate) mod ids;
pub(crate) mod json;
pub(crate) mod json_size;
#[cfg(any(feature = "fs", feature = "http"))]
pub(crate) mod large;
pub(crate) mod lenient;
pub(crate) mod links;
#[cfg(feature = "session-log")]
pub(crate) mod new_thread;
mod pace;
pub(crate) mod panic;
pub(crate) mod path;
pub(crate) mod regular_file;
pub(crate) mod secret;
pub(crate) mod sync;
pub mod text;
pub(crate) mod time;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod unique_names;
pub(crate) mod values;
#[cfg(test)]
pub(crate) mod wake_count;
#[cfg(feature = "yaml")]
pub(crate) mod yaml;
#[cfg(feature = "time")]
pub(crate) mod zone;

pub use cancel::Cancellation;
pub(crate) use guarded::Guarded;
pub(crate) use pace::Pace;
pub use secret::Secret;
pub use values::Values;
