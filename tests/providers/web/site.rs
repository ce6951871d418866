//! A small web server, and a resolver whose names lead to it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use agentcore::tools::web::{AddressPolicy, Resolver, WebFetch};
use agentcore::{Tool, ToolContext, ToolOutput, async_trait};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The answer to a request.
#[derive(Clone)]
pub enum Answer {
    /// Sends these bytes, and closes the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes, and keeps the connection open.
    Stall(Vec<u8>),
    /// Sends a head, and then repeats these bytes for ever.
    Endless(Vec<u8>, Vec<u8>),
}

/// A server that answers each request by its path, and records the requests.
pub struct Site {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub async fn start(answer: impl Fn(&str) -> Answer + Clone + Send + 'static) -> Self {
        Self::at("127.0.0.1:0", answer).await
    }

    pub async fn at(
        address: &str,
        answer: impl Fn(&str) -> Answer + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = heads.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), log.clone()));
            }
        });
        Self { address, heads }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the heads of the requests, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Returns the tool, which may access this server.
    pub fn tool(&self) -> WebFetch {
        WebFetch::new().policy(AddressPolicy::new().allow_address(self.address))
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: impl Fn(&str) -> Answer,
    log: Arc<Mutex<Vec<String>>>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }

    let head = String::from_utf8(bytes).unwrap();
    let answer = answer(head.split(' ').nth(1).unwrap());
    log.lock().unwrap().push(head.to_lowercase());
    match answer {
        Answer::Bytes(bytes) => {
            stream.write_all(&bytes).await?;
            stream.shutdown().await
        }
        Answer::Stall(bytes) => {
            stream.write_all(&bytes).await?;
            let mut rest = [0; 64];
            while stream.read(&mut rest).await? > 0 {}
            Ok(())
        }
        Answer::Endless(head, bytes) => {
            stream.write_all(&head).await?;
            loop {
                stream.write_all(&bytes).await?;
            }
        }
    }
}

pub fn reply(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    Answer::Bytes([head.as_bytes(), body].concat())
}

pub fn page(content_type: &str, body: impl AsRef<[u8]>) -> Answer {
    reply("200 OK", &format!("content-type: {content_type}\r\n"), body)
}

pub fn redirect(status: &str, location: &str) -> Answer {
    reply(status, &format!("location: {location}\r\n"), "")
}

pub async fn call(tool: &impl Tool, args: Value) -> Result<ToolOutput, String> {
    let outcome = tool.execute(ToolContext::detached(), args).await;
    outcome.map_err(|error| error.to_string())
}

pub async fn text(tool: &impl Tool, url: &str) -> Result<String, String> {
    let output = call(tool, json!({"url": url})).await?;
    Ok(output.content.text().into_owned())
}

/// A resolver that answers each lookup with the next list of addresses, and repeats the last one.
#[derive(Clone)]
pub struct Names {
    answers: Vec<Vec<IpAddr>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Names {
    pub fn new(answers: &[&[&str]]) -> Self {
        let parse = |list: &&[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect();
        Self {
            answers: answers.iter().map(parse).collect(),
            asked: Arc::default(),
        }
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(host.to_owned());
        let at = (asked.len() - 1).min(self.answers.len() - 1);
        Ok(self.answers[at].clone())
    }
}
