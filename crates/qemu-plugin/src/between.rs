//! What a vCPU does where accesses are counted in windows only, and between them.

use crate::vcpu::{LAST_USER, Vcpu, guarded};
use crate::windows::Detail;

impl Vcpu {
    /// What has to be done after an access that is not looked up.
    #[cold]
    #[inline(never)]
    pub(crate) fn passed(&mut self, info: u32, address: u64) {
        guarded(self, |vcpu| {
            // Whose page it is, and in which frame, is known from its first use.
            if std::mem::take(&mut vcpu.faulted) && address <= LAST_USER {
                vcpu.translate(info, address, true);
            }
            if vcpu.patience <= 0 {
                vcpu.attend();
                vcpu.settle();
            }
        });
    }

    /// Another span has begun, in which accesses are counted, or no more.
    #[cold]
    pub(crate) fn follow_windows(&mut self, clock_ns: f64) {
        let Some(windows) = &self.plugin.windows else { return };
        let span = windows.at(clock_ns);
        self.plugin.epochs.edge(span.begin_ns);
        self.end_epoch(clock_ns);
        let Some(seat) = &mut self.seat else { return };
        match (seat.span.detail, span.detail) {
            (Detail::Counted, Detail::Counted) => {}
            (_, Detail::Counted) => seat.speed.begin(&seat.core),
            (Detail::Counted, _) => seat.speed.end(&seat.core),
            _ => {}
        }
        seat.span = span;
        self.look();
    }

    /// Looks accesses up from here on, or no more.
    pub(crate) fn look(&mut self) {
        let looks = self.seat.as_ref().is_some_and(|seat| seat.span.detail != Detail::Skipped);
        self.looking = self.counting && looks;
    }
}
