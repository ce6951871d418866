//! Servers that hang, that repeat what they receive, or that are missing: no error has a password,
//! and no call waits for ever.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use agentcore::session::ServerOptions;
use agentcore::{Error, ErrorKind, Result, SessionStore};

const PASSWORD: &str = "canary-0123456789";

type Open = fn(&str, ServerOptions) -> Result<Box<dyn Store>>;

/// A store that implements `Debug`.
trait Store: SessionStore + std::fmt::Debug {}
impl<T: SessionStore + std::fmt::Debug> Store for T {}

/// The scheme of each store's addresses, and the function that opens the store.
fn kinds() -> Vec<(&'static str, Open)> {
    vec![
        #[cfg(feature = "postgres")]
        ("postgres", |url, options| {
            let store = agentcore::session::PostgresStore::with_options(url, options)?;
            Ok(Box::new(store))
        }),
        #[cfg(feature = "redis")]
        ("redis", |url, options| {
            let store = agentcore::session::RedisStore::with_options(url, options)?;
            Ok(Box::new(store))
        }),
    ]
}

pub fn hasty() -> ServerOptions {
    ServerOptions::default()
        .timeout(Duration::from_secs(30))
        .max_retry_time(Duration::from_millis(100))
}

fn error_texts(error: &Error) -> String {
    let mut all = String::new();
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        write!(all, "{error}\n{error:?}\n{error:#?}\n").unwrap();
        next = error.source();
    }
    all
}

/// Starts a server that passes each connection to `answer`, and returns its port.
pub fn listen(answer: impl Fn(&mut TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.unwrap());
        }
    });
    port
}

pub fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = [0; 4096];
    let len = stream.read(&mut bytes).unwrap_or_default();
    bytes[..len].to_vec()
}

/// Requests the password, and repeats it in an error.
fn repeat(stream: &mut TcpStream, kind: &str) {
    let received = read(stream);
    if kind == "redis" {
        let received = String::from_utf8_lossy(&received).replace("\r\n", " ");
        let _ = stream.write_all(format!("-WRONGPASS you said {received}\r\n").as_bytes());
        return;
    }

    let _ = stream.write_all(b"R\0\0\0\x08\0\0\0\x03");
    let received = read(stream);
    let received = String::from_utf8_lossy(&received[5..received.len() - 1]).into_owned();
    let fields = format!("SFATAL\0VFATAL\0C28P01\0Myou said {received}\0D{received}\0\0");
    let len = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    let _ = stream.write_all(&[b"E", &len[..], fields.as_bytes()].concat());
}

#[tokio::test]
async fn errors_and_debug_output_contain_no_password() {
    for (kind, open) in kinds() {
        let port = listen(move |stream| repeat(stream, kind));
        let url = format!("{kind}://user:{PASSWORD}@127.0.0.1:{port}/0");
        let store = open(&url, hasty()).unwrap();
        let debug = format!("{store:?} {store:#?}");
        assert!(debug.contains(&port.to_string()), "{debug}");
        let error = store.list().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{kind}: {error}");
        assert!(
            error.text().contains("you said"),
            "the error has the text of the server: {error}"
        );
        let absent = format!("{kind}://user:{PASSWORD}@127.0.0.1:1/0");
        let connect_error = open(&absent, hasty())
            .unwrap()
            .lease("a")
            .await
            .unwrap_err();
        assert_eq!(
            connect_error.kind(),
            ErrorKind::Connect,
            "{kind}: {connect_error}"
        );
        for text in [debug, error_texts(&error), error_texts(&connect_error)] {
            assert!(!text.contains("canary"), "{kind}: {text}");
        }
    }
}

#[test]
fn error_for_an_invalid_address_contains_no_password() {
    for (kind, open) in kinds() {
        for url in [
            PASSWORD.to_owned(),
            String::new(),
            format!("http://user:{PASSWORD}@host/0"),
            format!("{kind}://user:{PASSWORD}?x=y@host:port/db"),
            format!("{kind}://user:{PASSWORD}/0@host/db"),
            format!("{kind}://user:{PASSWORD}@host:{PASSWORD}/0"),
            format!("{kind}://user:%ff{PASSWORD}@host/x?sslmode={PASSWORD}"),
            format!("{kind}://user:{PASSWORD}@/?{PASSWORD}=1#{PASSWORD}"),
            format!("{kind}://user:{PASSWORD}#@host/0"),
            format!("{kind}://user:a@{PASSWORD}@host/0"),
            format!("{kind}://user:{PASSWORD}@b@host,other/0"),
            format!("{kind}://host/0?password={PASSWORD}@b"),
            format!("{kind}://host:1/0?password=a@{PASSWORD}"),
            format!("{kind}://host?password={PASSWORD}@{PASSWORD}"),
        ] {
            // A parser may accept some of these addresses.
            let text = match open(&url, ServerOptions::default()) {
                Ok(store) => format!("{store:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Config, "{url}");
                    error_texts(&error)
                }
            };
            assert!(!text.contains("canary"), "{text}");
        }
    }
}

#[cfg(feature = "postgres")]
#[test]
fn unsupported_postgres_address_is_a_config_error_with_a_hint() {
    use agentcore::session::PostgresStore;
    for (url, words) in [
        ("postgres://user:p@ss@host/db", "%40"),
        ("postgresql://user:p@ss@host/db", "%40"),
        ("host=a,b hostaddr=127.0.0.1 user=u", "hosts"),
        ("host=a,b,c port=1,2 user=u", "port"),
        (
            "postgres://u@host/db?channel_binding=require",
            "channel_binding",
        ),
        (
            "postgres://u@host/db?target_session_attrs=read-only",
            "writes",
        ),
        ("postgres://u@host/db?sslmode=verify", "verify-full"),
    ] {
        let error = PostgresStore::open(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.text().contains(words), "{error}");
    }

    for url in [
        "postgres://user:p%40ss@host/db?options=-c%20a@b",
        "host=a,b hostaddr=127.0.0.1,127.0.0.2 port=1 user=u password=p@s@s",
    ] {
        PostgresStore::open(url).unwrap();
    }
}

#[tokio::test]
async fn missing_password_is_an_auth_error() {
    for (kind, open) in kinds() {
        let port = listen(move |stream| {
            read(stream);
            let asks: &[u8] = match kind {
                "redis" => b"-NOAUTH Authentication required.\r\n",
                _ => b"R\0\0\0\x08\0\0\0\x03",
            };

            let _ = stream.write_all(asks);
            read(stream);
        });

        let store = open(&format!("{kind}://user@127.0.0.1:{port}/0"), hasty()).unwrap();
        let error = store.list().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{kind}: {error}");
    }
}

#[tokio::test]
async fn unknown_host_name_is_looked_up_twice_at_most() {
    for (kind, open) in kinds() {
        // A label of a host name has at most 63 bytes.
        let name = "a".repeat(70);
        let patient = ServerOptions::default().max_retry_time(Duration::from_secs(600));
        let store = open(&format!("{kind}://user@{name}/0"), patient).unwrap();
        let error = store.list().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dns, "{kind}: {error}");
        assert!(error.text().contains("tried 2 times"), "{error}");
    }
}

#[tokio::test]
async fn hanging_server_is_a_timeout() {
    for (kind, open) in kinds() {
        let port = listen(|stream| std::mem::forget(stream.try_clone()));
        let short = hasty().timeout(Duration::from_millis(200));
        let store = open(&format!("{kind}://user@127.0.0.1:{port}/0"), short).unwrap();
        let error = store.load("a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{kind}: {error}");
        assert!(error.text().contains("does not answer"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_too_long_for_a_connection_is_a_timeout() {
    for (kind, open) in kinds() {
        let port = listen(|stream| std::mem::forget(stream.try_clone()));
        let (timeout, patience) = (Duration::from_millis(200), Duration::from_millis(100));
        let options = ServerOptions::default()
            .timeout(timeout)
            .max_retry_time(patience)
            .max_connections(1);
        let store = open(&format!("{kind}://user@127.0.0.1:{port}/0"), options).unwrap();

        // Each call occupies the connection until its timeout, so the last ones exceed their own
        // limit.
        let calls = (0..6).map(|number| {
            let store = &store;
            async move { store.load(&number.to_string()).await.unwrap_err() }
        });

        let errors = futures::future::join_all(calls).await;
        let of = |text: &str| errors.iter().filter(|e| e.text().contains(text)).count();
        let waited = of("all 1 connections to");
        assert!(waited > 0 && of("does not answer") > 0, "{errors:?}");
        assert_eq!(waited + of("does not answer"), errors.len(), "{errors:?}");
        for error in &errors {
            assert_eq!(error.kind(), ErrorKind::Timeout, "{kind}: {error}");
        }

        // No call has kept the permit for the connection.
        let again = store.load("again").await.unwrap_err();
        assert!(again.text().contains("does not answer"), "{again}");
    }
}

#[tokio::test]
async fn error_for_a_server_of_another_protocol_names_the_address() {
    for (kind, open) in kinds() {
        let port = listen(|stream| {
            read(stream);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        });
        let store = open(&format!("{kind}://user@127.0.0.1:{port}/0"), hasty()).unwrap();
        let error = store.lease("a").await.unwrap_err();
        assert!(error.text().contains(&port.to_string()), "{kind}: {error}");
    }
}

/// Without a runtime, the store works on the calling thread.
#[test]
fn store_works_without_a_tokio_runtime() {
    for (kind, open) in kinds() {
        let store = open(&format!("{kind}://user@127.0.0.1:1/0"), hasty()).unwrap();
        let error = futures::executor::block_on(store.list()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{kind}: {error}");
    }
}

#[test]
fn invalid_server_options_are_config_errors() {
    for (kind, open) in kinds() {
        for options in [
            ServerOptions::default().lease_time(Duration::from_millis(99)),
            ServerOptions::default().lease_time(Duration::MAX),
            ServerOptions::default().timeout(Duration::ZERO),
            ServerOptions::default().timeout(Duration::MAX),
            ServerOptions::default().max_retry_time(Duration::MAX),
            ServerOptions::default().max_connections(0),
            ServerOptions::default().prefix(""),
        ] {
            let error = open(&format!("{kind}://127.0.0.1/0"), options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{kind}: {error}");
        }
    }
}

/// Returns the bytes that a client sends to a server with this answer, and the error.
#[cfg(feature = "tls")]
async fn first_words(
    kind: &str,
    open: Open,
    answer: &'static [u8],
    query: &str,
) -> (Vec<u8>, Error) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let port = listen(move |stream| {
        let _ = sender.send(read(stream));
        let _ = stream.write_all(answer);
        let _ = sender.send(read(stream));
    });
    let url = format!("{kind}://user:{PASSWORD}@127.0.0.1:{port}/0{query}");
    let error = open(&url, hasty()).unwrap().list().await.unwrap_err();
    (receiver.try_iter().flatten().collect(), error)
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn credentials_are_never_sent_without_required_tls() {
    for (kind, open) in kinds() {
        let cases: &[(&str, &str, &[u8])] = match kind {
            "redis" => &[("rediss", "", b"+OK\r\n")],
            _ => &[
                ("postgres", "?sslmode=require", b"N"),
                ("postgres", "?sslmode=require", b"Snonsense"),
                ("postgres", "?sslmode=verify-ca", b"N"),
                ("postgres", "?sslmode=verify-full", b"Snonsense"),
            ],
        };

        for (scheme, query, answer) in cases {
            let (received_bytes, error) = first_words(scheme, open, answer, query).await;
            let kinds = [ErrorKind::Tls, ErrorKind::Connect];
            assert!(kinds.contains(&error.kind()), "{scheme}: {error}");
            let received = String::from_utf8_lossy(&received_bytes).into_owned();
            assert!(
                !received.contains("canary") && !received.contains("user"),
                "{received}"
            );
            assert!(!error_texts(&error).contains("canary"));
        }
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn required_tls_without_the_feature_is_a_config_error() {
    for (kind, open) in kinds() {
        let url = match kind {
            "redis" => "rediss://127.0.0.1",
            _ => "postgres://user@127.0.0.1/db?sslmode=require",
        };
        let error = open(url, ServerOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.text().contains("feature `tls`"), "{error}");
    }
}
