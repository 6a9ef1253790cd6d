//! What QEMU keeps for us with each callback: one word, so that nothing has to be allocated or freed.

use crate::flops::TABLE;
use libc::c_void;

/// An instruction of a program that accesses memory.
///
/// ```text
/// bits 0–46 its address   47 chained   48–63 the number of what its execution tells of,
///                                            or how far before it its chain's first load is
/// ```
///
/// The number is that of [`flops::number`](crate::flops::number): up to 512, the most instructions of a block, or from
/// its `TABLE` on. Between them is what tells of nothing. Instructions are counted by one of the block's accesses where that is possible: a call of their own
/// for every block would be a quarter more calls in a loop such as the triad's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site(u64);

const ADDRESS: u64 = (1 << 47) - 1;
const CHAINED: u64 = 1 << 47;
const TOLD_AT: u32 = 48;
/// From here to [`flops::TABLE`](crate::flops::TABLE): this plus a distance in bytes.
pub const FOLLOWS: u16 = 1 << 14;

impl Site {
    /// The instruction at `address`, which tells of what has run; `chain`: address of the first load of its chain.
    pub fn new(address: u64, chain: Option<u64>, told: u16) -> Site {
        // One that tells, or is too far away, counts as a chain of its own.
        let distance = chain.map_or(0, |first| address.wrapping_sub(first));
        let told = match (told, u16::try_from(distance)) {
            (0, Ok(distance @ 1..FOLLOWS)) => FOLLOWS | distance,
            _ => told,
        };
        let chained = if chain.is_some() { CHAINED } else { 0 };
        Site(address & ADDRESS | chained | u64::from(told) << TOLD_AT)
    }

    /// Its address.
    pub fn address(self) -> u64 {
        self.0 & ADDRESS
    }

    /// Number of its chain; 0 if its address does not come from what it loaded before.
    pub fn chain(self) -> u32 {
        if self.0 & CHAINED == 0 {
            return 0;
        }
        let distance = match self.told() {
            told @ FOLLOWS..TABLE => told - FOLLOWS,
            _ => 0,
        };
        // The low half of the address tells instructions of a program apart; it is never 0 for long code.
        (self.0 as u32).wrapping_sub(distance.into()).max(1)
    }

    /// The number of what has run; nothing if it is 0, or from [`FOLLOWS`] on but below the table.
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
        for (address, chain, told) in
            [(0x7fff_ffff_ffff, Some(0x7fff_ffff_ffff), 0xffff), (0x401000, None, 0), (1, Some(1), 1)]
        {
            let site = Site::from_pointer(Site::new(address, chain, told).into_pointer());
            assert_eq!(site.address(), address);
            assert_eq!(site.chain(), if chain.is_some() { address as u32 } else { 0 });
            assert_eq!(site.told(), told);
        }
        // The third load of a chain, which tells of nothing.
        let third = Site::from_pointer(Site::new(0x401008, Some(0x401000), 0).into_pointer());
        assert_eq!((third.address(), third.chain()), (0x401008, 0x401000));
        assert!((FOLLOWS..TABLE).contains(&third.told()));
        // One that tells is a chain of its own.
        let teller = Site::new(0x401008, Some(0x401000), 7);
        assert_eq!((teller.chain(), teller.told()), (0x401008, 7));
    }
}
