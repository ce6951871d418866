//! The hooks that ship.
//!
//! | hook | what it does |
//! |---|---|
//! | [`PermissionHook`] | holds a run to permission rules |

mod permission;

pub use permission::PermissionHook;
