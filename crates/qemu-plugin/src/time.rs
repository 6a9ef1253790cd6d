//! The guest's time, for samples.
//!
//! A plugin cannot read the guest's clock. Programs tell it now and then (see [`crate::hypercall`]);
//! in between, the host's clock is added. Times given out never go back.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Host's clock to guest's CLOCK_MONOTONIC.
pub struct GuestTime {
    /// Guest's ns at a moment of the host, as last told.
    told: Mutex<Option<(u64, Instant)>>,
    /// Latest that was given out.
    latest: AtomicU64,
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
        *self.told.lock().unwrap_or_else(|e| e.into_inner()) = Some((guest_ns, host));
    }

    /// The guest's clock, ns; 0 before the first reading.
    pub fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    fn at(&self, host: Instant) -> u64 {
        let told = *self.told.lock().unwrap_or_else(|e| e.into_inner());
        let Some((guest_ns, then)) = told else { return 0 };
        let now = guest_ns + host.saturating_duration_since(then).as_nanos() as u64;
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
        // The guest's clock was behind what we thought.
        time.tell_at(1020, start + Duration::from_nanos(60));
        assert_eq!(time.at(start + Duration::from_nanos(60)), 1050);
        assert_eq!(time.at(start + Duration::from_nanos(100)), 1060);
    }
}
