//! Where on which object an address is.

use super::context::Context;
use super::nodes::NodeIndex;
use super::spent::{NO_PART, PARTS, Spot};
use nearfar_recording::NONE;

impl Context<'_> {
    /// Where an address of an object is; `exact`: whether the address is known, and not only the object.
    pub fn spot(&self, thing: u32, address: u64, exact: bool, page_node: NodeIndex) -> Spot {
        let row = self.rows.of_thing[thing as usize];
        let about = &self.rows.rows[row as usize];
        if about.has_several() || about.is_area() {
            return Spot { row, thing: NONE, part: NO_PART, page_node };
        }
        let object = self.finder.spaces.things.get(thing);
        let part = if exact { part(object.address, object.bytes, address) } else { NO_PART };
        Spot { row, thing, part, page_node }
    }
}

/// Which part of an object of `bytes` at `base` an address is in.
fn part(base: u64, bytes: u64, address: u64) -> u8 {
    let offset = u128::from(address.saturating_sub(base));
    (offset * u128::from(PARTS) / u128::from(bytes.max(1))).min(u128::from(PARTS - 1)) as u8
}
