//! The builder of a server.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;

use crate::agent::OnUnanswered;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::net::AddressPolicy;
use crate::registry::{Registry, Template};
use crate::session::SessionStore;
use crate::tool::Tool;
use crate::util::Secret;

use super::app::{App, AppState};
use super::auth::Auth;
use super::handle::ServerHandle;
use super::limits::ServerLimits;
use super::openapi;
use super::origin::Origins;
use super::router;
use super::routes;
use super::runs::{OnDisconnect, RunTable};
use super::serve::Listening;
use super::traces::TraceLog;
use super::uploads::Uploads;
use super::users::User;

/// The default port.
const PORT: u16 = 8000;

/// The default time that a run waits for the answer to a question.
const ASK_WAIT: Duration = Duration::from_secs(30);

/// The maximum time within which a pending call can be decided.
const APPROVAL_EXPIRY: Duration = Duration::from_secs(24 * 60 * 60);

/// The interval of the comments that keep an idle stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A server of agents over HTTP: a router for an application, or a server on its own.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::server::Server;
/// use agentcore::testing::ScriptedModel;
/// use axum::{Router, routing::get};
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let agent = AgentBuilder::new(ScriptedModel::new().say("Hello!"));
/// let agents = Server::new().agent("default", agent).token("a token of your own");
/// let app: Router = Router::new()
///     .route("/", get(|| async { "home" }))
///     .nest("/ai", agents.router()?);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// The page, on which a user talks to the agents in a browser, is then at `/ai`, without a trailing
/// slash. The routes are at `/ai/agents/..`.
#[must_use]
pub struct Server {
    address: IpAddr,
    port: u16,
    registry: Registry,
    handle: ServerHandle,
    limits: ServerLimits,
    auth: Option<Auth>,
    hosts: Vec<String>,
    origins: Vec<String>,
    callbacks: AddressPolicy,
    models: BTreeSet<String>,
    on_disconnect: OnDisconnect,
    ask_wait: Duration,
    /// The first error of a setter that does not return a `Result`.
    error: Option<Error>,
}

impl Server {
    /// Creates a server without agents, on port 8000 of the loopback address, with a random token.
    pub fn new() -> Self {
        Self::with_registry(Registry::new())
    }

    /// Creates a server of the agents of a registry, such as one with the application's own models
    /// ([`Registry::models`]) or settings of all agents ([`Registry::complete_with`]).
    ///
    /// The server replaces two settings of each agent: a call whose question is not answered
    /// becomes pending ([`OnUnanswered::Park`]), and its run waits for the answer as long as
    /// [`ask_wait`](Self::ask_wait). It also limits the time for a decision to 24 hours; a shorter
    /// [`approval_expiry`](crate::AgentBuilder::approval_expiry) of an agent stays.
    ///
    /// ```
    /// use agentcore::config::AgentConfig;
    /// use agentcore::registry::Registry;
    /// use agentcore::server::Server;
    /// use agentcore::testing::ScriptedModel;
    ///
    /// let registry = Registry::new().models(|_name| Ok(ScriptedModel::new().say("Hello!")));
    /// let agent = AgentConfig::new("any-model");
    /// let server = Server::with_registry(registry).agent("default", agent);
    /// # drop(server);
    /// ```
    pub fn with_registry(registry: Registry) -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: PORT,
            handle: ServerHandle::new(registry.clone()),
            registry,
            limits: ServerLimits::default(),
            auth: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            callbacks: AddressPolicy::new(),
            models: BTreeSet::new(),
            on_disconnect: OnDisconnect::default(),
            ask_wait: ASK_WAIT,
            error: None,
        }
    }

    /// Sets the port; 0 lets the system choose one. Defaults to 8000.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the address to listen on. Defaults to the loopback address, 127.0.0.1.
    ///
    /// On any other address, the token and all data travel in plain text unless a proxy in front of
    /// the server terminates TLS.
    pub fn bind(mut self, address: impl Into<IpAddr>) -> Self {
        self.address = address.into();
        self
    }

    /// Adds an agent: an [`AgentConfig`](crate::config::AgentConfig) or an
    /// [`AgentBuilder`](crate::AgentBuilder). Routes without an id use the agent `default`. An
    /// agent that cannot be added, such as one whose id is taken, is an error of
    /// [`router`](Self::router) and [`listen`](Self::listen).
    pub fn agent(mut self, id: &str, agent: impl Into<Template>) -> Self {
        if let Err(error) = self.registry.register_template(id, agent) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Adds the agents of a configuration file.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Config::load`] and of [`agents`](Self::agents).
    pub fn config(self, path: impl AsRef<Path>) -> Result<Self> {
        let config = Config::load(path)?;
        self.agents(&config)
    }

    /// Adds the agents of a configuration.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Registry::register_config`], such as
    /// [`Conflict`](crate::ErrorKind::Conflict) for an id that is taken.
    pub fn agents(self, config: &Config) -> Result<Self> {
        self.registry.register_config(config)?;
        Ok(self)
    }

    /// Adds a tool for every agent and user, including agents of a configuration whose list
    /// [`tools`](crate::config::AgentConfig::tools) does not name it: a rule of its `permissions`,
    /// such as `deny: [deploy]`, prevents an agent from calling it. A tool that was added before
    /// under the same name is replaced. A name that is invalid, or that a tool of this crate has,
    /// is an error of [`router`](Self::router) and [`listen`](Self::listen).
    ///
    /// A program with an `agents.yaml` and a tool in Rust:
    ///
    /// ```no_run
    /// use agentcore::FuncTool;
    /// use agentcore::config::Config;
    /// use agentcore::schemars::{self, JsonSchema};
    /// use agentcore::server::Server;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Order {
    ///     number: u32,
    /// }
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// // Or `Server::new().config("agents.yaml")?`, for a file with this text.
    /// let config = Config::from_yaml("
    /// agents:
    ///   default: { model: 'anthropic:claude-sonnet-5', tools: [calculate, lookup_order] }
    /// ")?;
    /// let lookup = FuncTool::typed("lookup_order", "Finds an order", |order: Order| async move {
    ///     Ok(format!("Order {} is on its way.", order.number))
    /// });
    /// let listening = Server::new().agents(&config)?.tool(lookup).listen().await?;
    /// println!("{}", listening.url_with_token());
    /// listening.serve(std::future::pending()).await
    /// # }
    /// ```
    pub fn tool(mut self, tool: impl Tool) -> Self {
        if let Err(error) = self.registry.tools().register(tool) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Sets the session store of all agents that have none of their own. Defaults to a store in
    /// memory of at most 1,000 sessions and 64 MiB. It removes a session an hour after its last
    /// use, or later if one of its calls can still be decided then. Above its limits, it removes
    /// the least recently used sessions.
    pub fn store(mut self, store: impl SessionStore) -> Self {
        self.registry = self.registry.store(store);
        self
    }

    /// Sets the token, which every request must have in `Authorization: Bearer TOKEN`. Defaults to
    /// 256 random bits, which [`Listening::url_with_token`] returns.
    pub fn token(mut self, token: impl Into<Secret>) -> Self {
        self.auth = Some(Auth::Token(token.into()));
        self
    }

    /// Sets the function that finds the user of a request: the application's login, which replaces
    /// the token. It runs for every request and must not block. If it returns an error, the
    /// response is a 401 with the text of the error, or a 403 if the error's kind is
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied).
    ///
    /// A login with a cookie belongs to the application: its own routes set the cookie, and a layer
    /// around the router reads it and inserts the user into the extensions of the request. The page
    /// sends the cookies of its origin, and shows the text of the error after a 401. For logins
    /// without cookies, it also sends `Authorization: Bearer TEXT` if its address ends in
    /// `#token=TEXT`.
    ///
    /// All users of a store share the ids of threads: the id of another user's thread is a 404.
    /// Clients should let the server generate the ids, which cannot be guessed.
    ///
    /// ```
    /// use agentcore::server::{Server, User};
    /// use agentcore::{Error, ErrorKind};
    ///
    /// let server = Server::new().users(|parts| {
    ///     // Inserted by a layer of the application.
    ///     let user = parts.extensions.get::<User>().cloned();
    ///     user.ok_or_else(|| Error::new(ErrorKind::Auth, "log in first"))
    /// });
    /// # drop(server);
    /// ```
    pub fn users(mut self, find: impl Fn(&Parts) -> Result<User> + Send + Sync + 'static) -> Self {
        self.auth = Some(Auth::Users(Arc::new(find)));
        self
    }

    /// Sets the limits of requests, connections and runs. Defaults to
    /// [`ServerLimits::default`].
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the addresses at which tools registered over HTTP may be called. Defaults to the public
    /// internet, ports 80 and 443. For callbacks on this machine, allow their address with
    /// [`AddressPolicy::allow_address`], or `localhost:PORT` with [`AddressPolicy::allow_host`].
    pub fn callbacks(mut self, policy: AddressPolicy) -> Self {
        self.callbacks = policy;
        self
    }

    /// Adds models that a thread may change to, in addition to the models of the agents: names as
    /// in [`providers::resolve`](crate::providers::resolve).
    pub fn models<M: Into<String>>(mut self, names: impl IntoIterator<Item = M>) -> Self {
        self.models.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds a host whose requests are served, such as `agents.example.org`, in addition to the
    /// address that the server is bound to, `localhost` and the loopback addresses. A server that
    /// is bound to an unspecified address, such as `0.0.0.0`, serves requests to any IP address. A
    /// host without a port allows every port.
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Self {
        self.hosts.push(host.as_ref().to_ascii_lowercase());
        self
    }

    /// Adds an origin whose pages may send requests, such as `https://app.example.org`, in addition
    /// to the origin of the server itself. Wildcards are not supported.
    pub fn allow_origin(mut self, origin: impl AsRef<str>) -> Self {
        self.origins.push(origin.as_ref().to_ascii_lowercase());
        self
    }

    /// Sets the action for a run whose readers have all left. Defaults to [`OnDisconnect::Detach`].
    pub fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.on_disconnect = on_disconnect;
        self
    }

    /// Sets the time that a run waits for the answer to a question. After it, the run ends and the
    /// call is stored for a later decision. Defaults to 30 seconds.
    pub fn ask_wait(mut self, time: Duration) -> Self {
        self.ask_wait = time;
        self
    }

    /// Returns a handle of the server.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Builds the router of all routes, to be nested in an axum 0.8 application.
    ///
    /// # Errors
    ///
    /// Returns the first error of the setters, about an agent that cannot be added or a tool that
    /// cannot be registered. Returns [`Config`](crate::ErrorKind::Config) if neither
    /// [`token`](Self::token) nor [`users`](Self::users) is set: only [`listen`](Self::listen) can
    /// return a random token.
    pub fn router(self) -> Result<Router> {
        if self.auth.is_none() {
            let text = "a router needs a login; call `Server::token` or `Server::users` first";
            return Err(Error::new(ErrorKind::Config, text));
        }
        self.into_parts().map(|(router, _)| router)
    }

    /// Binds the address, for a server on its own.
    ///
    /// ```no_run
    /// use agentcore::server::Server;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let listening = Server::new().config("agents.yaml")?.port(0).listen().await?;
    /// println!("{}", listening.url_with_token());
    /// listening.serve(std::future::pending()).await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error of the setters, and [`Io`](crate::ErrorKind::Io) if the address
    /// cannot be bound.
    ///
    /// # Cancel safety
    ///
    /// Nothing is bound if the future is dropped.
    pub async fn listen(self) -> Result<Listening> {
        let address = SocketAddr::new(self.address, self.port);
        let (limits, handle) = (self.limits, self.handle());
        let (router, token) = self.into_parts()?;
        Listening::bind(address, router, limits, handle, token).await
    }

    /// Serves until `shutdown` completes: [`listen`](Self::listen), then [`Listening::serve`].
    /// Writes the address of the page to standard error, with the token if it is random.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`listen`](Self::listen).
    ///
    /// # Cancel safety
    ///
    /// The same as [`Listening::serve`].
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let is_random = self.auth.is_none();
        let listening = self.listen().await?;
        if is_random {
            eprintln!("{}", listening.url_with_token());
        } else {
            eprintln!("http://{}/", listening.address());
        }
        listening.serve(shutdown).await
    }

    fn into_parts(self) -> Result<(Router, Option<Secret>)> {
        if let Some(error) = self.error {
            return Err(error);
        }
        // Not an error, because tools may be registered while the server runs.
        if let Err(error) = self.registry.check_tools() {
            tracing::warn!("{error}");
        }

        let ask_wait = self.ask_wait;
        let registry = self.registry.finish_with(move |builder| {
            builder
                .unanswered(OnUnanswered::Park)
                .ask_timeout(ask_wait)
                .approval_expiry_at_most(APPROVAL_EXPIRY)
        });
        let runs = RunTable::new(self.limits.runs, self.on_disconnect);
        self.handle.set_runs(runs.clone());
        let auth = self.auth.unwrap_or_else(Auth::random);
        let token = match &auth {
            Auth::Token(token) => Some(token.clone()),
            Auth::Users(_) => None,
        };
        let api = routes::all();
        let app = App::new(AppState {
            registry,
            runs,
            limits: self.limits,
            auth,
            origins: Origins {
                bound: self.address,
                hosts: self.hosts,
                origins: self.origins,
            },
            callbacks: self.callbacks,
            models: self.models,
            traces: TraceLog::default(),
            uploads: Uploads::new(self.limits.upload_bytes_per_day),
            is_closing: self.handle.closing(),
            openapi: openapi::document(&api.operations).to_string().into(),
            keep_alive: KEEP_ALIVE,
        });
        Ok((router::finish(api.router, app), token))
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &SocketAddr::new(self.address, self.port))
            .field("auth", &self.auth)
            .field("limits", &self.limits)
            .field("on_disconnect", &self.on_disconnect)
            .finish_non_exhaustive()
    }
}
