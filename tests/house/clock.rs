//! The files that read the wall clock.

use super::assert_none;
use super::tree::sources;

/// The files that need the date, and the reasons. Code that waits or measures uses the monotonic
/// clock: neither a change of the wall clock nor the suspension of the machine may end a time limit
/// early.
const DATED: &[(&str, &str)] = &[
    ("src/engine/model_lifecycle.rs", "models end at a date"),
    ("src/backend/local/sweep.rs", "files have dates"),
    ("src/hooks/result_mover.rs", "files have dates"),
    (
        "src/providers/anthropic/container.rs",
        "containers of servers end at a date",
    ),
    (
        "src/providers/status/errors.rs",
        "`retry-after` may be a date",
    ),
    ("src/prompt/local_clock.rs", "notes have dates"),
    ("src/session/log/clock.rs", "records have dates"),
    (
        "src/session/session_store.rs",
        "the example of a store has dates",
    ),
    (
        "src/session/memory/threads.rs",
        "lists of sessions have dates",
    ),
    ("src/server/routes/clients.rs", "questions expire at a date"),
    ("src/server/routes/launch.rs", "traces have dates"),
    ("src/tools/datetime.rs", "it tells the date"),
    (
        "src/util/time.rs",
        "questions have dates, and messages that answer them",
    ),
];

#[test]
fn n28_wall_clock_is_read_in_listed_files_only() {
    let reads = |text: &str| text.contains("SystemTime::now") || text.contains("Utc::now");
    let mut violations = Vec::new();
    for file in sources() {
        let dated = DATED.iter().any(|(path, _)| *path == file.path);
        if dated != reads(&file.text) {
            violations.push(file.path);
        }
    }

    assert_none(
        &violations,
        "these read the wall clock and are not on the list, or the other way round",
    );
}
