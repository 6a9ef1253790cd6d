//! What a sample counts for the object that it is on.

use super::worker::{Fact, Worker};
use crate::context::Context;
use crate::counters::{BINS, FEW_INSTANCES, node_slot};
use crate::nodes::UNKNOWN;
use crate::pictures;
use crate::value::Basis;
use nearfar_recording::{Access, AccessSamples, NONE, Resolution, SampleSource};

/// Whether a touch was in the same function of a runtime or of a library's header as an instruction: a memset or a `std::fill`
/// that filled a page stores to all of it, and only few of its faults and samples say who called it.
fn same_helper(context: &Context, touch: u32, code: u32) -> bool {
    let fault = context.finder.placements.touches.get(touch as usize).map_or(NONE, |t| t.fault);
    context.input.faults.ip.get(fault as usize).is_some_and(|&ip| context.sites.in_one_helper(code, ip))
}

impl Worker<'_> {
    pub(super) fn count_row(&mut self, s: &AccessSamples, i: usize, thing: u32, thread: u32, fact: &Fact) {
        let context = self.context;
        let row = context.rows.of_thing[thing as usize];
        let Fact { weight, page_node, known, remote, .. } = *fact;
        let counters = &mut self.counters;
        let counts = counters.rows[row as usize].get_or_insert_with(Box::default);
        counts.sum.add(weight);
        if known {
            counts.known.add(weight);
            counts.by_class[fact.class] += weight;
            let far = if remote { weight } else { 0 };
            counts.blocks.add(fact.block, far, weight);
            if context.timing.is_some() {
                counts.shown_blocks.add(fact.shown, far, weight);
            }
        } else {
            counts.unknown_blocks.add(fact.shown, 0, weight);
        }
        if remote {
            counts.remote += weight;
            counts.remote_samples += 1;
        }
        let site = context.sites.of_code(s.operand_ip[i], s.chain[i]).unwrap_or(context.sites.unknown);
        counters.lines.of((row, site)).add(weight, known, remote, fact.store);
        if let Some(window) = context.windowed.and_then(|windowed| windowed.of_epoch(s.epoch[i])) {
            let lines =
                counters.in_windows.entry(row).or_default().entry((window as u32, s.cpu[i])).or_default();
            (lines[0], lines[1]) = (lines[0] + weight, lines[1] + if remote { weight } else { 0 });
        }
        if let Some(resource) = fact.bound {
            *counters.line_bounds.entry((row, site, resource)).or_default() += weight;
        }
        let page = s.address[i] / context.finder.placements.page_bytes;
        if let Some(shared) = context.exact.and_then(|e| e.shared(fact.space, page)) {
            *counters.shared_pages.entry((shared, row)).or_default() += weight;
        }
        let group = context.groups.of_touch.get(page_node.touch as usize).copied().unwrap_or(NONE);
        if known {
            let touch = counters.touchers.of((row, group));
            touch.weight += weight;
            let toucher = context.groups.groups.get(group as usize).map_or(UNKNOWN, |g| g.node);
            let away = toucher != UNKNOWN
                && page_node.node != UNKNOWN
                && toucher != page_node.node
                && !context.finder.is_where_touched(page_node.touch, page_node.node);
            touch.away += if away { weight } else { 0 };
            if remote {
                touch.remote += weight;
                touch.away_remote += if away { weight } else { 0 };
                touch.remote_by_folio += if page_node.folio { weight } else { 0 };
            }
        }
        // What made room for a dirty line need not be what wrote it, nor its thread the line's user.
        let counted = s.source[i] == SampleSource::Simulated as u8;
        let evicted = counted && s.access[i] == Access::Unknown as u8;
        if counted {
            counts.back_blocks.add(fact.block, if evicted { weight } else { 0 }, weight);
        }
        let used = counters.uses.of((row, thread));
        used.sum.add(weight);
        used.written_back += u64::from(evicted);
        used.at(s.time_ns[i], fact.store);
        if used.by_page_node.is_empty() {
            used.by_page_node.resize(self.nodes + 1, 0);
        }
        used.by_page_node[node_slot(page_node.node, self.nodes)] += weight;
        let about = &context.rows.rows[row as usize];
        let several = about.has_several();
        if several {
            let instance = counters.instances.of((thing, thread));
            instance.used.sum.add(weight);
            instance.remote += if remote { weight } else { 0 };
        }
        // The initialisation is not the use: the touching line's own samples say nothing of the pattern. But a kernel
        // whose first call was serial is the use where other threads run it.
        // What stores to a page first faults, and by the clock of another source that may be a little later.
        let touch = match page_node.touch {
            NONE if fact.store => {
                let placements = &context.finder.placements;
                placements.first_since(fact.space, page, s.time_ns[i], u64::MAX).unwrap_or(NONE)
            }
            touch => touch,
        };
        let toucher = context.groups.get(touch);
        let initial = fact.store
            && toucher.is_some_and(|g| {
                g.thread == thread && (g.site == site || same_helper(context, touch, s.operand_ip[i]))
            });
        let toucher = context.groups.groups.get(group as usize);
        if fact.store && toucher.is_some_and(|g| g.thread != thread) {
            counters.lines.of((row, site)).stores_to_others += 1;
        }
        let used_now = s.resolution[i] != Resolution::Object as u8 && !initial;
        let folios = context.folios_of(thing);
        if folios != 0 && fact.node != UNKNOWN && used_now {
            let shift = 63 - folios.leading_zeros();
            let key = (row, (fact.space, shift, s.address[i] >> shift));
            let folio = counters.folios.entry(key).or_default();
            if remote {
                let object = context.finder.spaces.things.get(thing);
                folio.remote += weight;
                let outside = page_node.folio && !context.finder.touched_in(page_node.touch, &object);
                folio.remote_by_neighbour += if outside { weight } else { 0 };
            }
            folio.by_node.resize(self.nodes, 0);
            folio.by_node[usize::from(fact.node)] += if evicted { 0 } else { weight };
        }
        if !used_now || evicted {
            return;
        }
        let object = context.finder.spaces.things.get(thing);
        let (base, extent) =
            if about.is_area() { (about.base, about.extent) } else { (object.address, object.bytes) };
        // What an allocator mapped elsewhere has no place in the area.
        if about.is_area() && !(base..=base + extent).contains(&s.address[i]) {
            return;
        }
        let offset = s.address[i].saturating_sub(base);
        // In floating point: a 128-bit division would cost as much as a lookup.
        let bin = ((offset as f64 * BINS as f64 / extent.max(1) as f64) as usize).min(BINS - 1);
        if used.bins.is_empty() {
            used.bins.resize(BINS, 0);
        }
        used.addressed += 1;
        used.bins[bin] += 1;
        if several {
            let instance = &mut counters.instances.of((thing, thread)).used;
            instance.addressed += 1;
            if about.things.len() <= FEW_INSTANCES {
                instance.bins.resize(BINS, 0);
                instance.bins[bin] += 1;
            }
        }
        counts.followed.add(page, thread, 1);
        let along = pictures::along(about, thing, &object, s.address[i]);
        *counters.strips.entry(pictures::key(row, along, fact.node, page_node.node)).or_default() += weight;
        if context.measure.basis == Basis::StallTime
            && let Some(step) = self.trail.step((row, thread), s.address[i], s.time_ns[i]).filter(|_| remote)
        {
            counters.reach.entry((row, fact.node)).or_default().add(step);
        }
    }
}
