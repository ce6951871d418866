//! The search for skills.

mod catalog;
mod find;
mod front_matter;
mod skills_hook;

pub use skills_hook::SkillsHook;
