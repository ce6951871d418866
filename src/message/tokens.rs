//! stub
use super::chain::Messages;
use super::message::Message;
/// stub
pub trait TokenCounter: Send + Sync {
    /// s
    fn count_message(&self, m: &Message) -> u64;
    /// s
    fn count_text(&self, t: &str) -> u64;
}
/// stub
#[derive(Debug, Clone, Copy, Default)]
pub struct EstimateCounter;
impl TokenCounter for EstimateCounter {
    fn count_message(&self, m: &Message) -> u64 {
        m.text().len() as u64 / 4
    }
    fn count_text(&self, t: &str) -> u64 {
        t.len() as u64 / 4
    }
}
impl Messages {
    /// s
    pub fn estimate_tokens(&self) -> u64 {
        0
    }
}
