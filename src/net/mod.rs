//! The addresses that requests may reach.
//!
//! [`AddressPolicy`] keeps requests to URLs that others name out of private networks. The tools
//! [`HttpTool`](crate::HttpTool) and `web_fetch` take one, and a [`Resolver`] where names are not
//! to be resolved by the system.

mod address;
mod lookup;
mod policy;
mod resolver;

pub(crate) use lookup::Checked;
#[cfg(feature = "web")]
pub(crate) use lookup::addresses;
pub use policy::{AddressPolicy, AddressRefused};
pub use resolver::{Resolver, SystemResolver};
