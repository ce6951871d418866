//! Texts of hooks for models and people, compared with files in `tests/data/hooks/`.
//!
//! `UPDATE_HOOK_TEXTS=1` writes the files.

use std::fs;
use std::path::Path;

/// Compares `text` with the file of this name.
#[track_caller]
pub fn assert_text(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/hooks")
        .join(name);
    if std::env::var_os("UPDATE_HOOK_TEXTS").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }

    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, expected,
        "{name} differs; if it should, run with UPDATE_HOOK_TEXTS=1"
    );
}
