//! The script of a double: its answers, and the requests that it refused.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use serde_json::Value;

/// A check of the address, the key and the like of a request.
pub type Gate = fn(&Received) -> Result<(), (u16, Value)>;

/// The script, and the gate that checks requests before it.
pub struct Script {
    gate: Gate,
    answers: Mutex<VecDeque<Vec<Value>>>,
    refusals: Mutex<Vec<String>>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            gate: |_| Ok(()),
            answers: Mutex::default(),
            refusals: Mutex::default(),
        }
    }
}

impl Script {
    pub fn new(answers: impl IntoIterator<Item = Vec<Value>>) -> Self {
        Self {
            answers: Mutex::new(answers.into_iter().collect()),
            ..Self::default()
        }
    }

    /// Adds a gate to the script.
    pub fn behind(self, gate: Gate) -> Self {
        Self { gate, ..self }
    }

    /// Returns the reply to a request that the gate refuses.
    pub fn turned_away(&self, request: &Received) -> Option<Reply> {
        let (status, body) = (self.gate)(request).err()?;
        self.refuse(&body.to_string());
        Some(Reply::json(status, body.to_string()))
    }

    /// Adds an answer after the others.
    pub fn push(&self, answer: Vec<Value>) {
        self.answers.lock().unwrap().push_back(answer);
    }

    /// Returns the next answer; `None` after the last one.
    pub fn next(&self) -> Option<Vec<Value>> {
        self.answers.lock().unwrap().pop_front()
    }

    /// Records a refusal.
    pub fn refuse(&self, text: &str) {
        self.refusals.lock().unwrap().push(text.to_owned());
    }

    /// The texts of the refusals.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.lock().unwrap().clone()
    }
}

/// Starts a server that answers with the replies of `double`.
pub async fn serve<D: Send + Sync + 'static>(
    double: D,
    reply: fn(&D, &Received) -> Reply,
) -> (Arc<D>, FaultServer) {
    let double = Arc::new(double);
    let server = FaultServer::start().await.unwrap();
    let responder = double.clone();
    server.respond(move |request| reply(&responder, request));
    (double, server)
}
