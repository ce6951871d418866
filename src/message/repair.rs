//! stub
use super::chain::Messages;
use std::sync::Arc;
/// stub
#[derive(Debug, Clone)]
pub enum Repair {}
/// stub
#[derive(Debug, Clone, Default)]
pub struct Repairs(Vec<Repair>);
impl Repairs {
    /// stub
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
impl std::fmt::Display for Repairs {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
impl Messages {
    /// stub
    pub fn repair(&mut self) -> Repairs {
        self.repair_keeping(&[])
    }
    /// stub
    pub fn repair_keeping(&mut self, _p: &[Arc<str>]) -> Repairs {
        Repairs::default()
    }
}
