//! Machines scaled down, and what a machine must tell to be simulated.

use nearfar_machine::Machine;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::scale::{ScaleError, ScaleOptions, scale};

fn described(name: &str) -> Machine {
    let path = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Machine::from_toml(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn broadwell() -> Machine {
    described("xeon-e5-2699v4-2s")
}

fn keep(cpus: u32) -> ScaleOptions {
    ScaleOptions { cpus_per_node: Some(cpus), ..ScaleOptions::default() }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn what_cores_share_shrinks_with_them_and_what_they_own_stays() {
    let whole = broadwell();
    let four = scale(&whole, &keep(4)).unwrap();
    assert_eq!(four.nodes[0].cpus.to_string(), "0-3");
    assert_eq!(four.nodes[1].cpus.to_string(), "4-7");
    assert_eq!(four.threads_per_core, 1);
    assert_eq!(four.name, "2x Xeon E5-2699 v4, scaled to 4 of 22 cores per node, one thread per core");
    // 4 slices of 2.5 MiB, as many ways.
    let l3 = &four.caches[2];
    assert_eq!((l3.size_bytes, l3.ways, l3.cores_per_instance), (4 * 2_621_440, Some(20), 4));
    assert_eq!(four.caches[..2], whole.caches[..2]);
    let (b, part) = (four.figures.bandwidth_of(1).unwrap(), 4.0 / 22.0);
    assert!(near(b.read_gbs.as_ref().unwrap().value, 65.5 * part));
    assert!(b.update_gbs.as_ref().unwrap().source.ends_with("; scaled 4/22"));
    let pairs = four.figures.pair_read_gbs.as_ref().unwrap();
    assert!(near(pairs.get(0, 1).unwrap(), 32.0 * part));
    assert!(pairs.source.ends_with("; scaled 8/44"));
    assert!(near(four.figures.links[0].gbs_per_direction.value, 19.2 * part));
    assert_eq!(four.figures.latency_ns, whole.figures.latency_ns);
    assert_eq!(four.figures.core, whole.figures.core);
    assert_eq!(four.figures.time, whole.figures.time);
    assert_eq!(Machine::from_toml(&four.to_toml()).unwrap(), four);
}

#[test]
fn nothing_shrinks_when_all_cores_stay() {
    let whole = broadwell();
    let all = scale(&whole, &ScaleOptions::default()).unwrap();
    assert_eq!(all.nodes[1].cpus.to_string(), "22-43");
    assert_eq!(all.name, "2x Xeon E5-2699 v4, one thread per core");
    assert_eq!(all.caches, whole.caches);
    assert_eq!(all.figures.bandwidth, whole.figures.bandwidth);
    assert_eq!(all, scale(&whole, &keep(22)).unwrap());
}

#[test]
fn hardware_threads_stay_if_asked_for_side_by_side() {
    let smt = ScaleOptions { cpus_per_node: Some(4), smt: true, interleaved: false };
    let m = scale(&broadwell(), &smt).unwrap();
    assert_eq!(m.nodes[1].cpus.to_string(), "4-7");
    assert_eq!(m.threads_per_core, 2);
    assert_eq!(m.caches[2].cores_per_instance, 2);
    assert_eq!(m.cores_of(1), ["4-5", "6-7"].map(|c| c.parse::<CpuList>().unwrap()));
    assert!(m.name.contains("scaled to 2 of 22 cores per node, 2 threads per core"), "{}", m.name);
    // Scaled once more, without threads.
    let again = scale(&m, &keep(1)).unwrap();
    assert_eq!(again.caches[2].size_bytes, 2_621_440);
    assert_eq!(again.nodes[1].cpus.to_string(), "1");
}

#[test]
fn cache_instances_stay_alike_and_keep_their_size_per_core() {
    let mut m = Machine::from_toml(&broadwell().to_toml()).unwrap();
    // Complexes of 11 cores, two per node.
    m.caches[2].cores_per_instance = 11;
    m.figures.caches[2].cores_per_instance = 11;
    for (kept, sharers) in [(11, 11), (4, 4), (12, 6), (13, 1), (20, 10), (22, 11)] {
        let scaled = scale(&m, &keep(kept)).unwrap();
        assert_eq!(scaled.caches[2].cores_per_instance, sharers, "{kept} kept");
        let per_core = scaled.caches[2].size_bytes as f64 / f64::from(sharers);
        let whole = m.caches[2].size_bytes as f64 / 11.0;
        assert!((per_core / whole - 1.0).abs() < 0.01, "{kept} kept: {per_core} of {whole}");
        assert_eq!(scaled.caches[2].size_bytes % (20 * 64), 0);
    }
    // One L3 of a socket with two nodes.
    m.caches[2].cores_per_instance = 44;
    assert_eq!(scale(&m, &keep(3)).unwrap().caches[2].cores_per_instance, 6);
}

#[test]
fn memory_without_cpus_stays_and_shrinks_with_all_cores() {
    let mut m = broadwell();
    m.nodes[1].cpus = CpuList::default();
    let scaled = scale(&m, &keep(11)).unwrap();
    assert_eq!(scaled.nodes[0].cpus.to_string(), "0-10");
    assert!(scaled.nodes[1].cpus.is_empty());
    assert!(near(scaled.figures.bandwidth_of(1).unwrap().read_gbs.as_ref().unwrap().value, 32.75));
}

#[test]
fn every_described_machine_can_be_scaled_and_written() {
    let folder = format!("{}/../../machines", env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let whole = described(&name);
        for smt in [false, true].into_iter().filter(|smt| !smt || whole.threads_per_core > 1) {
            let options = ScaleOptions { cpus_per_node: Some(2), smt, interleaved: false };
            let scaled = scale(&whole, &options).unwrap();
            assert_eq!(scaled.cpu_count(), 2 * whole.cpu_nodes().count(), "{name}");
            assert_eq!(scaled.missing_to_simulate(), [], "{name}");
            assert_eq!(scaled.missing_to_time(), [], "{name}");
            assert_eq!(Machine::from_toml(&scaled.to_toml()).unwrap(), scaled, "{name}");
        }
    }
    let magny = scale(&described("opteron-6174-4s"), &keep(3)).unwrap();
    assert!(near(magny.figures.time.remote_lines.unwrap().value, 6.5));
}

#[test]
fn what_cannot_be_is_refused_and_says_what_can() {
    let m = broadwell();
    let error = |o: &ScaleOptions| scale(&m, o).unwrap_err();
    let message = error(&keep(0)).to_string();
    assert!(message.contains("leave it out to keep all 22"), "{message}");
    let message = error(&keep(23)).to_string();
    assert!(message.contains("node 0 of 2x Xeon E5-2699 v4 has 22 cores"), "{message}");
    let smt = |n| ScaleOptions { cpus_per_node: Some(n), smt: true, interleaved: false };
    assert!(scale(&m, &smt(44)).is_ok());
    let message = error(&smt(46)).to_string();
    assert!(message.contains("has 44 hardware threads"), "{message}");
    let message = error(&smt(5)).to_string();
    assert!(message.contains("--cpus-per-node 4 or 6"), "{message}");
    let plain = Machine::from_shape("2x4").unwrap();
    assert!(matches!(scale(&plain, &smt(2)), Err(ScaleError::NoThreads(_))));
    let mut broken = broadwell();
    broken.nodes[1].cpus = "22-42".parse().unwrap();
    let message = scale(&broken, &keep(4)).unwrap_err().to_string();
    assert!(message.contains("node 1") && message.contains("21 cpus"), "{message}");
    let mut none = Machine::from_shape("1x2").unwrap();
    let interleaved = ScaleOptions { interleaved: true, ..ScaleOptions::default() };
    assert!(matches!(scale(&none, &interleaved), Err(ScaleError::NotInterleaved { .. })));
    none.nodes[0].cpus = CpuList::default();
    assert!(matches!(scale(&none, &keep(1)), Err(ScaleError::NoCpus(_))));
}

#[test]
fn interleaving_is_said() {
    let options = ScaleOptions { cpus_per_node: Some(2), smt: false, interleaved: true };
    let m = scale(&broadwell(), &options).unwrap();
    assert!(m.figures.interleaved);
    assert!(m.name.ends_with("memory interleaved by firmware"), "{}", m.name);
    assert_eq!(Machine::from_toml(&m.to_toml()).unwrap(), m);
    assert!(!broadwell().figures.interleaved);
}

#[test]
fn missing_figures_are_named_with_what_to_write() {
    let named = |m: &Machine| m.missing_to_simulate().iter().map(ToString::to_string).collect::<Vec<_>>();
    let shape = Machine::from_shape("2x4").unwrap();
    let all = named(&shape).join("\n");
    for part in ["the caches", "all_core_ghz", "`ipc =", "latency from node 0 to the memory of node 0"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let mut m = broadwell();
    assert_eq!(named(&m), [""; 0]);
    assert_eq!(m.missing_to_time(), []);
    m.caches[1].ways = None;
    m.figures.caches[2].inclusion = None;
    m.figures.latency_ns.as_mut().unwrap().rows[1][0].0 = None;
    let missing = named(&m);
    assert_eq!(missing.len(), 3, "{missing:?}");
    assert!(missing[0].contains("associativity of the L2: write `ways = { value"), "{}", missing[0]);
    assert!(missing[1].contains("`level = 3`"), "{}", missing[1]);
    assert!(missing[2].contains("from node 1 to the memory of node 0"), "{}", missing[2]);
    m.figures.bandwidth[0].nodes = NodeList::from(0..=0);
    m.figures.time.control_bytes = None;
    let missing: Vec<String> = m.missing_to_time().iter().map(ToString::to_string).collect();
    assert!(missing.iter().any(|m| m.contains("memory of node 1") && m.contains("read_gbs")), "{missing:?}");
    assert!(missing.iter().any(|m| m.contains("control_bytes")), "{missing:?}");
}

#[test]
fn the_sustained_rate_follows_the_mix_of_reads_and_writes() {
    let m = broadwell();
    let rate = |w| m.figures.bandwidth_of(0).unwrap().rate(w).unwrap();
    assert!(near(rate(0.0), 65.5) && near(rate(1.0 / 3.0), 57.0) && near(rate(0.5), 53.2));
    assert!(near(rate(1.0), 53.2), "beyond what is known it stays");
    let between = rate(0.2);
    assert!(between > 57.0 && between < 65.5);
    let mut only = m.figures.bandwidth_of(0).unwrap().clone();
    (only.read_gbs, only.update_gbs) = (None, None);
    assert!(near(only.rate(0.0).unwrap(), 57.0));
    only.triad_gbs = None;
    assert_eq!(only.rate(0.3), None);
}
