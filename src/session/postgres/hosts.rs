//! The hosts of an address, tried one after the other.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, Lookup, Outcome};

/// The minimum time for one host.
const MIN_SHARE: Duration = Duration::from_millis(1);

/// A host of an address.
struct HostEntry {
    /// The host name to verify, over TLS.
    host: Host,
    location: Location,
    port: u16,
}

/// The location of a host.
enum Location {
    #[cfg(unix)]
    Socket,
    Ip(IpAddr),
    Name(Arc<Lookup>),
}

/// Connects to the first host that accepts, within `timeout` for all hosts. Each has an equal share
/// of the remaining time, and a name whose lookup hangs delays the others by a quarter of
/// `timeout` at most.
pub(super) fn connect_first<T>(
    base: &Config,
    timeout: Duration,
    connect: impl Fn(&Config, Duration) -> Outcome<T>,
) -> Outcome<T> {
    let mut hosts = host_entries(base);
    let start_time = Instant::now();
    let mut failure = None;
    for limit in [timeout / 4, timeout] {
        let mut reachable = Vec::new();
        let mut unknown_hosts = Vec::new();
        for host in hosts {
            match host.configs(base, start_time + limit) {
                Ok(Some(configs)) => reachable.extend(configs),
                Ok(None) => unknown_hosts.push(host),
                Err(error) => failure = failure.or(Some(error)),
            }
        }

        if base.get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut reachable);
        }

        let count = u32::try_from(reachable.len() + unknown_hosts.len()).unwrap_or(u32::MAX);
        for (config, remaining_count) in reachable.iter().zip((1..=count).rev()) {
            let time_left = timeout.saturating_sub(start_time.elapsed());
            let own_timeout = base.get_connect_timeout().copied();
            let share = (time_left / remaining_count)
                .min(own_timeout.unwrap_or(time_left))
                .max(MIN_SHARE);
            match connect(config, share) {
                Ok(connection) => return Ok(connection),
                Err(error) => failure = Some(error),
            }
        }

        hosts = unknown_hosts;
    }

    Err(failure.unwrap_or_else(|| {
        let text = format!("no host name was resolved within {timeout:?}");
        Failure::Lost(Error::new(ErrorKind::Timeout, text))
    }))
}

/// Returns the hosts of a configuration. The lookups of their names begin with this call.
fn host_entries(base: &Config) -> Vec<HostEntry> {
    let hosts = base.get_hosts();
    let ips = base.get_hostaddrs();
    let ports = base.get_ports();
    let entry = |at: usize| {
        let ip = ips.get(at).copied();
        let host = match (hosts.get(at), ip) {
            (Some(host), _) => host.clone(),
            (None, ip) => Host::Tcp(ip?.to_string()),
        };

        let at_ip = |name: &str| ip.or_else(|| name.parse().ok()).map(Location::Ip);
        Some(HostEntry {
            location: match &host {
                Host::Tcp(name) => {
                    at_ip(name).unwrap_or_else(|| Location::Name(Lookup::begin(name)))
                }
                #[cfg(unix)]
                Host::Unix(_) => ip.map_or(Location::Socket, Location::Ip),
            },
            host,
            port: ports.get(at).or(ports.first()).copied().unwrap_or(5432),
        })
    };

    (0..hosts.len().max(ips.len())).filter_map(entry).collect()
}

impl HostEntry {
    /// Returns the configuration for each of its addresses; `None` when they are not resolved in
    /// time.
    fn configs(&self, base: &Config, until: Instant) -> Outcome<Option<Vec<Config>>> {
        let make_config = |ip: Option<IpAddr>| {
            let mut config = without_hosts(base);
            match &self.host {
                Host::Tcp(name) => config.host(name),
                #[cfg(unix)]
                Host::Unix(folder) => config.host_path(folder),
            };

            if let Some(ip) = ip {
                config.hostaddr(ip);
            }

            config.port(self.port);
            config
        };

        let host_configs = match &self.location {
            #[cfg(unix)]
            Location::Socket => vec![make_config(None)],
            Location::Ip(ip) => vec![make_config(Some(*ip))],
            Location::Name(look_up) => match look_up.wait(until)? {
                Some(addresses) => addresses
                    .iter()
                    .map(|address| make_config(Some(address.ip())))
                    .collect(),
                None => return Ok(None),
            },
        };

        Ok(Some(host_configs))
    }
}

/// Returns the configuration without the hosts.
fn without_hosts(base: &Config) -> Config {
    let mut config = Config::new();
    config
        .ssl_mode(base.get_ssl_mode())
        .ssl_negotiation(base.get_ssl_negotiation())
        .keepalives(base.get_keepalives())
        .keepalives_idle(base.get_keepalives_idle())
        .target_session_attrs(base.get_target_session_attrs())
        .channel_binding(base.get_channel_binding());
    if let Some(user) = base.get_user() {
        config.user(user);
    }

    if let Some(password) = base.get_password() {
        config.password(password);
    }

    if let Some(name) = base.get_dbname() {
        config.dbname(name);
    }

    if let Some(options) = base.get_options() {
        config.options(options);
    }

    if let Some(name) = base.get_application_name() {
        config.application_name(name);
    }

    if let Some(time) = base.get_tcp_user_timeout() {
        config.tcp_user_timeout(*time);
    }

    if let Some(time) = base.get_keepalives_interval() {
        config.keepalives_interval(time);
    }

    if let Some(count) = base.get_keepalives_retries() {
        config.keepalives_retries(count);
    }

    config
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc;

    use super::*;

    /// A hanging lookup takes a quarter of it. The remainder is enough for a thread to end.
    const LIMIT: Duration = Duration::from_secs(12);

    fn read(text: &str) -> Config {
        text.parse().unwrap()
    }

    /// Returns the addresses that `connect_first` tries when no server accepts, and the time for
    /// each; `callback` is called each time.
    fn tried(base: &str, mut callback: impl FnMut()) -> Vec<(String, Duration)> {
        let attempts = RefCell::<Vec<(String, Duration)>>::default();
        let callback = RefCell::new(&mut callback);
        let outcome = connect_first::<()>(&read(base), LIMIT, |config, share| {
            let address = match (config.get_hosts(), config.get_hostaddrs()) {
                ([Host::Tcp(name)], [ip]) => format!("{name} {ip}"),
                #[cfg(unix)]
                ([Host::Unix(folder)], []) => folder.display().to_string(),
                other => panic!("{other:?}"),
            };

            let address = format!("{address} {:?}", config.get_ports());
            attempts.borrow_mut().push((address, share));
            callback.borrow_mut()();
            Err(Failure::Lost(Error::new(ErrorKind::Connect, "no")))
        });

        assert!(outcome.is_err());
        attempts.into_inner()
    }

    #[test]
    fn configs_keep_every_setting() {
        let base = read(
            "host=a.test hostaddr=10.0.0.1 port=99 user=u password=p dbname=d options=-cx=y \
             application_name=n sslmode=require sslnegotiation=direct tcp_user_timeout=3 \
             keepalives=0 keepalives_idle=4 keepalives_interval=5 keepalives_retries=6 \
             target_session_attrs=read-write channel_binding=disable",
        );
        let hosts = host_entries(&base);
        let configs = hosts[0].configs(&base, Instant::now()).unwrap().unwrap();
        assert!(hosts.len() == 1 && configs == [base]);
    }

    #[cfg(unix)]
    #[test]
    fn hosts_are_tried_in_order_and_share_the_time() {
        let attempts = tried("host=127.0.0.1,/run/a,::1 port=1,2,3 user=u", || {});
        let places: Vec<_> = attempts.iter().map(|(at, _)| &**at).collect();
        assert_eq!(
            places,
            ["127.0.0.1 127.0.0.1 [1]", "/run/a [2]", "::1 ::1 [3]"]
        );
        for ((_, share), others) in attempts.iter().zip([3, 2, 1]) {
            assert!(*share <= LIMIT / others);
        }
    }

    #[test]
    fn addresses_are_used_without_a_lookup() {
        let attempts = tried(
            "hostaddr=10.0.0.1,10.0.0.2 port=7 connect_timeout=1 user=u",
            || {},
        );
        let places: Vec<_> = attempts.iter().map(|(at, _)| &**at).collect();
        assert_eq!(places, ["10.0.0.1 10.0.0.1 [7]", "10.0.0.2 10.0.0.2 [7]"]);
        assert!(
            attempts
                .iter()
                .all(|(_, share)| *share <= Duration::from_secs(1))
        );
    }

    #[test]
    fn host_with_a_hanging_lookup_is_tried_last() {
        let (sender, receiver) = mpsc::channel::<()>();
        let _hanging = Lookup::begin_with("hosts.test", move |_| {
            let _ = receiver.recv();
            Ok([[10, 0, 0, 1], [10, 0, 0, 2]]
                .map(|ip| (ip, 0).into())
                .into())
        });

        let mut sender = Some(sender);
        let attempts = tried("host=hosts.test,127.0.0.1 user=u", || sender = None);
        let places: Vec<_> = attempts.iter().map(|(at, _)| &**at).collect();
        let late_places = ["hosts.test 10.0.0.1 [5432]", "hosts.test 10.0.0.2 [5432]"];
        assert_eq!(
            places,
            ["127.0.0.1 127.0.0.1 [5432]", late_places[0], late_places[1]]
        );
        assert!(attempts[0].1 <= LIMIT / 2);
    }
}
