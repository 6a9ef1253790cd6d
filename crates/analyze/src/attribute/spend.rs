//! Where a sample of a clock says that time went.

use super::touches_memory;
use super::worker::Worker;
use crate::nodes::NodeIndex;
use crate::spent::Spot;
use nearfar_recording::{AccessSamples, NONE, Resolution};

impl Worker<'_> {
    /// Adds a sample of weight `[weight, block of time]`, in a loop of known speed or beside such loops. Threads go by their ids.
    pub(super) fn spend(
        &mut self,
        s: &AccessSamples,
        i: usize,
        [weight, block]: [u64; 2],
        loop_id: Option<u32>,
        thing: Option<u32>,
        page_node: NodeIndex,
    ) {
        let thread = s.thread[i];
        let sums = self.counters.spent.blocks.of((thread, block as u32));
        (sums[0], sums[1]) = (sums[0] + 1, sums[1] + weight);
        let page = self.context.excerpted.page(s.ip[i]);
        if page != NONE {
            *self.counters.spent.pages.of(page) += weight;
        }
        let resolution = Resolution::from_code(s.resolution[i]).unwrap_or(Resolution::Unresolved);
        if let Some(loop_id) = loop_id {
            *self.counters.spent.loops.of((thread, loop_id)) += weight;
        }
        if !touches_memory(resolution) {
            return;
        }
        let spot = match thing {
            None => Spot::unknown(page_node),
            Some(thing) => {
                let exact = resolution != Resolution::Object;
                self.context.spot(thing, s.address[i], exact, page_node)
            }
        };
        let spent = &mut self.counters.spent;
        match loop_id {
            Some(loop_id) => *spent.operands.of((thread, loop_id, s.operand_ip[i], spot)) += weight,
            None => *spent.beside.of((thread, spot, page)) += weight,
        }
    }
}
