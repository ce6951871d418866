//! The damaged parts of logs in PostgreSQL, which have an index.

use std::time::Duration;

use agentcore::SessionStore;
use agentcore::session::PostgresStore;
use futures::future::join_all;

use super::database::on;
use super::real::{Kind, Space, is_there};

fn number(space: &Space<PostgresStore>, sql: &str) -> i64 {
    let sql = sql.replace("{}", &space.prefix);
    on(&space.url, async |client| {
        client.query_one(&sql, &[]).await.unwrap().get(0)
    })
}

fn run(space: &Space<PostgresStore>, sql: &str) {
    let sql = sql.replace("{}", &space.prefix);
    on(&space.url, async |client| {
        client.batch_execute(&sql).await.unwrap();
    });
}

fn indexes(space: &Space<PostgresStore>) -> i64 {
    let sql = "select count(*) from pg_indexes where tablename = '{}_damaged'";
    number(space, sql)
}

/// Writes a log of the session `a` with this number of damaged parts.
fn put_parts(space: &Space<PostgresStore>, count: usize) {
    let log = [&b"x\n\n".repeat(count - 1)[..], b"x\n"].concat();
    PostgresStore::put(&space.url, &space.prefix, "a", &log);
}

/// Removes the index, which an older version did not create.
fn remove_index(space: &Space<PostgresStore>) {
    run(space, "drop index {}_damaged_of");
    assert_eq!(indexes(space), 0);
}

#[tokio::test]
async fn real_postgres_looks_at_damaged_parts_of_one_session_only() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    space.store().list().await.unwrap();
    let others = "insert into {}_damaged (session, at, what, bytes)
        select 'other' || number % 20, number, 'damaged', 'x' from generate_series(1, 20000) number";
    run(&space, others);
    put_parts(&space, 1_000);
    let store = space.store();
    drop(store.lease("a").await.unwrap());
    let aside = PostgresStore::aside(&space.url, &space.prefix, "a");
    assert_eq!(aside.len(), 1_000);
    assert!(aside.is_sorted_by_key(|(offset, _)| *offset));
    assert!(store.delete("a").await.unwrap());
    drop(store);

    // The server adds the counts of a connection to its statistics when the connection is closed.
    let of = "from pg_stat_user_tables where relname = '{}_damaged'";
    for _ in 0..3_000 {
        if number(&space, &format!("select n_tup_ins + n_tup_del {of}")) >= 22_000 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let rows = format!("select seq_tup_read + coalesce(idx_tup_fetch, 0) {of}");
    // The test itself has read all rows once.
    let rows = number(&space, &rows);
    assert!(rows < 50_000, "{rows} rows for 1,000 parts");
}

#[tokio::test]
async fn real_postgres_indexes_the_tables_of_an_older_version() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    put_parts(&space, 3);
    remove_index(&space);
    let stores = [(); 4].map(|()| space.store());
    for listed in join_all(stores.iter().map(|store| store.list())).await {
        assert_eq!(listed.unwrap().len(), 1);
    }
    assert_eq!(indexes(&space), 1);
}

#[tokio::test]
async fn real_postgres_sets_parts_aside_for_a_user_who_may_not_make_the_index() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    let sql = "select count(*) from pg_roles
        where rolname = current_user and (rolsuper or rolcreaterole)";
    if number(&space, sql) == 0 {
        return;
    }
    let setup = "create role {}_user login password 'secret';
        grant select, insert, update, delete on {}_sessions, {}_log, {}_damaged, {}_schema
        to {}_user";
    put_parts(&space, 100);
    remove_index(&space);
    run(&space, setup);
    let (_, place) = space.url.split_once("://").unwrap();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let url = format!("postgres://{}_user:secret@{place}", space.prefix);
    let store = <PostgresStore as Kind>::open(&url, space.options()).unwrap();
    for _ in 0..2 {
        drop(store.lease("a").await.unwrap());
        let aside = PostgresStore::aside(&space.url, &space.prefix, "a");
        assert_eq!(aside.len(), 100);
        assert_eq!(indexes(&space), 0);
        put_parts(&space, 100);
        remove_index(&space);
    }
    assert!(store.delete("a").await.unwrap());
    drop(store);
    run(&space, "drop owned by {}_user; drop role {}_user");
}
