//! The clock and the calendar of a time zone.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

use crate::error::{Error, ErrorKind, Result};
use crate::util::text::quoted;
use crate::util::zone::system_zone;

type Clock = dyn Fn() -> SystemTime + Send + Sync;

/// The clock and the calendar of a time zone.
#[derive(Clone)]
pub(crate) struct LocalClock {
    clock: Arc<Clock>,
    /// `None` for the zone of the system, which may change.
    zone: Option<TimeZone>,
}

impl LocalClock {
    /// Creates the clock of the system, in its time zone.
    pub(crate) fn system() -> Self {
        Self {
            clock: Arc::new(SystemTime::now),
            zone: None,
        }
    }

    /// Sets the function that returns the time.
    pub(crate) fn with_clock(mut self, clock: Arc<Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the time zone by its IANA name.
    pub(crate) fn with_zone(mut self, name: &str) -> Result<Self> {
        let zone = TimeZone::get(name);
        let error = |_| {
            Error::new(
                ErrorKind::Config,
                format!(
                    "unknown time zone {}; use an IANA name such as \"Europe/Paris\"",
                    quoted(name)
                ),
            )
        };
        self.zone = Some(zone.map_err(error)?);
        Ok(self)
    }

    /// Returns the date of today.
    pub(super) fn today(&self) -> Result<Date> {
        Ok(self.time()?.date())
    }

    /// Returns the local time, for the model: `2026-02-01 09:00 (Sunday)`.
    #[cfg(feature = "yaml")]
    pub(crate) fn now(&self) -> Result<String> {
        Ok(self.time()?.strftime("%Y-%m-%d %H:%M (%A)").to_string())
    }

    /// Returns the local time for logs: `2026-02-01 09:00:00`.
    #[cfg(feature = "gateway")]
    pub(crate) fn stamp(&self) -> Result<String> {
        Ok(self.time()?.strftime("%Y-%m-%d %H:%M:%S").to_string())
    }

    /// Returns the time in UTC: `2026-02-01T09:00:00Z`.
    #[cfg(feature = "gateway")]
    pub(crate) fn utc(&self) -> Result<String> {
        let time = self.time()?.with_time_zone(TimeZone::UTC);
        Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }

    fn time(&self) -> Result<Zoned> {
        let error = |_| Error::new(ErrorKind::Other, "the clock is outside the calendar");
        let now = Timestamp::try_from((self.clock)()).map_err(error)?;
        let zone = self.zone.clone().unwrap_or_else(system_zone);
        Ok(now.to_zoned(zone))
    }

    /// Today and the days before it, `count` in all, the newest first.
    pub(super) fn newest_days(&self, count: u32) -> Result<Vec<Date>> {
        let today = self.today()?;
        let days = (0..count).map_while(|age| today.checked_sub(i64::from(age).days()).ok());
        Ok(days.collect())
    }
}

impl fmt::Debug for LocalClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalClock")
            .field("zone", &self.zone)
            .finish_non_exhaustive()
    }
}
