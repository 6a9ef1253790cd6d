//! Ends the naps of throttled vCPUs.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Wakes throttled vCPUs: the guest kernel waits for all of them to acknowledge an interrupt, and a sleeping vCPU cannot.
#[derive(Debug, Default)]
pub struct Alarm {
    times: Mutex<u64>,
    rings: Condvar,
}

impl Alarm {
    /// How often it was raised.
    pub fn rings(&self) -> u64 {
        *self.times.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Wakes all.
    pub fn ring(&self) {
        *self.times.lock().unwrap_or_else(|e| e.into_inner()) += 1;
        self.rings.notify_all();
    }

    /// Waits for that long or until it was raised more often than `heard`; which of the two.
    pub fn wait(&self, longest: Duration, heard: u64) -> bool {
        let times = self.times.lock().unwrap_or_else(|e| e.into_inner());
        let waited = self.rings.wait_timeout_while(times, longest, |times| *times == heard);
        *waited.unwrap_or_else(|e| e.into_inner()).0 != heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_ends_naps_that_began_before() {
        let alarm = Alarm::default();
        let heard = alarm.rings();
        assert!(!alarm.wait(Duration::ZERO, heard), "nothing rang");
        std::thread::scope(|scope| {
            let napper = scope.spawn(|| alarm.wait(Duration::from_secs(600), heard));
            alarm.ring();
            assert!(napper.join().unwrap());
        });
        assert!(alarm.wait(Duration::from_secs(600), heard), "it was raised while no vCPU was throttled");
        assert!(!alarm.wait(Duration::ZERO, alarm.rings()));
    }
}
