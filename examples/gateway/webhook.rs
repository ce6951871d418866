//! A channel over HTTP: each request is a message, and its response the reply to that message.
//! Questions and reports, which are no reply, are logged.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentcore::gateway::{InProcessBus, InboundMessage, MessageBus};
use agentcore::serde_json::{self, Value, json};
use agentcore::{Error, ErrorKind, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

const CHANNEL: &str = "webhook";
/// The time in which a request is answered.
const LIMIT: Duration = Duration::from_secs(60);
/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const MAX_HEAD: u64 = 16 * 1024;
const MAX_BODY: u64 = 64 * 1024;

/// The requests that wait, by the ids of the replies to their messages.
#[derive(Default)]
struct OpenRequests {
    senders: Mutex<HashMap<String, oneshot::Sender<String>>>,
    count: AtomicU64,
}

impl OpenRequests {
    /// Returns the id of the next message, and the receiver of the reply to it.
    fn add(&self) -> (String, oneshot::Receiver<String>) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let id = format!("{CHANNEL}-{number}");
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(format!("{id}:reply"), sender);
        (id, receiver)
    }

    fn take(&self, reply_id: &str) -> Option<oneshot::Sender<String>> {
        self.lock().remove(reply_id)
    }

    /// Removes the requests whose clients no longer wait.
    fn remove_ended(&self) {
        self.lock().retain(|_, sender| !sender.is_closed());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<String>>> {
        self.senders.lock().expect("no holder panics")
    }
}

/// Serves requests until the bus is closed.
pub(crate) async fn serve(listener: TcpListener, bus: &InProcessBus) -> Result<()> {
    let open_requests = OpenRequests::default();
    let mut requests = FuturesUnordered::new();
    loop {
        tokio::select! {
            stream = accept(&listener) => requests.push(respond(stream, bus, &open_requests)),
            Some(()) = requests.next() => open_requests.remove_ended(),
            delivery = bus.consume_outbound(CHANNEL) => {
                let Some(delivery) = delivery? else { return Ok(()) };
                let message = &delivery.message;
                match open_requests.take(&message.id) {
                    // A client that has left needs no reply.
                    Some(sender) => drop(sender.send(message.content.to_string())),
                    None => eprintln!("webhook: to chat {}: {}", message.chat_id, message.content),
                }
                delivery.ack().await?;
            }
        }
    }
}

/// Waits for the next connection. Neither a client that left early nor a lack of file descriptors
/// ends the channel.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => eprintln!("webhook: a connection was not accepted: {error}"),
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

/// Answers one request.
async fn respond(mut stream: TcpStream, bus: &InProcessBus, open_requests: &OpenRequests) {
    let reply = timeout(LIMIT, exchange(&mut stream, bus, open_requests)).await;
    let (status, body) = match reply {
        Ok(Ok(text)) => ("200 OK", json!({"reply": text})),
        Ok(Err(error)) => ("400 Bad Request", json!({"error": error.to_string()})),
        Err(_) => (
            "504 Gateway Timeout",
            json!({"error": "there was no reply in time"}),
        ),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    if let Err(error) = stream.write_all(format!("{head}{body}").as_bytes()).await {
        eprintln!("webhook: the response could not be sent: {error}");
    }
}

/// Passes the message of a request on and waits for the reply.
async fn exchange(
    stream: &mut TcpStream,
    bus: &InProcessBus,
    open_requests: &OpenRequests,
) -> Result<String> {
    let body = read_body(stream).await?;
    let message: Value = serde_json::from_slice(&body)?;
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let (chat_id, sender_id) = (text("chat_id"), text("sender_id"));
    if chat_id.is_empty() {
        return Err(invalid("chat_id is missing"));
    }
    let (id, receiver) = open_requests.add();
    let message = InboundMessage::new(CHANNEL, chat_id, sender_id, text("content"));
    bus.publish_inbound(message.with_id(id)).await?;
    let reply = receiver.await;
    reply.map_err(|_| invalid("the message has no reply"))
}

/// Reads the body of a request.
async fn read_body(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut head = BufReader::new(stream.take(MAX_HEAD + MAX_BODY));
    let mut len = 0;
    loop {
        let mut line = String::new();
        if head.read_line(&mut line).await? == 0 {
            return Err(invalid("the request ended within its head"));
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            len = value
                .trim()
                .parse()
                .map_err(|_| invalid("content-length is not a number"))?;
        }
    }
    if len > MAX_BODY {
        return Err(invalid("the body is too long"));
    }
    let mut body = Vec::new();
    head.take(len).read_to_end(&mut body).await?;
    Ok(body)
}

fn invalid(text: &str) -> Error {
    Error::new(ErrorKind::InvalidRequest, text)
}
