//! Points in time as text.

const MS_PER_DAY: u64 = 86_400_000;

/// Returns a time in milliseconds since the Unix epoch as RFC 3339, in UTC.
pub(super) fn timestamp(ms: u64) -> String {
    // Years have four digits.
    let ms = ms.min(253_402_300_799_999);
    let (year, month, day) = date(ms / MS_PER_DAY);
    let ms_of_day = ms % MS_PER_DAY;
    let seconds = ms_of_day / 1_000;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let ms = ms_of_day % 1_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Returns the date of a day, counted from the Unix epoch, in the Gregorian calendar. Years begin
/// in March here, so that the leap day is the last of its year.
fn date(day: u64) -> (u64, u64, u64) {
    const DAYS_TO_EPOCH: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let shifted_day = day + DAYS_TO_EPOCH;
    let era = shifted_day / DAYS_PER_ERA;
    let era_day = shifted_day % DAYS_PER_ERA;
    let leap_days = era_day / 1_460 - era_day / 36_524 + era_day / 146_096;
    let era_year = (era_day - leap_days) / 365;
    let year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    let month = (5 * year_day + 2) / 153;
    let day = year_day - (153 * month + 2) / 5 + 1;
    let year = 400 * era + era_year;
    match month {
        0..=9 => (year, month + 3, day),
        _ => (year + 1, month - 9, day),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_the_date_of_their_day() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_795_651_200_123, "2026-11-26T00:00:00.123Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(timestamp(ms), text);
        }
    }
}
