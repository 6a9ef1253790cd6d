//! The guest's time, for samples.
//!
//! A plugin cannot read the guest's clock. Programs tell it now and then (see [`crate::hypercall`]);
//! in between, the host's clock is added. A message can be late, never early: a thread that is not run between
//! reading the clock and telling it tells of a moment that is long over. So of the messages of a while the one counts
//! by which it is latest. Times given out never go back.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the message that counts does so at least, and twice that at most: clocks drift. // chosen
const WHILE: Duration = Duration::from_secs(1);

/// Host's clock to guest's CLOCK_MONOTONIC.
pub struct GuestTime {
    told: Mutex<Option<Told>>,
    /// Latest that was given out.
    latest: AtomicU64,
}

/// What messages say: a moment of the host, and the guest's ns then.
#[derive(Clone, Copy)]
struct Told {
    host: Instant,
    /// By the best message of this while, and of the one before.
    guest_ns: i64,
    before_ns: i64,
    /// When this while began.
    since: Instant,
}

impl Told {
    /// The guest's ns at `host`, which may be before the first message.
    fn elapsed_ns(&self, host: Instant) -> i64 {
        match host.checked_duration_since(self.host) {
            Some(after) => after.as_nanos() as i64,
            None => -(self.host.duration_since(host).as_nanos() as i64),
        }
    }
}

impl GuestTime {
    /// Nothing is known.
    pub const fn new() -> GuestTime {
        GuestTime { told: Mutex::new(None), latest: AtomicU64::new(0) }
    }

    /// The guest's clock is `guest_ns` now.
    pub fn tell(&self, guest_ns: u64) {
        self.tell_at(guest_ns, Instant::now());
    }

    fn tell_at(&self, guest_ns: u64, host: Instant) {
        let mut told = self.told.lock().unwrap_or_else(|e| e.into_inner());
        let told = told.get_or_insert(Told {
            host,
            guest_ns: guest_ns as i64,
            before_ns: guest_ns as i64,
            since: host,
        });
        let at_first = guest_ns as i64 - told.elapsed_ns(host);
        if host.saturating_duration_since(told.since) < WHILE {
            told.guest_ns = told.guest_ns.max(at_first);
        } else {
            (told.before_ns, told.guest_ns, told.since) = (told.guest_ns, at_first, host);
        }
    }

    /// The guest's clock, ns; 0 before the first reading.
    pub fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    fn at(&self, host: Instant) -> u64 {
        let told = *self.told.lock().unwrap_or_else(|e| e.into_inner());
        let Some(told) = told else { return 0 };
        let now = (told.guest_ns.max(told.before_ns) + told.elapsed_ns(host)).max(0) as u64;
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_goes_on_between_messages_and_never_back() {
        let time = GuestTime::new();
        let start = Instant::now();
        assert_eq!(time.at(start), 0);
        time.tell_at(1000, start);
        assert_eq!(time.at(start + Duration::from_nanos(50)), 1050);
        // Late: it was read 40 ns ago.
        time.tell_at(1020, start + Duration::from_nanos(60));
        assert_eq!(time.at(start + Duration::from_nanos(60)), 1060);
        // The guest's clock is ahead of what was thought.
        time.tell_at(1200, start + Duration::from_nanos(70));
        assert_eq!(time.at(start + Duration::from_nanos(100)), 1230);
    }

    #[test]
    fn a_clock_that_is_slower_is_followed() {
        let time = GuestTime::new();
        let start = Instant::now();
        for tenth in 0..=50 {
            // One of a hundred slower.
            time.tell_at(tenth * 99_000_000, start + Duration::from_millis(100 * tenth));
        }
        let ahead = time.at(start + Duration::from_secs(5)) - 50 * 99_000_000;
        assert!(ahead <= 20_000_000, "{ahead} ns ahead");
    }
}
