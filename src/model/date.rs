//! Dates of the calendar.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

const SECONDS_A_DAY: i64 = 86_400;

/// A day of the Gregorian calendar, from `0001-01-01` to `9999-12-31`.
///
/// It is read and written as `YYYY-MM-DD`, and in JSON as a string of that form.
///
/// ```
/// use agentcore::model::Date;
///
/// let announced: Date = "2026-11-30".parse()?;
/// assert_eq!(Some(announced), Date::new(2026, 11, 30));
/// assert_eq!(announced.days_until("2027-01-01".parse()?), 32);
/// assert!(Date::new(2026, 2, 29).is_none());
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// Creates the date of a year, a month from 1 and a day from 1; `None` if the calendar has no
    /// such day.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let exists = (1..=9999).contains(&year) && (1..=month_len(year, month)).contains(&day);
        exists.then_some(Self { year, month, day })
    }

    /// Returns the number of days from this date to `other`; negative if `other` is earlier.
    pub fn days_until(self, other: Self) -> i64 {
        other.day_number() - self.day_number()
    }

    /// Returns the number of days since 1970-01-01.
    fn day_number(self) -> i64 {
        // Years that start in March have the leap day at their end.
        let is_early = self.month <= 2;
        let year = i64::from(self.year) - i64::from(is_early);
        let month = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
    }

    /// Creates the date with this number of days since 1970-01-01, which is in the calendar.
    fn from_day_number(number: i64) -> Option<Self> {
        // Days count from 0000-03-01 here, and an era has 400 years.
        let (day, days_an_era) = (number + 719_468, 146_097);
        let day_of_era = day.rem_euclid(days_an_era);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let year = day.div_euclid(days_an_era) * 400 + year_of_era + i64::from(month <= 2);
        Self::new(
            u16::try_from(year).ok()?,
            u8::try_from(month).ok()?,
            u8::try_from(day_of_month).ok()?,
        )
    }
}

/// Returns the number of days of a month; 0 if the year has no such month.
fn month_len(year: u16, month: u8) -> u8 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => 0,
    }
}

/// The date in UTC; a time outside of the calendar is its first or its last day.
impl From<SystemTime> for Date {
    fn from(time: SystemTime) -> Self {
        let seconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            Err(error) => {
                let before = error.duration();
                let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                -seconds - i64::from(before.subsec_nanos() > 0)
            }
        };
        let (first, last) = (
            Self {
                year: 1,
                month: 1,
                day: 1,
            },
            Self {
                year: 9999,
                month: 12,
                day: 31,
            },
        );
        let number = seconds
            .div_euclid(SECONDS_A_DAY)
            .clamp(first.day_number(), last.day_number());
        Self::from_day_number(number).unwrap_or(last)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Date {
    type Err = Error;

    /// Reads `YYYY-MM-DD`; anything else is [`ErrorKind::Config`].
    fn from_str(text: &str) -> Result<Self, Error> {
        let has_shape = text.len() == 10
            && text.bytes().enumerate().all(|(i, byte)| match i {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        let date = has_shape.then(|| {
            let number = |part: &str| part.parse::<u16>().ok();
            let month = u8::try_from(number(&text[5..7])?).ok()?;
            let day = u8::try_from(number(&text[8..])?).ok()?;
            Self::new(number(&text[..4])?, month, day)
        });

        date.flatten().ok_or_else(|| {
            let text = format!("{text:?} is not a date of the calendar; write it as YYYY-MM-DD");
            Error::new(ErrorKind::Config, text)
        })
    }
}

impl TryFrom<String> for Date {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}
