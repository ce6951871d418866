//! Tools that call an address from an untrusted source.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use agentcore::net::{AddressPolicy, Resolver};
use agentcore::{ErrorKind, HttpTool, Result, Tool, ToolContext, async_trait};
use serde_json::json;

/// A server on the loopback interface that sends one answer per connection.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    fn start(reply: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                counter.fetch_add(1, Ordering::Relaxed);
                let mut head = Vec::new();
                let mut piece = [0; 4096];
                while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(read @ 1..) => head.extend_from_slice(&piece[..read]),
                        _ => break,
                    }
                }

                let head = String::from_utf8_lossy(&head).into_owned();
                let _ = stream.write_all(reply(head.lines().next().unwrap_or_default()).as_bytes());
            }
        });

        Self {
            address,
            connections,
        }
    }

    fn answering() -> Self {
        Self::start(|_| response("200 OK", "", r#"{"result": "answer"}"#))
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// A resolver that answers each lookup with the next address, and repeats the last one.
#[derive(Clone)]
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl Names {
    fn new(addresses: &[&'static str]) -> Self {
        Self(Arc::new(Mutex::new(addresses.to_vec())))
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        let mut addresses = self.0.lock().unwrap();
        let next = match addresses.len() {
            1 => addresses[0],
            _ => addresses.remove(0),
        };
        Ok(vec![next.parse().unwrap()])
    }
}

fn tool(url: &str) -> HttpTool {
    HttpTool::new("lookup", "Looks up", json!({"type": "object"}), url).unwrap()
}

async fn call(tool: &HttpTool) -> Result<String, String> {
    let outcome = tool.execute(ToolContext::detached(), json!({})).await;
    match outcome {
        Ok(output) => Ok(output.content.text().into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn name_that_resolves_to_a_refused_address_is_not_connected_to() {
    let server = Server::answering();
    let port = server.address.port();
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::ffff:127.0.0.1",
    ] {
        let tool = tool(&format!("http://public.test:{port}/"))
            .policy(AddressPolicy::new().allow_port(port))
            .unwrap()
            .resolver(Names::new(&[address]));
        let error = call(&tool).await.unwrap_err();
        let start = "http_tool: lookup: public.test resolves to an address that is refused: ";
        assert!(error.starts_with(start), "{error}");
    }

    assert_eq!(server.connections(), 0);
}

#[test]
fn callback_address_that_is_refused_is_an_error_without_its_secrets() {
    for url in [
        "http://127.0.0.1/",
        "http://[::ffff:7f00:1]/?token=secret",
        "http://[::ffff:10.0.0.1]/",
        "http://0x7f.1/",
        "http://localhost/",
        "http://169.254.169.254/latest",
        "http://public.test:8080/",
        "https://user:secret@public.test/",
    ] {
        let error = tool(url).policy(AddressPolicy::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        let text = error.to_string();
        let start = "http_tool: lookup: the callback address is refused: ";
        assert!(text.contains(start), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn redirect_to_a_private_address_is_not_followed() {
    let hidden = Server::answering();
    let location = format!("http://{}/", hidden.address);
    let server =
        Server::start(move |_| response("307 Temporary", &format!("location: {location}\r\n"), ""));
    let tool = tool(&format!("http://{}/", server.address))
        .policy(AddressPolicy::new().allow_address(server.address))
        .unwrap();
    call(&tool).await.unwrap_err();
    assert_eq!(server.connections(), 1);
    assert_eq!(hidden.connections(), 0);
}

#[tokio::test]
async fn name_is_checked_again_at_each_connection() {
    let server = Server::start(|line| {
        if line.contains("/next") {
            response("200 OK", "", r#"{"result": "answer"}"#)
        } else {
            response("307 Temporary", "location: /next\r\n", "")
        }
    });

    let port = server.address.port();
    let policy = AddressPolicy::new().allow_address(server.address);
    let url = format!("http://rebind.test:{port}/");
    let same = tool(&url).policy(policy.clone()).unwrap();
    let same = same.resolver(Names::new(&["127.0.0.1"]));
    assert_eq!(call(&same).await.as_deref(), Ok("answer"));
    assert_eq!(server.connections(), 2);

    let rebound = tool(&url).policy(policy).unwrap();
    let rebound = rebound.resolver(Names::new(&["127.0.0.1", "127.0.0.2"]));
    let error = call(&rebound).await.unwrap_err();
    assert!(error.contains("127.0.0.2 is a loopback address"), "{error}");
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn allowed_host_may_have_any_address() {
    let server = Server::answering();
    let port = server.address.port();
    let policy = AddressPolicy::new();
    let policy = policy.allow_host(&format!("tools.corp:{port}")).unwrap();
    let tool = tool(&format!("http://tools.corp:{port}/"))
        .policy(policy)
        .unwrap()
        .resolver(Names::new(&["127.0.0.1"]));
    assert_eq!(call(&tool).await.as_deref(), Ok("answer"));
}

#[tokio::test]
async fn tool_without_a_policy_connects_to_any_address() {
    let server = Server::answering();
    let tool = tool(&format!("http://{}/", server.address));
    assert_eq!(call(&tool).await.as_deref(), Ok("answer"));
}
