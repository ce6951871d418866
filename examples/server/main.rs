//! Agents of a configuration file over HTTP, with a page.
//!
//! ```sh
//! cargo run --example server --features server -- examples/server/agents.yaml [--port N] [--bind ADDRESS]
//! ```
//!
//! It prints the address of the page, with the token, on a line of its own, and ends with Ctrl-C or
//! SIGTERM: the runs are stored first.
//! `AGENTS_TOKEN` sets the token. Without the key of a provider a scripted model answers.

mod scripted;
mod stop;

use std::net::IpAddr;

use agentcore::config::Config;
use agentcore::registry::Registry;
use agentcore::server::Server;
use agentcore::{Error, ErrorKind, Secret, providers};

#[tokio::main]
async fn main() -> agentcore::Result<()> {
    let options = Options::read(std::env::args().skip(1))?;
    let config = Config::load(&options.path)?;
    let registry = match missing_key(&config).map_err(|error| error.context(&options.path))? {
        None => Registry::new(),
        Some(error) => {
            println!("A scripted model answers in place of the agents' models: {error}");
            Registry::new().models(|_name| Ok(scripted::model()))
        }
    };

    let mut server = Server::with_registry(registry)
        .agents(&config)?
        .port(options.port);
    if let Some(address) = options.bind {
        server = server.bind(address);
    }
    if let Ok(token) = std::env::var("AGENTS_TOKEN") {
        server = server.token(Secret::new(token));
    }
    let listening = server.listen().await?;
    println!("{}", listening.url_with_token());
    listening.serve(stop::requested()).await
}

/// The error of the first agent whose provider has no key here.
///
/// # Errors
///
/// Returns an error for a model that cannot be used even with a key, such as one of an unknown
/// provider.
fn missing_key(config: &Config) -> agentcore::Result<Option<Error>> {
    let mut missing = None;
    for (id, agent) in config.agents() {
        match providers::resolve(&agent.model) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Auth => missing = missing.or(Some(error)),
            Err(error) => return Err(error.context(format!("agent {id:?}"))),
        }
    }
    Ok(missing)
}

/// The arguments of the program.
struct Options {
    path: String,
    port: u16,
    bind: Option<IpAddr>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> agentcore::Result<Self> {
        const USAGE: &str = "usage: server agents.yaml [--port N] [--bind ADDRESS]";
        let usage = || Error::new(ErrorKind::Config, USAGE);
        let mut path = None;
        let (mut port, mut bind) = (8000, None);
        while let Some(arg) = args.next() {
            match &*arg {
                "--port" => port = args.next().and_then(|n| n.parse().ok()).ok_or_else(usage)?,
                "--bind" => {
                    bind = Some(args.next().and_then(|a| a.parse().ok()).ok_or_else(usage)?);
                }
                _ if path.is_none() && !arg.starts_with('-') => path = Some(arg),
                _ => return Err(usage()),
            }
        }
        let path = path.ok_or_else(usage)?;
        Ok(Self { path, port, bind })
    }
}
