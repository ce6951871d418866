//! Addresses of PostgreSQL servers, and the durability of writes.

use std::net::TcpListener;
use std::time::Duration;

use agentcore::session::{PostgresStore, ServerOptions};
use agentcore::{ErrorKind, SessionStore};

use super::database::on;
use super::own::{Own, Startable};
use super::real::{Kind, Space, is_there};
use crate::session_stores::places::said;

async fn is_used(url: &str, options: ServerOptions) {
    let store = PostgresStore::with_options(url, options).unwrap();
    let id = uuid::Uuid::new_v4().to_string();
    let lease = store.lease(&id).await.unwrap();
    store.append(&lease, vec![said("one")]).await.unwrap();
    drop(lease);
    let session = store.load(&id).await.unwrap().unwrap();
    assert_eq!(session.state.messages.len(), 1, "{url}");
    assert!(store.delete(&id).await.unwrap(), "{url}");
}

#[tokio::test]
async fn real_postgres_is_reached_by_socket_and_address() {
    let Some(server) = Own::start::<PostgresStore>() else {
        return;
    };

    let (folder, port) = (server.folder().display().to_string(), server.port());
    for url in [
        format!("host={folder} port={port} user=kit dbname=postgres"),
        format!(
            "postgres://kit@{}:{port}/postgres",
            folder.replace('/', "%2F")
        ),
        format!("hostaddr=127.0.0.1 port={port} user=kit dbname=postgres"),
        format!("host={folder},127.0.0.1 port={port} user=kit dbname=postgres"),
        format!("host=127.0.0.1 hostaddr=127.0.0.1 port={port} user=kit dbname=postgres"),
    ] {
        is_used(&url, ServerOptions::default()).await;
    }
}

#[tokio::test]
async fn real_postgres_is_found_after_a_standby() {
    let servers = [(); 2].map(|()| Own::start::<PostgresStore>());
    let [Some(standby), Some(primary)] = servers else {
        return;
    };

    let url = PostgresStore::url_at(standby.port());

    // A standby reports this setting.
    on(&url, async |client| {
        for sql in [
            "alter system set default_transaction_read_only = on",
            "select pg_reload_conf()",
        ] {
            client.execute(sql, &[]).await.unwrap();
        }

        let is_set = "show default_transaction_read_only";
        while client
            .query_one(is_set, &[])
            .await
            .unwrap()
            .get::<_, &str>(0)
            != "on"
        {}
    });

    let hasty = ServerOptions::default().max_retry_time(Duration::from_secs(1));
    for random in [
        "",
        "?load_balance_hosts=random",
        "?target_session_attrs=any",
    ] {
        let url = format!(
            "postgres://kit@127.0.0.1:{},127.0.0.1:{}/postgres{random}",
            standby.port(),
            primary.port()
        );
        is_used(&url, hasty.clone()).await;
    }

    let store = PostgresStore::with_options(&url, hasty).unwrap();
    let error = store.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert!(error.text().contains("does not allow writes"), "{error}");
}

#[tokio::test]
async fn real_postgres_is_found_after_a_host_that_hangs() {
    if !is_there::<PostgresStore>() {
        return;
    }
    // This host accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let space = Space::<PostgresStore>::new();
    let options = space.options().timeout(Duration::from_secs(1));
    let url = space.url.replace('@', &format!("@127.0.0.1:{port},"));
    is_used(&url, options).await;
}

/// A pooler may assign the server's connections to other clients after each transaction.
#[tokio::test]
async fn real_postgres_makes_each_write_durable() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    let (url, prefix, store) = (&space.url, &space.prefix, space.store());
    assert!(store.list().await.unwrap().is_empty());
    let watch = |table: &str, what: &str| {
        format!(
            "create constraint trigger see after {what} on {prefix}_{table}
             deferrable initially deferred for each row execute function {prefix}_see();"
        )
    };

    let run = |sql: String| {
        on(url, async |client| {
            client.batch_execute(&sql).await.unwrap();
        });
    };

    // The insert of a lease turns `synchronous_commit` off for the connection. Another trigger
    // records its value at the end of each transaction.
    run([
        format!(
            "create table {prefix}_seen (what text, how text);
             create function {prefix}_off() returns trigger language plpgsql as $$ begin
                 perform set_config('synchronous_commit', 'off', false); return null; end $$;
             create function {prefix}_see() returns trigger language plpgsql as $$ begin
                 insert into {prefix}_seen values
                     (tg_op || tg_table_name, current_setting('synchronous_commit'));
                 return null; end $$;
             create trigger off after insert on {prefix}_sessions
             for each row execute function {prefix}_off();"
        ),
        watch("log", "insert or delete"),
        watch("damaged", "insert or delete"),
    ]
    .concat());
    let settings = || {
        on(url, async |client| {
            let sql = format!("delete from {prefix}_seen returning what, how");
            let rows = client.query(&sql, &[]).await.unwrap();
            let rows = rows.iter().map(|row| (row.get(0), row.get(1)));
            let mut rows: Vec<(String, String)> = rows.collect();
            rows.sort();
            rows.dedup();
            rows
        })
    };

    let on_disk = |names: &[&str]| -> Vec<(String, String)> {
        let name = |name: &&str| (name.replace(' ', &format!("{prefix}_")), "on".to_owned());
        names.iter().map(name).collect()
    };

    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![said("one")]).await.unwrap();
    drop(lease);
    assert_eq!(settings(), on_disk(&["INSERT log"]));
    let torn = [&PostgresStore::log(url, prefix, "a")[..], b"torn"].concat();
    PostgresStore::put(url, prefix, "a", &torn);
    settings();
    drop(store.lease("a").await.unwrap());
    assert_eq!(
        settings(),
        on_disk(&["DELETE log", "INSERT damaged", "INSERT log"])
    );
    assert!(store.delete("a").await.unwrap());
    assert_eq!(settings(), on_disk(&["DELETE damaged", "DELETE log"]));
    run(format!(
        "drop function {prefix}_off, {prefix}_see cascade; drop table {prefix}_seen"
    ));
}
