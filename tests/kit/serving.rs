//! Servers with scripted answers, and short accessors for their requests.

use agentcore::model::{ModelEvent, ModelResponse, ResponseFold};
use agentcore::testing::fault_server::{Framing, Received};
use agentcore::testing::{FaultServer, Reply};

/// Starts a server that sends these replies in order, and repeats the last one.
pub async fn serve(replies: impl IntoIterator<Item = Reply>) -> FaultServer {
    let server = FaultServer::start().await.unwrap();
    for reply in replies {
        server.fallback(reply.clone());
        server.reply(reply);
    }
    server
}

/// Returns the last request.
pub fn last(server: &FaultServer) -> Received {
    server.requests().pop().unwrap()
}

/// Returns the body of a request.
pub fn text(request: &Received) -> &str {
    std::str::from_utf8(&request.body).unwrap()
}

/// A successful event stream in one piece.
pub fn events(body: &str) -> Reply {
    Reply::sse([body]).header("request-id", "req_1")
}

/// A response with this status, these header lines and this body.
pub fn status(status: u16, headers: &str, body: &str) -> Reply {
    let headers = headers.lines().filter_map(|line| line.split_once(": "));
    headers
        .fold(Reply::new(status), |reply, (name, value)| {
            reply.header(name, value)
        })
        .framing(Framing::ContentLength)
        .send(body.to_owned())
}

/// Returns the response of these events, or their first error.
pub fn fold(events: Vec<agentcore::Result<ModelEvent>>) -> agentcore::Result<ModelResponse> {
    let mut fold = ResponseFold::new();
    for event in events {
        fold.push(event?);
    }
    fold.finish()
}
