//! A server on a port of its own, and a client that sends exactly the bytes of a test.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use agentcore::server::{Server, ServerHandle};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const TOKEN: &str = "a-token-of-these-tests";

/// The time limit of a step, which only a step that would wait for ever reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that serves until it is stopped or dropped.
pub struct TestServer {
    pub address: SocketAddr,
    pub handle: ServerHandle,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<agentcore::Result<()>>,
}

impl TestServer {
    /// Starts a server with the token of the tests.
    pub async fn start(server: Server) -> Self {
        Self::start_with_own_login(server.token(TOKEN)).await
    }

    /// Starts a server with its own login.
    pub async fn start_with_own_login(server: Server) -> Self {
        let listening = server.port(0).listen().await.unwrap();
        let (address, handle) = (listening.address(), listening.handle());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(listening.serve(async move {
            // A test that ends drops the sender.
            let _ = stopped.await;
        }));
        Self {
            address,
            handle,
            stop: Some(stop),
            task,
        }
    }

    pub fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    pub fn post(&self, path: &str, body: Value) -> Request {
        self.request("POST", path).json(body)
    }

    pub fn request(&self, method: &str, path: &str) -> Request {
        Request::to(self.address, method, path)
    }

    /// Stops the server, and waits for its end.
    pub async fn stop(mut self) {
        self.stop.take();
        patiently(&mut self.task).await.unwrap().unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Awaits a step with a time limit.
pub async fn patiently<F: Future>(step: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, step).await {
        Ok(output) => output,
        Err(_) => panic!("a step of the test did not end"),
    }
}

#[must_use]
pub struct Request {
    address: SocketAddr,
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Creates a request with the token.
    pub fn to(address: SocketAddr, method: &str, path: &str) -> Self {
        Self {
            address,
            line: format!("{method} {path} HTTP/1.1"),
            headers: vec![
                ("host".to_owned(), address.to_string()),
                ("authorization".to_owned(), format!("Bearer {TOKEN}")),
            ],
            body: Vec::new(),
        }
    }

    pub fn json(mut self, body: impl Into<Value>) -> Self {
        self.body = body.into().to_string().into_bytes();
        self.header("content-type", "application/json")
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a header, and removes its former value.
    pub fn header(self, name: &str, value: impl Into<String>) -> Self {
        let mut request = self.without(name);
        request.headers.push((name.to_owned(), value.into()));
        request
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    pub fn of_user(self, user: &str) -> Self {
        self.without("authorization").header("x-user", user)
    }

    /// Sends the request and reads the head of the response.
    pub async fn open(self) -> Response {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.open_on(stream).await
    }

    /// Sends the request on an open connection, and reads the head of the response.
    pub async fn open_on(self, mut stream: TcpStream) -> Response {
        let mut head = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may refuse the body by its head and close the connection.
        let _ = stream.write_all(&self.body).await;
        Response::read(stream).await
    }

    /// Sends the request and reads the complete response.
    pub async fn send(self) -> Reply {
        self.open().await.whole().await
    }
}

/// A response whose head was read.
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    pending: Vec<u8>,
    is_over: bool,
}

/// A complete response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An event of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub id: String,
    pub event: String,
    pub data: String,
}

impl Response {
    pub async fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = patiently(reader.read_line(&mut line)).await.unwrap();
            assert!(
                count > 0,
                "the connection was closed before a response: {lines:?}"
            );
            if line == "\r\n" {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Self {
            status,
            headers: headers.collect(),
            reader,
            pending: Vec::new(),
            is_over: false,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the next piece of the body; `None` at its end.
    pub async fn piece(&mut self) -> Option<Vec<u8>> {
        self.try_piece().await.unwrap()
    }

    /// Returns the next piece of the body, or the error of an interrupted connection.
    async fn try_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        if self.header("transfer-encoding") != Some("chunked") {
            self.is_over = true;
            let length = self.header("content-length").unwrap_or("0");
            let mut body = vec![0; length.parse().unwrap()];
            patiently(self.reader.read_exact(&mut body)).await?;
            return Ok(Some(body));
        }
        let mut line = String::new();
        let count = patiently(self.reader.read_line(&mut line)).await?;
        if count == 0 {
            self.is_over = true;
            return Ok(None);
        }
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        patiently(self.reader.read_exact(&mut chunk)).await?;
        chunk.truncate(length);
        self.is_over = length == 0;
        Ok((length > 0).then_some(chunk))
    }

    pub async fn whole(mut self) -> Reply {
        let mut body = std::mem::take(&mut self.pending);
        while let Some(piece) = self.piece().await {
            body.extend(piece);
        }
        Reply {
            status: self.status,
            headers: self.headers,
            body,
        }
    }

    /// Returns the next event of the stream, without comments.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending_event() {
                return Some(event);
            }
            let piece = self.piece().await?;
            self.pending.extend(piece);
        }
    }

    /// Returns the next event that has completely arrived, without comments.
    fn pending_event(&mut self) -> Option<Event> {
        loop {
            let end = self.pending.windows(2).position(|pair| pair == b"\n\n")?;
            let block: Vec<u8> = self.pending.drain(..end + 2).collect();
            let event = parse(std::str::from_utf8(&block).unwrap());
            if event != Event::default() {
                return Some(event);
            }
        }
    }

    /// Returns all events that completely arrive until the connection ends or is interrupted.
    pub async fn events_until_cut(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            events.extend(std::iter::from_fn(|| self.pending_event()));
            match self.try_piece().await {
                Ok(Some(piece)) => self.pending.extend(piece),
                Ok(None) | Err(_) => return events,
            }
        }
    }

    /// Returns the remaining events of the stream.
    pub async fn events(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }

    /// Skips events up to the first one with this name, and returns it.
    pub async fn until(&mut self, name: &str) -> Event {
        loop {
            let event = self.event().await.expect("the stream ended");
            if event.event == name {
                return event;
            }
        }
    }
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Asserts that the response is an error with this status, and returns its text.
    #[track_caller]
    pub fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        let json = self.json();
        let text = json["error"].as_str().unwrap();
        assert_eq!(json.as_object().unwrap().len(), 1, "{json}");
        text.to_owned()
    }

    /// Asserts that the response is a success with this status, and returns its JSON.
    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let value = headers.iter().find(|(other, _)| other == name);
    value.map(|(_, value)| &**value)
}

fn parse(block: &str) -> Event {
    let mut event = Event::default();
    let mut lines = Vec::new();
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => value.clone_into(&mut event.id),
            Some(("event", value)) => value.clone_into(&mut event.event),
            Some(("data", value)) => lines.push(value),
            _ => {}
        }
    }
    event.data = lines.join("\n");
    event
}
