//! From what was measured to the figures of a machine.

use super::{Cached, Kernel, Measured, Pages, Pair, Spread};
use nearfar_figures::percent::percent;
use nearfar_machine::figures::{Cell as FigureCell, Confidence, Figure, Inclusion, Matrix};
use nearfar_machine::file::NodeBandwidth;
use nearfar_machine::{Machine, NodeId, NodeKind};

impl Measured {
    /// The machine with what was measured in place of what it had. What was not measured stays as it was.
    pub fn into_machine(&self, mut machine: Machine) -> Machine {
        let quick = if self.quick { " --quick" } else { "" };
        let source = format!("measured here on {} by nearfar measure{quick}", self.day);
        let matrix = |pairs: &[Pair], what: &str, share: Option<f64>| -> Option<Matrix> {
            let at = |from, memory| pairs.iter().find(|p| p.from == from && p.memory == memory);
            let rows: Vec<Vec<FigureCell>> = machine
                .nodes
                .iter()
                .map(|f| {
                    let cell = |m| FigureCell(at(f.id, m).and_then(|p| p.value).map(|v| round(v.median)));
                    machine.nodes.iter().map(|m| cell(m.id)).collect()
                })
                .collect();
            let any = rows.iter().flatten().any(|c| c.0.is_some());
            let (confidence, held) = held(share, Confidence::H);
            any.then(|| Matrix { rows, source: format!("{source}, {what}{held}"), confidence })
        };
        // Where the kernel gives no 2 MiB pages, latency with address translation is what there is.
        let latency =
            [(Pages::Huge, "2 MiB pages"), (Pages::Base, "base pages: address translation included")];
        let latency = latency.into_iter().find_map(|(pages, what)| {
            let table = self.latency.iter().find(|l| l.pages == pages)?;
            matrix(&table.pairs, what, self.cached.chain_share)
        });
        let of = |kernel| self.bandwidth.iter().find(|b| b.kernel == kernel);
        let arrays = self.cached.array_share;
        let read = of(Kernel::Read).and_then(|b| matrix(&b.pairs, "all cpus of the row's node", arrays));
        // The file asks for traffic. An ordinary store reads its line first, so `factor` times the bytes that
        // the kernel names are moved; that is arithmetic, not seen.
        let own = |kernel, node: NodeId, factor: f64| {
            let value = of(kernel)?.pairs.iter().find(|p| p.from == node && p.memory == node)?.value?;
            let (low, high) = (round(value.low * factor), round(value.high * factor));
            let derived = factor != 1.0;
            let how = if derived { ", with the lines that stores read first" } else { "" };
            let (confidence, held) = held(arrays, if derived { Confidence::D } else { Confidence::H });
            Some(Figure {
                value: round(value.median * factor),
                source: format!("{source}, {low} to {high} in {} runs{how}{held}", value.runs),
                confidence,
            })
        };
        let mut bandwidth: Vec<NodeBandwidth> = Vec::new();
        for node in machine.nodes.iter().filter(|n| !n.cpus.is_empty() && n.kind != NodeKind::Gpu) {
            let figures = NodeBandwidth {
                nodes: std::iter::once(node.id).collect(),
                peak_gbs: None,
                read_gbs: own(Kernel::Read, node.id, 1.0),
                update_gbs: own(Kernel::Write, node.id, 2.0),
                triad_gbs: own(Kernel::Triad, node.id, 4.0 / 3.0),
            };
            if figures.read_gbs.is_some() || figures.update_gbs.is_some() || figures.triad_gbs.is_some() {
                bandwidth.push(figures);
            }
        }
        self.core_into(&mut machine, &source);
        let figures = &mut machine.figures;
        figures.latency_ns = latency.map(own_is_nearest).or(figures.latency_ns.take());
        figures.pair_read_gbs = read.or(figures.pair_read_gbs.take());
        if !bandwidth.is_empty() {
            figures.bandwidth = bandwidth;
        }
        machine
    }

    /// The figures of one core and of its caches.
    fn core_into(&self, machine: &mut Machine, source: &str) {
        let figure = |value: Option<Spread>, factor: f64, how: &str, confidence| {
            let value = value?;
            let (low, high) = (round(value.low * factor), round(value.high * factor));
            let source = format!("{source}, {low} to {high} in {} runs{how}", value.runs);
            Some(Figure { value: round(value.median * factor), source, confidence })
        };
        if let Some(core) = &self.core {
            let clock = core.clock_ghz.value.map(|c| c.median);
            // Sizes are the kernel's. A latency in cycles is arithmetic from ns and the clock.
            let mut caches = machine.cache_figures();
            for cache in &mut caches {
                if machine.figures.caches.is_empty() {
                    cache.size_bytes.source = "the kernel (sysfs)".into();
                    cache.size_bytes.confidence = Confidence::H;
                }
                let seen = core.caches.iter().find(|c| c.level == cache.level);
                // "Not inclusive" promises neither the one nor the other.
                let word = |inclusive| if inclusive { Inclusion::Inclusive } else { Inclusion::Neither };
                let inclusion = seen.and_then(|c| c.inclusive).filter(|_| cache.level > 1).map(word);
                cache.inclusion = inclusion.or(cache.inclusion);
                let seen = seen.and_then(|c| c.ns.value);
                let cycles = clock.and_then(|ghz| figure(seen, ghz, ", ns times clock_ghz", Confidence::D));
                cache.latency_cycles = cycles.or(cache.latency_cycles.take());
            }
            for (plain, cache) in machine.caches.iter_mut().zip(&caches) {
                plain.latency_cycles = cache.latency_cycles.as_ref().map(|f| f.value);
            }
            machine.figures.caches = caches;
            let own = &mut machine.figures.core;
            let put = |place: &mut Option<Figure>, found: Option<Figure>| {
                if found.is_some() {
                    *place = found;
                }
            };
            use Confidence::{Assumed, D, H};
            put(&mut own.all_core_ghz, figure(core.clock_ghz.value, 1.0, ", dependent additions", H));
            let loop_ = ", a triad in the first-level cache: other loops differ";
            put(&mut own.ipc, figure(core.ipc.value, 1.0, loop_, Assumed));
            let memory = |place: &mut Option<Figure>, found, how: &str, share, sure| {
                let (confidence, held) = held(share, sure);
                put(place, figure(found, 1.0, &format!("{how}{held}"), confidence));
            };
            let Cached { chain_share, array_share } = self.cached;
            let law = ", chains side by side times latency";
            memory(&mut own.outstanding_lines, core.lines_in_flight.value, law, chain_share, D);
            let streams = ", the better of 1 and 4 streams";
            memory(&mut own.read_gbs, core.read_gbs.value, streams, array_share, H);
            let lines = ", with the lines that stores read first";
            memory(&mut own.update_gbs, core.update_gbs.value, lines, array_share, D);
        }
        // A machine file has one figure for all cores: the first node's.
        if let Some(flops) = self.flops.iter().find(|f| f.f64_gflops.value.is_some()) {
            let each = 1.0 / f64::from(flops.cores.max(1));
            let how = format!(", {} on {} cores at once", flops.instructions, flops.cores);
            let core = &mut machine.figures.core;
            core.f64_gflops = figure(flops.f64_gflops.value, each, &how, Confidence::H);
            core.f32_gflops = figure(flops.f32_gflops.value, each, &how, Confidence::H);
        }
    }
}

/// Confidence and a remark of a figure of which the caches may have answered such a share: it would be taken
/// for the memory's own.
fn held(share: Option<f64>, sure: Confidence) -> (Confidence, String) {
    match share {
        Some(share) => {
            (Confidence::Assumed, format!(", in memory of which the caches can hold {}", percent(share)))
        }
        None => (sure, String::new()),
    }
}

/// No memory is nearer than a node's own: where noise says otherwise, as on machines whose nodes are all
/// one memory, the file has the own latency in both places and reports it.
pub(super) fn own_is_nearest(mut matrix: Matrix) -> Matrix {
    let mut raised = false;
    for at in 0..matrix.rows.len() {
        let Some(own) = matrix.get(at, at) else { continue };
        for cell in &mut matrix.rows[at] {
            if cell.0.is_some_and(|ns| ns < own) {
                cell.0 = Some(own);
                raised = true;
            }
        }
    }
    if raised {
        matrix.source.push_str("; what was below a node's own latency was set to that");
    }
    matrix
}

/// Three digits are more than any two measurements agree on.
fn round(value: f64) -> f64 {
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{Bandwidth, CacheLatency, Core, Flops, Found, Latency};

    fn pair(from: NodeId, memory: NodeId, median: f64) -> Pair {
        let value = Some(Spread { median, low: median, high: median, runs: 1 });
        Pair { from, memory, value, moved_bytes: None, why: None }
    }

    #[test]
    fn a_machine_file_of_what_was_measured_can_be_read_back() {
        let machine = Machine::from_shape("2x2").unwrap();
        let measured = Measured {
            day: "2026-11-22".into(),
            // No 2 MiB pages were to be had.
            latency: vec![
                Latency { pages: Pages::Huge, bytes: 1, pairs: Vec::new() },
                Latency {
                    pages: Pages::Base,
                    bytes: 1,
                    pairs: vec![pair(0, 0, 81.234), pair(0, 1, 130.06), pair(1, 0, 129.0), pair(1, 1, 80.0)],
                },
            ],
            bandwidth: vec![Bandwidth {
                kernel: Kernel::Triad,
                bytes: Some(1),
                pairs: vec![pair(0, 0, 30.0), pair(1, 1, 33.0)],
            }],
            ..Measured::default()
        };
        let file = measured.into_machine(machine).to_toml();
        let read = Machine::from_toml(&file).unwrap();
        let latency = read.figures.latency_ns.as_ref().unwrap();
        assert_eq!((latency.get(0, 0), latency.get(0, 1)), (Some(81.2), Some(130.0)), "{file}");
        assert!(latency.source.contains("base pages"), "{file}");
        let triad: Vec<&Figure> =
            read.figures.bandwidth.iter().map(|b| b.triad_gbs.as_ref().unwrap()).collect();
        assert_eq!(triad.iter().map(|f| f.value).collect::<Vec<_>>(), [40.0, 44.0]);
        // A third of the traffic was not seen.
        assert!(triad.iter().all(|f| f.confidence == Confidence::D && f.source.contains("in 1 runs")));
        assert!(read.figures.pair_read_gbs.is_none() && read.figures.bandwidth[0].read_gbs.is_none());
    }

    fn seen(median: f64) -> Found {
        Ok(Spread { median, low: median * 0.9, high: median * 1.1, runs: 5 }).into()
    }

    #[test]
    fn a_core_and_its_caches_become_figures() {
        let mut machine = Machine::from_shape("1x2").unwrap();
        let cache = |level, size_bytes| nearfar_machine::CacheLevel {
            level,
            size_bytes,
            ways: Some(8),
            latency_cycles: None,
            cores_per_instance: 1,
        };
        machine.caches = vec![cache(1, 32768), cache(2, 524288)];
        machine.figures.caches.clear();
        let measured = Measured {
            core: Some(Core {
                cpu: 0,
                node: 0,
                clock_ghz: seen(2.5),
                ipc: seen(3.0),
                lines_in_flight: seen(12.0),
                read_gbs: seen(11.0),
                update_gbs: Err("no cpu".into()).into(),
                caches: vec![
                    CacheLatency { level: 1, bytes: 16384, ns: seen(1.6), inclusive: Some(false) },
                    CacheLatency { level: 2, bytes: 262144, ns: seen(6.0), inclusive: Some(true) },
                ],
            }),
            flops: vec![Flops {
                node: 0,
                cores: 2,
                instructions: "AVX2 FMA".into(),
                f64_gflops: seen(80.0),
                f32_gflops: seen(160.0),
            }],
            ..Measured::default()
        };
        let read = Machine::from_toml(&measured.into_machine(machine).to_toml()).unwrap();
        let core = &read.figures.core;
        let value = |figure: &Option<Figure>| figure.as_ref().map(|f| (f.value, f.confidence));
        assert_eq!(value(&core.all_core_ghz), Some((2.5, Confidence::H)));
        assert_eq!(value(&core.ipc), Some((3.0, Confidence::Assumed)));
        assert_eq!(value(&core.outstanding_lines), Some((12.0, Confidence::D)));
        assert_eq!(value(&core.read_gbs), Some((11.0, Confidence::H)));
        assert_eq!(core.update_gbs, None);
        assert_eq!(value(&core.f64_gflops), Some((40.0, Confidence::H)));
        assert_eq!(value(&core.f32_gflops), Some((80.0, Confidence::H)));
        assert_eq!(value(&read.figures.caches[0].latency_cycles), Some((4.0, Confidence::D)));
        assert_eq!(read.caches[0].latency_cycles, Some(4.0));
        let inclusion: Vec<_> = read.figures.caches.iter().map(|c| c.inclusion).collect();
        assert_eq!(inclusion, [None, Some(Inclusion::Inclusive)]);
    }

    #[test]
    fn what_caches_can_hold_is_assumed_to_be_of_the_memory() {
        let latency = vec![Latency { pages: Pages::Huge, bytes: 1, pairs: vec![pair(0, 0, 90.0)] }];
        let read = Bandwidth { kernel: Kernel::Read, bytes: Some(1), pairs: vec![pair(0, 0, 30.0)] };
        let mut measured = Measured { latency, bandwidth: vec![read], ..Measured::default() };
        let confidences = |measured: &Measured| {
            let file = measured.into_machine(Machine::from_shape("1x2").unwrap()).to_toml();
            let figures = Machine::from_toml(&file).unwrap().figures;
            let (latency, read) =
                (figures.latency_ns.unwrap(), figures.bandwidth[0].read_gbs.clone().unwrap());
            let pairs = figures.pair_read_gbs.unwrap();
            (latency.confidence, read.confidence, pairs.confidence, latency.source)
        };
        let (latency, read, pairs, _) = confidences(&measured);
        assert_eq!([latency, read, pairs], [Confidence::H; 3]);
        measured.cached = Cached { chain_share: Some(0.47), array_share: Some(0.94) };
        let (latency, read, pairs, source) = confidences(&measured);
        assert_eq!([latency, read, pairs], [Confidence::Assumed; 3]);
        assert!(source.contains("of which the caches can hold 47 %"), "{source}");
    }

    #[test]
    fn noise_does_not_bring_another_nodes_memory_nearer_than_the_own() {
        let pairs = vec![pair(0, 0, 90.0), pair(0, 1, 88.0), pair(1, 0, 140.0), pair(1, 1, 90.0)];
        let latency = vec![Latency { pages: Pages::Huge, bytes: 1, pairs }];
        let measured = Measured { latency, ..Measured::default() };
        let file = measured.into_machine(Machine::from_shape("2x1").unwrap()).to_toml();
        let read = Machine::from_toml(&file).unwrap().figures.latency_ns.unwrap();
        assert_eq!((read.get(0, 1), read.get(1, 0)), (Some(90.0), Some(140.0)));
        assert!(read.source.contains("was set to that"), "{}", read.source);
    }
}
