//! The search for skills.

mod catalog;
mod find;
mod skills_hook;

pub use skills_hook::SkillsHook;
