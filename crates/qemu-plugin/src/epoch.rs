//! What one core did in an epoch.

use crate::epochs::{Bin, Epochs};
use crate::flops;
use crate::plugin_state::PluginState;
use crate::windows::Detail;
use nearfar_recording::column::Columns;
use nearfar_recording::raw::RawUncounted;
use nearfar_recording::tables::{CpuEpoch, EpochTraffic, UNCOUNTED};
use nearfar_simulate::{Core, Counts, Traffic};

/// The epoch that a core is in: what it had counted when it began.
pub struct Epoch {
    bin: Bin,
    /// Of the epochs, when `bin` was read.
    version: u32,
    counts: Counts,
    traffic: Vec<Traffic>,
}

impl Epoch {
    /// Its number, as in `cpu_epochs`.
    pub fn number(&self) -> u32 {
        self.bin.number
    }

    /// The epoch of a core as it is now.
    pub fn begin(core: &Core, epochs: &Epochs) -> Epoch {
        let (bin, version) = epochs.at(core.clock_ns());
        Epoch { bin, version, counts: core.counts(), traffic: core.traffic().to_vec() }
    }

    /// Whether a time is behind its end.
    #[inline]
    pub fn ends_before(&mut self, ns: f64, epochs: &Epochs) -> bool {
        if self.version != epochs.version() {
            (self.bin, self.version) = epochs.of(self.bin.number);
        }
        ns >= self.bin.end_ns
    }

    /// Writes down what the core did since the beginning, and begins the next. The clock of the core, or of any other, is at
    /// `latest_ns`: what has no end there has no length yet.
    pub fn end(
        &mut self,
        core: &Core,
        plugin: &PluginState,
        cpu: u16,
        region: u8,
        latest_ns: f64,
        detail: Detail,
    ) {
        let over = self.ends_before(latest_ns, &plugin.epochs);
        let epoch_ns = if over { self.bin.length_ns } else { 0.0 };
        let (counts, before) = (core.counts(), &self.counts);
        if detail != Detail::Counted {
            let instructions = counts.instructions - before.instructions;
            if instructions > 0 {
                let epoch = self.bin.number;
                let busy_ns = counts.busy_ns - before.busy_ns;
                let row = RawUncounted { epoch, region, cpu, instructions, busy_ns, epoch_ns };
                plugin.output.rows().uncounted.push(row);
            }
        } else if counts.instructions != before.instructions || counts.accesses != before.accesses {
            let rows = &mut *plugin.output.rows();
            rows.epochs.push(CpuEpoch {
                epoch: self.bin.number,
                region,
                cpu,
                instructions: counts.instructions - before.instructions,
                accesses: counts.accesses - before.accesses,
                l1_hits: counts.l1_hits - before.l1_hits,
                l2_hits: counts.l2_hits - before.l2_hits,
                l3_hits: counts.l3_hits - before.l3_hits,
                cache_transfers: counts.cache_transfers - before.cache_transfers,
                tlb_misses: counts.tlb_misses - before.tlb_misses,
                huge_tlb_misses: counts.huge_tlb_misses - before.huge_tlb_misses,
                dependent_lines: counts.dependent_lines - before.dependent_lines,
                busy_ns: counts.busy_ns - before.busy_ns,
                f64_ops: if flops::counted() { counts.f64_ops - before.f64_ops } else { UNCOUNTED },
                f32_ops: if flops::counted() { counts.f32_ops - before.f32_ops } else { UNCOUNTED },
                epoch_ns,
            });
            for (position, (now, before)) in core.traffic().iter().zip(&self.traffic).enumerate() {
                if now == before {
                    continue;
                }
                rows.traffic.push(EpochTraffic {
                    epoch: self.bin.number,
                    region,
                    cpu,
                    page_node: plugin.node(position),
                    read_lines: now.read_lines - before.read_lines,
                    prefetch_lines: now.prefetch_lines - before.prefetch_lines,
                    write_lines: now.write_lines - before.write_lines,
                    stream_lines: now.stream_lines - before.stream_lines,
                    transfer_lines: now.transfer_lines - before.transfer_lines,
                    walks: now.walks - before.walks,
                });
            }
        }
        *self = Epoch::begin(core, &plugin.epochs);
    }
}
