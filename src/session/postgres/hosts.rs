//! The hosts of an address, tried one after the other.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, LookUp, Outcome};

/// No host is given up sooner, unless all time is over.
const LEAST: Duration = Duration::from_millis(1);

/// A host of an address.
struct Place {
    /// The host name to verify, over TLS.
    host: Host,
    at: At,
    port: u16,
}

enum At {
    #[cfg(unix)]
    Socket,
    Ip(IpAddr),
    Name(Arc<LookUp>),
}

/// Connects to the first host that lets us in, in `timeout` for all of them: each has its share of
/// what is left, and a name that hangs keeps no other host waiting for more than a quarter.
pub(super) fn first<T>(
    base: &Config,
    timeout: Duration,
    connect: impl Fn(&Config, Duration) -> Outcome<T>,
) -> Outcome<T> {
    let mut places = places(base);
    let began = Instant::now();
    let mut failure = None;
    for limit in [timeout / 4, timeout] {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for place in places {
            match place.configs(base, began + limit) {
                Ok(Some(configs)) => known.extend(configs),
                Ok(None) => unknown.push(place),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if base.get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut known);
        }
        let count = u32::try_from(known.len() + unknown.len()).unwrap_or(u32::MAX);
        for (config, others) in known.iter().zip((1..=count).rev()) {
            let left = timeout.saturating_sub(began.elapsed());
            let own = base.get_connect_timeout().copied();
            let share = (left / others).min(own.unwrap_or(left)).max(LEAST);
            match connect(config, share) {
                Ok(made) => return Ok(made),
                Err(error) => failure = Some(error),
            }
        }
        places = unknown;
    }
    Err(failure.unwrap_or_else(|| {
        let text = format!("no name of a host was found within {timeout:?}");
        Failure::Lost(Error::new(ErrorKind::Timeout, text))
    }))
}

/// The addresses to try; the lookup of names starts here.
fn places(base: &Config) -> Vec<Place> {
    let (hosts, ips, ports) = (base.get_hosts(), base.get_hostaddrs(), base.get_ports());
    let place = |at: usize| {
        let ip = ips.get(at).copied();
        let host = match (hosts.get(at), ip) {
            (Some(host), _) => host.clone(),
            (None, ip) => Host::Tcp(ip?.to_string()),
        };
        let at_ip = |name: &str| ip.or_else(|| name.parse().ok()).map(At::Ip);
        Some(Place {
            at: match &host {
                Host::Tcp(name) => at_ip(name).unwrap_or_else(|| At::Name(LookUp::begin(name))),
                #[cfg(unix)]
                Host::Unix(_) => ip.map_or(At::Socket, At::Ip),
            },
            host,
            port: ports.get(at).or(ports.first()).copied().unwrap_or(5432),
        })
    };
    (0..hosts.len().max(ips.len())).filter_map(place).collect()
}

impl Place {
    /// The configuration for each of its addresses; `None` when they are not resolved in time.
    fn configs(&self, base: &Config, until: Instant) -> Outcome<Option<Vec<Config>>> {
        let one = |ip: Option<IpAddr>| {
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
        let found = match &self.at {
            #[cfg(unix)]
            At::Socket => vec![one(None)],
            At::Ip(ip) => vec![one(Some(*ip))],
            At::Name(look_up) => match look_up.wait(until)? {
                Some(found) => found
                    .iter()
                    .map(SocketAddr::ip)
                    .map(Some)
                    .map(one)
                    .collect(),
                None => return Ok(None),
            },
        };
        Ok(Some(found))
    }
}

/// The configuration without the hosts.
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

    const LIMIT: Duration = Duration::from_secs(2);

    fn read(text: &str) -> Config {
        text.parse().unwrap()
    }

    /// The addresses that `first` tries when no server accepts, and the time for each; `then` is
    /// called each time.
    fn tried(base: &str, mut then: impl FnMut()) -> Vec<(String, Duration)> {
        let tried = RefCell::<Vec<(String, Duration)>>::default();
        let then = RefCell::new(&mut then);
        let outcome = first::<()>(&read(base), LIMIT, |config, share| {
            let at = match (config.get_hosts(), config.get_hostaddrs()) {
                ([Host::Tcp(name)], [ip]) => format!("{name} {ip}"),
                #[cfg(unix)]
                ([Host::Unix(folder)], []) => folder.display().to_string(),
                other => panic!("{other:?}"),
            };
            let at = format!("{at} {:?}", config.get_ports());
            tried.borrow_mut().push((at, share));
            then.borrow_mut()();
            Err(Failure::Lost(Error::new(ErrorKind::Connect, "no")))
        });
        assert!(outcome.is_err());
        tried.into_inner()
    }

    #[test]
    fn every_setting_is_kept() {
        let base = read(
            "host=a.test hostaddr=10.0.0.1 port=99 user=u password=p dbname=d options=-cx=y \
             application_name=n sslmode=require sslnegotiation=direct tcp_user_timeout=3 \
             keepalives=0 keepalives_idle=4 keepalives_interval=5 keepalives_retries=6 \
             target_session_attrs=read-write channel_binding=disable",
        );
        let places = places(&base);
        let configs = places[0].configs(&base, Instant::now()).unwrap().unwrap();
        assert!(places.len() == 1 && configs == [base]);
    }

    #[cfg(unix)]
    #[test]
    fn hosts_are_tried_in_order_and_share_the_time() {
        let tried = tried("host=127.0.0.1,/run/a,::1 port=1,2,3 user=u", || {});
        let places: Vec<_> = tried.iter().map(|(at, _)| &**at).collect();
        assert_eq!(
            places,
            ["127.0.0.1 127.0.0.1 [1]", "/run/a [2]", "::1 ::1 [3]"]
        );
        for ((_, share), others) in tried.iter().zip([3, 2, 1]) {
            assert!(*share <= LIMIT / others);
        }
    }

    #[test]
    fn addresses_need_no_names() {
        let tried = tried(
            "hostaddr=10.0.0.1,10.0.0.2 port=7 connect_timeout=1 user=u",
            || {},
        );
        let places: Vec<_> = tried.iter().map(|(at, _)| &**at).collect();
        assert_eq!(places, ["10.0.0.1 10.0.0.1 [7]", "10.0.0.2 10.0.0.2 [7]"]);
        assert!(
            tried
                .iter()
                .all(|(_, share)| *share <= Duration::from_secs(1))
        );
    }

    #[test]
    fn a_name_that_hangs_comes_last() {
        let (tell, hear) = mpsc::channel::<()>();
        let _hanging = LookUp::begin_with("hosts.test", move |_| {
            let _ = hear.recv();
            Ok([[10, 0, 0, 1], [10, 0, 0, 2]]
                .map(|ip| (ip, 0).into())
                .into())
        });
        let mut tell = Some(tell);
        let tried = tried("host=hosts.test,127.0.0.1 user=u", || tell = None);
        let places: Vec<_> = tried.iter().map(|(at, _)| &**at).collect();
        let late = ["hosts.test 10.0.0.1 [5432]", "hosts.test 10.0.0.2 [5432]"];
        assert_eq!(places, ["127.0.0.1 127.0.0.1 [5432]", late[0], late[1]]);
        assert!(tried[0].1 <= LIMIT / 2);
    }
}
