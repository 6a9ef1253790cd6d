//! What must hold between directory and caches after any interleaving of threads.

use super::{Access, Core, Hierarchy, Kind, Options, PageNodeMap};
use nearfar_machine::LINE_BYTES;
use nearfar_machine::file::{CacheFigures, Confidence, Figure, Inclusion};
use nearfar_machine::{CacheLevel, Machine};

const LINES: u64 = 300;

/// Cores with tiny caches, of which four share the third level.
fn machine(shape: &str, second: Inclusion, third: Option<Inclusion>) -> Machine {
    let mut machine = Machine::from_shape(shape).expect("a shape");
    let figure =
        |value: u64| Figure { value: value as f64, source: "test".into(), confidence: Confidence::Assumed };
    let levels = [(8, 4, 1, Inclusion::Neither), (32, 8, 1, second)];
    let outer = third.map(|inclusion| (72, 12, 4, inclusion));
    for (i, (lines, ways, cores, inclusion)) in levels.into_iter().chain(outer).enumerate() {
        let (level, bytes) = (i as u32 + 1, lines * LINE_BYTES);
        machine.caches.push(CacheLevel {
            level,
            size_bytes: bytes,
            ways: Some(ways),
            latency_cycles: None,
            cores_per_instance: cores,
        });
        machine.figures.caches.push(CacheFigures {
            level,
            size_bytes: figure(bytes),
            cores_per_instance: cores,
            inclusion: Some(inclusion),
            ways: None,
            latency_cycles: None,
            read_gbs: None,
            write_gbs: None,
        });
    }
    machine
}

/// Eight threads that load, store and stream at random: two each behind the first cache of each quarter of the cores.
fn hammer(hierarchy: &Hierarchy) -> Vec<(usize, Core)> {
    let quarter = hierarchy.cpus() / 4;
    let run = |cpu: usize| {
        let mut core = hierarchy.core(cpu);
        let mut random = cpu as u64;
        for _ in 0..60_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let physical = (random >> 33) % LINES * LINE_BYTES;
            let kind = match random >> 60 {
                0..4 => Kind::Store,
                4 => Kind::StreamStore,
                _ => Kind::Load,
            };
            if !core.quick_hit(physical, 8, kind) {
                let access = Access { virt: physical, physical, bytes: 8, kind, huge: false, chain: 0 };
                core.access(hierarchy, access, &mut ());
            }
        }
        (cpu, core)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let all: Vec<_> = (0..8).map(|i| scope.spawn(move || run(i / 2 * quarter + i % 2))).collect();
        all.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    })
}

fn check<const WORDS: usize>(
    hierarchy: &Hierarchy,
    cores: &mut [(usize, Core)],
    inclusion: Option<Inclusion>,
) {
    assert_eq!(hierarchy.directory.words, WORDS);
    let mut modified_lines = 0;
    for line in 0..LINES {
        let entry = hierarchy.directory.slot::<WORDS>(line).load();
        let holders: Vec<usize> = hierarchy.directory.cores_in(entry).collect();
        assert!(holders.iter().all(|&holder| cores.iter().any(|&(at, _)| at == holder)), "{holders:?}");
        for (at, core) in cores.iter_mut() {
            core.unit.read_mail();
            let private = &mut core.unit.private;
            assert_eq!(private.holds(line), holders.contains(at), "line {line}, core {at}");
            // Whether it is dirty can be asked of the first level.
            let dirty = private.find_first(line, 0).is_some_and(|slot| private.is_dirty(slot));
            assert!(!dirty || entry.modified(), "line {line} is dirty in core {at} without permission");
        }
        if entry.modified() {
            assert_eq!(holders.len(), 1, "line {line} is modified in one core and held by others");
            modified_lines += 1;
        }
        let set = hierarchy.locks.set(line);
        let caches: Vec<usize> = hierarchy.directory.caches_in(entry).collect();
        for (domain, cache) in hierarchy.shared.iter().enumerate() {
            let held = cache.lines(set).iter().filter(|held| held.line == line).count();
            assert_eq!(held, usize::from(caches.contains(&domain)), "line {line}, shared cache {domain}");
            let inside = holders.iter().any(|&core| hierarchy.layout.domain_of_core[core] == domain);
            if inclusion == Some(Inclusion::Inclusive) && inside {
                assert_eq!(held, 1, "line {line} is in a core and not in its inclusive cache");
            }
        }
        let dirty = hierarchy.shared.iter().filter(|cache| cache.is_dirty(set, line)).count();
        assert!(dirty <= 1, "line {line} is dirty in {dirty} shared caches");
        assert!(dirty == 0 || caches.len() == 1, "line {line} is dirty in one socket and held by others");
    }
    assert!(modified_lines > 0, "nothing was modified: the test tests nothing");
}

#[test]
fn a_line_is_modified_in_at_most_one_cache() {
    use Inclusion::{Exclusive, Inclusive, Neither, Victim};
    for second in [Inclusive, Neither, Exclusive, Victim] {
        for third in [Some(Inclusive), Some(Neither), Some(Exclusive), Some(Victim), None] {
            for prefetch in [false, true] {
                let page_nodes = PageNodeMap::ranges(&[1 << 20, 2 << 20]);
                let on = |shape: &str, page_nodes: PageNodeMap| {
                    let machine = machine(shape, second, third);
                    Hierarchy::new(&machine, &Options { prefetch, page_nodes }).expect("a hierarchy")
                };
                let small = on("2x4", page_nodes.clone());
                check::<1>(&small, &mut hammer(&small), third);
                if second != Neither {
                    continue;
                }
                // Entries of more words.
                let middle = on("2x40", page_nodes.clone());
                check::<2>(&middle, &mut hammer(&middle), third);
                let large = on("2x96", page_nodes);
                check::<4>(&large, &mut hammer(&large), third);
            }
        }
    }
}
