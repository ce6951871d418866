//! The time zone of the system.

use std::ffi::OsStr;
use std::fs;

use jiff::tz::TimeZone;

/// The maximum size of a file that `TZ` names, in bytes. The files of the IANA database have less
/// than 4 KiB.
const MAX_ZONE_FILE: u64 = 1024 * 1024;

/// Returns the time zone of the system, or UTC if the variable `TZ` names a file that cannot be one
/// of a time zone, such as `/dev/zero`, which has no end.
pub(crate) fn system_zone() -> TimeZone {
    match std::env::var_os("TZ") {
        Some(name) if names_other_file(&name) => TimeZone::UTC,
        _ => TimeZone::system(),
    }
}

/// Returns `true` if the value of `TZ` is the path of a device, a pipe or a large file.
fn names_other_file(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let path = name.strip_prefix(':').unwrap_or(&name);
    fs::metadata(path).is_ok_and(|file| {
        let is_large = file.is_file() && file.len() > MAX_ZONE_FILE;
        is_large || !file.is_file() && !file.is_dir()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_not_one_of_a_time_zone_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).into_os_string();
        fs::write(path("zone"), b"TZif2").unwrap();
        let large_file = fs::File::create(path("large")).unwrap();
        large_file.set_len(MAX_ZONE_FILE + 1).unwrap();
        for (name, is_other) in [
            (path("zone"), false),
            (path("large"), true),
            (path("missing"), false),
            (path(""), false),
            ("Europe/Berlin".into(), false),
            ("".into(), false),
        ] {
            assert_eq!(names_other_file(&name), is_other, "{name:?}");
        }

        #[cfg(unix)]
        assert!(names_other_file(OsStr::new(":/dev/zero")));
    }
}
