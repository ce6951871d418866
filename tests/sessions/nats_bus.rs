//! The bus on a real NATS server, if `AGENTCORE_TEST_NATS` names one, such as
//! `nats://127.0.0.1:4222`.

use std::time::Duration;

use agentcore::gateway::{InboundMessage, MessageBus, NatsBus, NatsOptions, OutboundMessage};
use agentcore::testing::conformance;
use agentcore::{ErrorKind, Secret};
use tokio::time::timeout;

/// The time limit for the delivery of a message, long enough for a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the URL of the server. Without one, prints a line and returns `None`.
pub fn server() -> Option<String> {
    let url = std::env::var("AGENTCORE_TEST_NATS").ok();
    if url.is_none() {
        println!("skipped: AGENTCORE_TEST_NATS names no server");
    }
    url
}

/// Returns a prefix that no other test uses.
pub fn new_prefix() -> String {
    format!("test-{}", uuid::Uuid::now_v7())
}

pub async fn remove_streams(url: &str, prefix: &str) {
    let client = async_nats::connect(url).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    for direction in ["IN", "OUT"] {
        let name = format!("{prefix}_{direction}");
        jetstream.delete_stream(name).await.unwrap();
    }
}

fn options(prefix: &str) -> NatsOptions {
    NatsOptions::default().prefix(prefix).max_bytes(64 << 20)
}

async fn bus(url: &str, prefix: &str) -> NatsBus {
    let bus = NatsBus::with_options(url, options(prefix)).await;
    bus.unwrap()
}

fn message(id: &str) -> InboundMessage {
    InboundMessage::new("tg", "1", "u1", id).with_id(id)
}

#[tokio::test]
async fn nats_bus_keeps_the_contract() {
    let Some(url) = server() else { return };
    let prefixes = std::sync::Mutex::new(Vec::new());
    let make = || async {
        let prefix = new_prefix();
        prefixes.lock().unwrap().push(prefix.clone());
        bus(&url, &prefix).await
    };
    let outcome = conformance::message_bus(make).await;
    for prefix in prefixes.into_inner().unwrap() {
        remove_streams(&url, &prefix).await;
    }
    outcome.unwrap();
}

#[tokio::test]
async fn session_is_one_process_at_a_time() {
    let Some(url) = server() else { return };
    let prefix = new_prefix();
    let (first, second) = (bus(&url, &prefix).await, bus(&url, &prefix).await);
    first.publish_inbound(message("m1")).await.unwrap();
    let delivery = first.consume_inbound().await.unwrap().unwrap();
    first.publish_inbound(message("m2")).await.unwrap();
    // The process that owns the session receives the message, such as the answer to a question.
    let mut other = std::pin::pin!(second.consume_inbound());
    let next = timeout(LONGEST, async {
        tokio::select! {
            biased;
            outcome = &mut other => panic!("the other process got {outcome:?}"),
            next = first.consume_inbound() => next.unwrap().unwrap(),
        }
    });
    let next = next.await.unwrap();
    assert_eq!(&*next.message.id, "m2");
    next.give_back(Duration::ZERO).await.unwrap();
    delivery.ack().await.unwrap();
    let next = timeout(LONGEST, async {
        tokio::select! {
            next = &mut other => next,
            next = first.consume_inbound() => next,
        }
    });
    let next = next.await.unwrap().unwrap().unwrap();
    assert_eq!(&*next.message.id, "m2");
    next.ack().await.unwrap();
    remove_streams(&url, &prefix).await;
}

#[tokio::test]
async fn message_whose_receiver_is_gone_is_delivered_to_another_process() {
    let Some(url) = server() else { return };
    let prefix = new_prefix();
    let options = options(&prefix).ack_wait(Duration::from_secs(1));
    let first = NatsBus::with_options(&url, options.clone()).await.unwrap();
    first.publish_inbound(message("m1")).await.unwrap();
    let delivery = first.consume_inbound().await.unwrap().unwrap();
    // A killed process runs no destructors.
    std::mem::forget(delivery);
    let second = NatsBus::with_options(&url, options).await.unwrap();
    let next = timeout(LONGEST, second.consume_inbound()).await;
    let next = next.unwrap().unwrap().unwrap();
    assert_eq!(&*next.message.id, "m1");
    next.ack().await.unwrap();
    remove_streams(&url, &prefix).await;
}

#[tokio::test]
async fn message_that_another_process_sends_is_not_sent_by_a_slow_one() {
    let Some(url) = server() else { return };
    let prefix = new_prefix();
    let options = options(&prefix).ack_wait(Duration::from_secs(3));
    let slow = NatsBus::with_options(&url, options.clone()).await.unwrap();
    let other = NatsBus::with_options(&url, options).await.unwrap();
    for id in ["m1", "m2"] {
        let message = OutboundMessage::new("tg", "1", id).with_id(id);
        slow.publish_outbound(message).await.unwrap();
    }
    let first = slow.consume_outbound("tg").await.unwrap().unwrap();
    assert_eq!(&*first.message.id, "m1");
    // The receiver does not acknowledge in time, so the message is delivered again.
    let next = async || {
        let next = timeout(LONGEST, other.consume_outbound("tg")).await;
        next.unwrap().unwrap().unwrap()
    };
    let again = next().await;
    assert_eq!(&*again.message.id, "m1");
    again.ack().await.unwrap();
    let second = next().await;
    assert_eq!(&*second.message.id, "m2");

    let mut later = std::pin::pin!(slow.consume_outbound("tg"));
    for _ in 0..5 {
        second.keep_alive().await.unwrap();
        let outcome = timeout(Duration::from_millis(300), &mut later).await;
        assert!(outcome.is_err(), "{outcome:?}");
    }
    second.ack().await.unwrap();
    drop(first);
    remove_streams(&url, &prefix).await;
}

#[tokio::test]
async fn message_that_cannot_be_read_is_removed() {
    let Some(url) = server() else { return };
    let prefix = new_prefix();
    let bus = bus(&url, &prefix).await;
    let client = async_nats::connect(&url).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for payload in ["no JSON".to_owned(), "{}".to_owned(), deep] {
        let subject = format!("{prefix}.in.x");
        let ack = jetstream.publish(subject, payload.into()).await.unwrap();
        ack.await.unwrap();
    }
    bus.publish_inbound(message("m1")).await.unwrap();
    let delivery = timeout(LONGEST, bus.consume_inbound()).await;
    let delivery = delivery.unwrap().unwrap().unwrap();
    assert_eq!(&*delivery.message.id, "m1");
    delivery.ack().await.unwrap();
    remove_streams(&url, &prefix).await;
}

#[tokio::test]
async fn message_beyond_the_limit_of_the_server_is_refused_for_good() {
    let Some(url) = server() else { return };
    let prefix = new_prefix();
    let bus = bus(&url, &prefix).await;
    let long = OutboundMessage::new("tg", "1", "x".repeat(70 << 20));
    let error = bus.publish_outbound(long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("max_payload"), "{error}");
    remove_streams(&url, &prefix).await;
}

#[tokio::test]
async fn full_stream_makes_publishing_wait() {
    let Some(url) = server() else { return };
    let prefix = new_prefix();
    let options = options(&prefix).max_bytes(100_000);
    let bus = NatsBus::with_options(&url, options).await.unwrap();
    let send = |id: &'static str| {
        let message = OutboundMessage::new("tg", "1", "x".repeat(60_000)).with_id(id);
        bus.publish_outbound(message)
    };
    send("m1").await.unwrap();
    assert!(timeout(Duration::from_secs(1), send("m2")).await.is_err());
    let first = bus.consume_outbound("tg").await.unwrap().unwrap();
    first.ack().await.unwrap();
    timeout(LONGEST, send("m2")).await.unwrap().unwrap();
    remove_streams(&url, &prefix).await;
}

#[tokio::test]
async fn closed_bus_ends_its_consumers_and_refuses_messages() {
    let Some(url) = server() else { return };
    let prefix = new_prefix();
    let bus = bus(&url, &prefix).await;
    let close = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bus.close();
    };
    let (one, other, outbound, ()) = tokio::join!(
        bus.consume_inbound(),
        bus.consume_inbound(),
        bus.consume_outbound("tg"),
        close
    );
    assert!(one.unwrap().is_none() && other.unwrap().is_none());
    assert!(outbound.unwrap().is_none());
    let error = bus.publish_inbound(message("m1")).await.unwrap_err();
    assert_eq!(error.to_string(), "the bus is closed");
    remove_streams(&url, &prefix).await;
}

#[tokio::test]
async fn options_and_servers_that_are_not_valid_are_errors_without_passwords() {
    let cases = [
        ("nats://127.0.0.1:1", NatsOptions::default().prefix("a.b")),
        ("nats://127.0.0.1:1", NatsOptions::default().prefix("")),
        ("nats://127.0.0.1:1", NatsOptions::default().replicas(0)),
        ("nats://127.0.0.1:1", NatsOptions::default().max_bytes(0)),
        (
            "nats://127.0.0.1:1",
            NatsOptions::default().ack_wait(Duration::ZERO),
        ),
        ("nats://u:canary@:x:y", NatsOptions::default()),
    ];
    for (url, options) in cases {
        let error = NatsBus::with_options(url, options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    let error = NatsBus::connect("nats://u:canary@127.0.0.1:1").await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(!format!("{error:?} {error}").contains("canary"), "{error}");
}

/// Starts a server that sends these bytes to every client, and returns its URL.
async fn hostile_server(bytes: &'static str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut received = [0; 4096];
                let _ = client.write_all(bytes.as_bytes()).await;
                while client.read(&mut received).await.is_ok_and(|len| len > 0) {}
            });
        }
    });
    format!("nats://{address}")
}

const INFO: &str = "INFO {\"server_id\":\"x\",\"server_name\":\"x\",\"host\":\"x\",\"port\":1,\
    \"version\":\"2.10.0\",\"go\":\"x\",\"proto\":1,\"max_payload\":1048576,\"headers\":true,\
    \"client_id\":1,\"jetstream\":true}\r\n";

#[tokio::test]
async fn length_that_overflows_is_an_error_of_the_connection() {
    for first in ["", "PONG\r\n"] {
        let text = format!("{INFO}{first}MSG a 1 18446744073709551615\r\nxxxxxxxxxxxxxxxx");
        let url = hostile_server(text.leak()).await;
        let error = NatsBus::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{first:?}: {error}");
        assert!(error.text().starts_with("NATS: "), "{error}");
    }
}

/// Returns the line with which a client logs in. The server repeats the line in an error.
async fn login_line(
    url: impl FnOnce(std::net::SocketAddr) -> String,
    options: NatsOptions,
) -> String {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = url(listener.local_addr().unwrap());
    let server = async {
        let (mut client, _) = listener.accept().await.unwrap();
        client.write_all(INFO.as_bytes()).await.unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(client);
        reader.read_line(&mut line).await.unwrap();
        let reply = format!("-ERR 'not valid: {}'\r\n", line.trim());
        reader.write_all(reply.as_bytes()).await.unwrap();
        line
    };
    let (line, outcome) = tokio::join!(server, NatsBus::with_options(url, options));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert!(
        !format!("{error:?} {error}").contains("canary"),
        "{error:?}"
    );
    line
}

#[tokio::test]
async fn credentials_reach_the_server_and_no_error() {
    let user = |address| format!("nats://u%40x:canary%21@{address}");
    let line = login_line(user, NatsOptions::default()).await;
    assert!(line.contains(r#""user":"u@x","pass":"canary!""#), "{line}");

    let token = |address| format!("nats://canary-token@{address}");
    let line = login_line(token, NatsOptions::default()).await;
    assert!(line.contains(r#""auth_token":"canary-token""#), "{line}");

    let file = "-----BEGIN NATS USER JWT-----\ncanary.jwt.text\n------END NATS USER JWT------\n\n\
        -----BEGIN USER NKEY SEED-----\n\
        SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y\n\
        ------END USER NKEY SEED------\n";
    let options = NatsOptions::default().credentials(Secret::new(file));
    let line = login_line(|address| format!("nats://{address}"), options).await;
    assert!(line.contains(r#""jwt":"canary.jwt.text""#), "{line}");
}
