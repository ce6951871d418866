//! A gateway with two channels at once: the terminal, where each line is a message, and a webhook
//! over HTTP. Each chat is a conversation of its own. Every half an hour, a heartbeat checks the
//! tasks in `HEARTBEAT.md` and reports to the chat in which a person wrote last. The model is a
//! function, so it needs no key.
//!
//! ```sh
//! cargo run --example gateway --features gateway -- [--port N]
//! curl -d '{"chat_id": "7", "content": "Hi"}' http://127.0.0.1:N/message
//! ```
//!
//! It prints the address of the webhook, answers each line with a line, and ends when standard
//! input does.

mod webhook;

use std::io::{self, BufRead, Write};

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::gateway::{
    Gateway, Heartbeat, InProcessBus, InboundMessage, MessageBus, StateManager,
};
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, Error, ErrorKind, ModelRequest};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The tasks that the heartbeat checks.
const TASKS: &str = "- Is the build green?\n- Is there new mail?\n";

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port()?)).await?;
    println!("http://{}/message", listener.local_addr()?);

    // A `LocalBackend` would keep the tasks, the log and the last chat.
    let files = MemoryBackend::new();
    files.write("HEARTBEAT.md", TASKS.as_bytes()).await?;
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(FunctionModel::text(respond));
    let gateway = Gateway::builder(agent)
        .bus(bus.clone())
        .state(StateManager::load(files.clone()).await?)
        .heartbeat(Heartbeat::new(files))
        .build()?;
    tokio::select! {
        outcome = gateway.run() => outcome,
        outcome = webhook::serve(listener, &bus) => outcome,
        outcome = terminal(&bus) => outcome,
    }
}

/// The port of `--port N`, or any free one.
fn port() -> agentcore::Result<u16> {
    let mut args = std::env::args().skip(1);
    let (option, number) = (args.next(), args.next());
    match (option.as_deref(), number.and_then(|text| text.parse().ok())) {
        (None, _) => Ok(0),
        (Some("--port"), Some(port)) => Ok(port),
        _ => Err(Error::new(ErrorKind::Config, "usage: gateway [--port N]")),
    }
}

/// The model: it repeats the message and counts those of the conversation. To a heartbeat it
/// reports the number of tasks.
fn respond(request: &ModelRequest) -> String {
    let text = request.messages.last_content();
    if text.starts_with("# Heartbeat") {
        let count = text.lines().filter(|line| line.starts_with("- ")).count();
        return format!("I checked {count} tasks.");
    }
    let count = request.messages.user_messages().count();
    format!("You wrote {text:?}, message {count} of this conversation.")
}

/// The terminal as a channel. Ends when standard input has ended and each line has its reply.
async fn terminal(bus: &InProcessBus) -> agentcore::Result<()> {
    let mut lines = lines();
    let (mut is_open, mut open_messages) = (true, 0);
    while is_open || open_messages > 0 {
        tokio::select! {
            line = lines.recv(), if is_open => match line {
                Some(line) => {
                    let message = InboundMessage::new("terminal", "1", "me", line);
                    bus.publish_inbound(message).await?;
                    open_messages += 1;
                }
                None => is_open = false,
            },
            delivery = bus.consume_outbound("terminal") => {
                let Some(delivery) = delivery? else { break };
                let message = &delivery.message;
                writeln!(io::stdout(), "{}", message.content)?;
                // Reports of the heartbeat are no replies.
                if message.id.ends_with(":reply") {
                    open_messages -= 1;
                }
                delivery.ack().await?;
            }
        }
    }
    Ok(())
}

/// The lines of standard input that are not empty, from a thread of their own, because reading
/// blocks.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        for line in lines.filter(|line| !line.trim().is_empty()) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
