//! PostgreSQL: its tables, read and changed without the store.

use std::time::Duration;

use agentcore::session::DamageKind;
use agentcore::session::{PostgresStore, ServerOptions};
use agentcore::{Result, SessionStore};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

use super::real::{Kind, Space, is_there};
use crate::session_stores::places::said;

/// Runs `work` with a connection, on a thread that may block.
pub fn on<T: Send>(url: &str, work: impl AsyncFnOnce(&Client) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(async {
                let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
                let driver = tokio::spawn(driver);
                let output = work(&client).await;
                drop(client);
                let _ = driver.await;
                output
            })
        });

        working.join().unwrap()
    })
}

fn query(url: &str, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
    on(url, async |client| client.query(sql, values).await.unwrap())
}

fn execute(url: &str, sql: &str) -> u64 {
    on(url, async |client| client.execute(sql, &[]).await.unwrap())
}

const TABLES: [&str; 4] = ["sessions", "log", "damaged", "schema"];

impl Kind for PostgresStore {
    const VARIABLE: &str = "AGENTCORE_TEST_POSTGRES";
    const EXAMPLE: &str = "postgres://agent@127.0.0.1:5432/agent";
    const ASIDE: &str = "_damaged of PostgreSQL at";
    const SNAPSHOT_AFTER: usize = 1024 * 1024;

    fn open(url: &str, options: ServerOptions) -> Result<Self> {
        Self::with_options(url, options)
    }

    fn clear(url: &str, prefix: &str) {
        let drop = TABLES.map(|table| format!("drop table if exists {prefix}_{table};"));
        on(url, async |client| {
            client.batch_execute(&drop.concat()).await.unwrap();
        });
    }

    fn count(url: &str, prefix: &str) -> usize {
        query(url, &format!("select from {prefix}_sessions"), &[]).len()
    }

    fn log(url: &str, prefix: &str, id: &str) -> Vec<u8> {
        let sql = format!("select bytes from {prefix}_log where session = $1 order by at");
        let rows = query(url, &sql, &[&id]);
        let rows: Vec<Vec<u8>> = rows.iter().map(|row| row.get(0)).collect();
        rows.concat()
    }

    /// Splits the bytes at arbitrary offsets.
    fn put(url: &str, prefix: &str, id: &str, bytes: &[u8]) {
        let store = Self::with_options(url, ServerOptions::default().prefix(prefix)).unwrap();

        // The first access creates the tables.
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| futures::executor::block_on(store.list()));
            looking.join().unwrap().unwrap();
        });

        let size = i64::try_from(bytes.len()).unwrap();
        let sql = format!(
            "insert into {prefix}_sessions (id, size) values ($1, $2)
             on conflict (id) do update set size = excluded.size"
        );
        query(url, &sql, &[&id, &size]);
        query(
            url,
            &format!("delete from {prefix}_log where session = $1"),
            &[&id],
        );
        let (mut at, mut parts) = (Vec::new(), Vec::new());
        for (row, part) in bytes.chunks(97).enumerate() {
            at.push(i64::try_from(row * 97).unwrap());
            parts.push(part);
        }

        let sql = format!(
            "insert into {prefix}_log (session, at, bytes)
             select $1, * from unnest($2::bigint[], $3::bytea[])"
        );
        query(url, &sql, &[&id, &at, &parts]);
    }

    fn aside(url: &str, prefix: &str, id: &str) -> Vec<(u64, Vec<u8>)> {
        let sql =
            format!("select at, bytes from {prefix}_damaged where session = $1 order by ctid");
        let rows = query(url, &sql, &[&id]);
        let rows = rows
            .iter()
            .map(|row| (row.get::<_, i64>(0).unsigned_abs(), row.get(1)));
        rows.collect()
    }

    fn forget_aside(url: &str, prefix: &str, id: &str) {
        query(
            url,
            &format!("delete from {prefix}_damaged where session = $1"),
            &[&id],
        );
    }

    fn expire(url: &str, prefix: &str, id: &str) {
        let sql =
            format!("update {prefix}_sessions set until = now() - interval '1 s' where id = $1");
        query(url, &sql, &[&id]);
    }

    fn make_newer(url: &str, prefix: &str) {
        query(url, &format!("update {prefix}_schema set version = 2"), &[]);
    }
}

#[tokio::test]
async fn real_postgres_reports_missing_rows_as_damage() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    for (gone, kept) in [(0, ["b", "c"]), (1, ["a", "c"]), (2, ["a", "b"])] {
        let (store, id) = (space.store(), gone.to_string());
        let lease = store.lease(&id).await.unwrap();
        for text in ["a", "b", "c"] {
            let records = vec![said(text)];
            store.append(&lease, records).await.unwrap();
        }

        drop(lease);
        let sql = format!(
            "delete from {0}_log where ctid = (
                 select ctid from {0}_log where session = $1 order by at offset $2 limit 1)",
            space.prefix
        );
        query(&space.url, &sql, &[&id, &i64::from(gone)]);
        let read = space.store().load(&id).await.unwrap().unwrap();
        assert_eq!(read.damage[0].kind, DamageKind::Corrupt, "{gone}");
        let listed = store.list().await.unwrap();
        assert!(listed.iter().any(|info| *info.id == *id), "{gone}");
        let lease = store.lease(&id).await.unwrap();
        let session = store.load(&id).await.unwrap().unwrap();
        let texts: Vec<_> = session.state.messages.iter().map(|m| m.text()).collect();
        assert_eq!(texts, kept);
        assert_eq!(
            session.damage[0].kind,
            DamageKind::Corrupt,
            "{:?}",
            session.damage
        );
        let records = vec![said("d")];
        store.append(&lease, records).await.unwrap();
        drop(lease);
        let session = space.store().load(&id).await.unwrap().unwrap();
        assert_eq!(session.state.messages.len(), 3);
        assert!(session.damage.is_empty(), "{:?}", session.damage);
    }
}

/// The log is read and rewritten in several pieces.
#[tokio::test]
async fn real_postgres_cuts_a_long_log_with_a_missing_row() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    let store = space.store();
    let lease = store.lease("a").await.unwrap();
    let text = |number: usize| number.to_string().repeat(700_000);
    for number in 0..6 {
        let records = vec![said(&text(number))];
        store.append(&lease, records).await.unwrap();
    }

    drop(lease);
    let (log, sessions) = (
        format!("{}_log", space.prefix),
        format!("{}_sessions", space.prefix),
    );
    let sql = format!("delete from {log} where session = 'a' and at between 1500000 and 1560000");
    assert_eq!(execute(&space.url, &sql), 1);
    let torn = "{\"crc\":\"0";
    let sql = format!("insert into {log} select 'a', size, $1 from {sessions}");
    query(&space.url, &sql, &[&torn.as_bytes()]);
    execute(
        &space.url,
        &format!("update {sessions} set size = size + 9"),
    );

    let lease = store.lease("a").await.unwrap();
    let rows = format!("select max(length(bytes)), count(*) from {log}");
    let rows = query(&space.url, &rows, &[]);
    assert_eq!(rows[0].get::<_, i32>(0), 64 * 1024);
    assert!(rows[0].get::<_, i64>(1) > 60);
    store.append(&lease, vec![said("more")]).await.unwrap();
    drop(lease);
    let session = space.store().load("a").await.unwrap().unwrap();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    let texts = session.state.messages.iter().map(|message| message.text());
    let expected = [0, 1, 3, 4, 5].map(text);
    assert!(texts.eq(expected.iter().map(String::as_str).chain(["more"])));
    let aside = PostgresStore::aside(&space.url, &space.prefix, "a");
    assert_eq!(aside.last().unwrap().1, torn.as_bytes());
}

/// One table is analyzed and the other is not, as after a large write, so that the planner's
/// estimates are wrong.
#[tokio::test]
async fn real_postgres_looks_for_the_end_of_a_log_once_not_for_each_row() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    space.store().list().await.unwrap();
    for sql in [
        "insert into {}_sessions (id, size) values ('a', 9700000)",
        "insert into {}_log select 'a', row * 97, convert_to(repeat('x', 97), 'UTF8')
         from generate_series(0, 99999) as row",
        "analyze {}_log",
    ] {
        execute(&space.url, &sql.replace("{}", &space.prefix));
    }

    space.store().list().await.unwrap();

    // The server adds the counts of a connection to its statistics when the connection is closed.
    let sql = format!(
        "select idx_scan from pg_stat_user_tables where relname = '{}_log'",
        space.prefix
    );
    let scans = loop {
        let scans: i64 = query(&space.url, &sql, &[])[0].get(0);
        if scans > 0 {
            break scans;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(scans < 1_000, "{scans} for 100,000 rows");
}

/// A list reads only the ends of logs, and continues to read where rows are missing.
#[tokio::test]
async fn real_postgres_lists_sessions_whose_rows_are_missing() {
    if !is_there::<PostgresStore>() {
        return;
    }

    let space = Space::<PostgresStore>::new();
    let store = space.store();
    let long = "long ".repeat(2_000);
    let texts = ["a", &long, &long, &long, "e"];

    // The end that is read is the whole short log, but a part of the long one.
    for (id, texts) in [("short", &["a", "b", "c"][..]), ("long", &texts[..])] {
        let lease = store.lease(id).await.unwrap();
        for text in texts {
            store.append(&lease, vec![said(text)]).await.unwrap();
        }

        drop(lease);
        let log = format!("{}_log", space.prefix);
        let copy = format!("create table {0}_kept as select * from {log}", space.prefix);
        query(&space.url, &copy, &[]);
        for gone in 0..texts.len() {
            let sql = format!(
                "delete from {log} where ctid = (
                     select ctid from {log} where session = $1 order by at offset $2 limit 1)"
            );
            query(&space.url, &sql, &[&id, &i64::try_from(gone).unwrap()]);
            let listed = store.list().await.unwrap();
            let info = listed.iter().find(|info| &*info.id == id).unwrap();
            assert_eq!(info.problem, None, "{id} {gone}");

            // The last record has the number of messages. Without it, the readable ones are
            // counted.
            let expected = if gone + 1 == texts.len() {
                gone
            } else {
                texts.len()
            };

            assert_eq!(info.messages, expected, "{id} {gone}");
            assert!(info.title.is_some() && info.size.is_some(), "{info:?}");
            let back = format!(
                "insert into {log} select * from {}_kept on conflict do nothing",
                space.prefix
            );
            query(&space.url, &back, &[]);
        }

        query(
            &space.url,
            &format!("delete from {log} where session = $1"),
            &[&id],
        );
        let listed = store.list().await.unwrap();
        let info = listed.iter().find(|info| &*info.id == id).unwrap();
        assert!(info.problem.is_some(), "{info:?}");
        query(
            &space.url,
            &format!("drop table {}_kept", space.prefix),
            &[],
        );
        assert!(store.delete(id).await.unwrap());
    }
}
