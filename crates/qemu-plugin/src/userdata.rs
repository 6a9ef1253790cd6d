//! What QEMU keeps for us with each callback: one word, so that nothing has to be allocated or freed.

use libc::c_void;

/// An instruction of a program that accesses memory.
///
/// ```text
/// bits 0–46 its address   47 chained   48–63 the number of what its execution tells of
/// ```
///
/// The number is that of [`flops::number`](crate::flops::number). Instructions are told by one of the block's accesses where that is possible: a call of their own
/// for every block would be a quarter more calls in a loop such as the triad's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site(u64);

const ADDRESS: u64 = (1 << 47) - 1;
const CHAINED: u64 = 1 << 47;
const TOLD_AT: u32 = 48;

impl Site {
    /// The instruction at `address`, which tells of what has run.
    pub fn new(address: u64, chained: bool, told: u16) -> Site {
        let chained = if chained { CHAINED } else { 0 };
        Site(address & ADDRESS | chained | u64::from(told) << TOLD_AT)
    }

    /// Its address.
    pub fn address(self) -> u64 {
        self.0 & ADDRESS
    }

    /// Number of its chain; 0 if its address does not come from what it loaded before.
    pub fn chain(self) -> u32 {
        // The low half of the address tells instructions of a program apart; it is never 0 for long code.
        if self.0 & CHAINED != 0 { (self.0 as u32).max(1) } else { 0 }
    }

    /// The number of what has run; 0 for nothing.
    #[inline]
    pub fn told(self) -> u16 {
        (self.0 >> TOLD_AT) as u16
    }

    /// For QEMU.
    pub fn into_pointer(self) -> *mut c_void {
        self.0 as *mut c_void
    }

    /// From QEMU.
    #[inline]
    pub fn from_pointer(pointer: *mut c_void) -> Site {
        Site(pointer as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_come_back() {
        for (address, chained, told) in [(0x7fff_ffff_ffff, true, 0xffff), (0x401000, false, 0), (1, true, 1)]
        {
            let site = Site::from_pointer(Site::new(address, chained, told).into_pointer());
            assert_eq!(site.address(), address);
            assert_eq!(site.chain(), if chained { address as u32 } else { 0 });
            assert_eq!(site.told(), told);
        }
    }
}
