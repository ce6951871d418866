//! Stores on the real servers that environment variables name.
//!
//! * `AGENTCORE_TEST_POSTGRES`, such as `postgres://agent@127.0.0.1:5432/agent`.
//! * `AGENTCORE_TEST_REDIS`, such as `redis://127.0.0.1:6379`.
//!
//! Without its variable, a test prints that it is skipped, and passes. Each test stores its data
//! under a prefix of its own and removes it. `.ci/services` starts both servers where Debian's
//! packages can be installed.

#[cfg(feature = "postgres")]
mod database;
#[cfg(feature = "postgres")]
mod database_damage;
#[cfg(feature = "redis")]
mod disk;
mod fake;
#[cfg(feature = "redis")]
mod hostile;
#[cfg(feature = "postgres")]
mod hostile_postgres;
#[cfg(feature = "postgres")]
mod hosts;
#[cfg(feature = "redis")]
mod keys;
mod machines;
mod own;
mod proxy;
mod real;
mod restarts;
#[cfg(feature = "tls")]
mod tls;

pub use real::{Real, is_there};

/// A store itself, in place of [`Real`].
pub type Plain<S> = S;

/// Makes a test of each function for each kind of server, in a module that is named after the
/// server. The function is called with the store as its type parameter, or with a type that wraps
/// it.
macro_rules! for_each_server {
    ($($test:ident),* $(,)?) => {
        crate::session_stores::servers::for_each_server!(Plain: $($test),*);
    };
    ($of:ident: $($test:ident),* $(,)?) => {
        #[cfg(feature = "postgres")]
        mod real_postgres {
            $(#[tokio::test]
            async fn $test() {
                type Kind = agentcore::session::PostgresStore;
                if crate::session_stores::servers::is_there::<Kind>() {
                    super::$test::<crate::session_stores::servers::$of<Kind>>().await;
                }
            })*
        }

        #[cfg(feature = "redis")]
        mod real_redis {
            $(#[tokio::test]
            async fn $test() {
                type Kind = agentcore::session::RedisStore;
                if crate::session_stores::servers::is_there::<Kind>() {
                    super::$test::<crate::session_stores::servers::$of<Kind>>().await;
                }
            })*
        }
    };
}
pub(super) use for_each_server;
