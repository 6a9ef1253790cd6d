//! The simulator against a model that is slow and plain, access by access.

use crate::test_machine::{LINE, Random, TestMachine, machine};
use nearfar_machine::file::Inclusion::{self, Exclusive, Inclusive, Neither, Victim};
use std::collections::BTreeSet;

/// Sets of lines, the one used last at the end.
pub struct Lru {
    sets: Vec<Vec<u64>>,
    ways: usize,
    scattered: bool,
}

/// Each octal digit of a frame's number, of the three lowest, gets another order by what is above it.
fn scattered(line: u64) -> u64 {
    let (mut frame, at) = (line / 64, line % 64);
    let number = frame;
    for (digit, spread) in [2_654_435_761, 2_246_822_507, 3_266_489_909_u64].into_iter().enumerate() {
        let unit = 8_u64.pow(digit as u32);
        let other = (number / (8 * unit) * spread % (1 << 32)) / (1 << 29);
        let old = number / unit % 8;
        frame = frame - old * unit + (old ^ other) * unit;
    }
    frame * 64 + at
}

impl Lru {
    pub fn new(sets: usize, ways: usize) -> Lru {
        Lru { sets: vec![Vec::new(); sets], ways, scattered: false }
    }

    /// Of a cache outside the cores.
    fn outer(sets: usize, ways: usize) -> Lru {
        Lru { scattered: true, ..Lru::new(sets, ways) }
    }

    fn set(&mut self, line: u64) -> &mut Vec<u64> {
        let index = if self.scattered { scattered(line) } else { line };
        let at = index as usize % self.sets.len();
        &mut self.sets[at]
    }

    fn has(&mut self, line: u64) -> bool {
        self.set(line).contains(&line)
    }

    fn remove(&mut self, line: u64) -> bool {
        let had = self.has(line);
        self.set(line).retain(|&held| held != line);
        had
    }

    /// Marks as used what is there.
    pub fn hit(&mut self, line: u64) -> bool {
        let hit = self.remove(line);
        if hit {
            self.set(line).push(line);
        }
        hit
    }

    pub fn put(&mut self, line: u64) -> Option<u64> {
        let ways = self.ways;
        let set = self.set(line);
        set.push(line);
        (set.len() > ways).then(|| set.remove(0))
    }
}

/// One core's three levels.
struct Naive {
    first: Lru,
    second: Lru,
    third: Lru,
    kinds: (Inclusion, Inclusion),
    /// Modified in the core; dirty in the third level.
    modified: BTreeSet<u64>,
    dirty: BTreeSet<u64>,
    written: u64,
}

impl Naive {
    /// The level that had the line; 4 is memory.
    fn access(&mut self, line: u64, store: bool) -> usize {
        let mut left = Vec::new();
        let level = if self.first.hit(line) {
            1
        } else if self.second.has(line) {
            if self.kinds.0 == Exclusive {
                self.second.remove(line);
            } else {
                self.second.hit(line);
            }
            self.put_first(line, &mut left);
            2
        } else {
            let level = self.outside(line);
            if matches!(self.kinds.0, Inclusive | Neither) {
                self.put_second(line, &mut left);
            }
            self.put_first(line, &mut left);
            level
        };
        left.into_iter().for_each(|line| self.leave(line));
        if store {
            self.modified.insert(line);
        }
        level
    }

    fn outside(&mut self, line: u64) -> usize {
        let keeps = matches!(self.kinds.1, Inclusive | Neither);
        if self.third.hit(line) {
            if !keeps {
                self.third.remove(line);
                if self.dirty.remove(&line) {
                    self.modified.insert(line);
                }
            }
            return 3;
        }
        if keeps {
            self.put_third(line);
        }
        4
    }

    fn put_first(&mut self, line: u64, left: &mut Vec<u64>) {
        let Some(victim) = self.first.put(line) else { return };
        if self.second.has(victim) {
            return;
        }
        if matches!(self.kinds.0, Exclusive | Victim) || self.modified.contains(&victim) {
            self.put_second(victim, left);
        } else {
            left.push(victim);
        }
    }

    fn put_second(&mut self, line: u64, left: &mut Vec<u64>) {
        let Some(victim) = self.second.put(line) else { return };
        if self.kinds.0 == Inclusive {
            self.first.remove(victim);
        }
        if !self.first.has(victim) {
            left.push(victim);
        }
    }

    fn leave(&mut self, line: u64) {
        let modified = self.modified.remove(&line);
        let keeps = match self.kinds.1 {
            Inclusive | Neither => modified,
            Exclusive | Victim => true,
        };
        if keeps && !self.third.has(line) {
            self.put_third(line);
        }
        if modified {
            self.dirty.insert(line);
        }
    }

    fn put_third(&mut self, line: u64) {
        let Some(victim) = self.third.put(line) else { return };
        let mut write = self.dirty.remove(&victim);
        if self.kinds.1 == Inclusive {
            self.first.remove(victim);
            self.second.remove(victim);
            write |= self.modified.remove(&victim);
        } else if self.modified.contains(&victim) {
            write = false;
        }
        self.written += u64::from(write);
    }
}

#[test]
fn every_access_is_found_where_a_naive_model_finds_it() {
    // Sets: powers of two and not; ways: up to 8, above, and more than a list's word.
    let shapes = [[(8, 2), (24, 4), (13, 20)], [(4, 8), (7, 12), (64, 3)], [(1, 4), (5, 16), (3, 40)]];
    let kinds = [Inclusive, Neither, Exclusive, Victim];
    for (s, shape) in shapes.iter().enumerate() {
        for second in kinds {
            for third in kinds {
                compare(*shape, (second, third), s as u64 * 100 + second as u64 * 10 + third as u64);
            }
        }
    }
}

fn compare(shape: [(u64, u32); 3], kinds: (Inclusion, Inclusion), seed: u64) {
    let inclusions = [Neither, kinds.0, kinds.1];
    let caches: Vec<crate::test_machine::Cache> = shape
        .iter()
        .zip(inclusions)
        .map(|(&(sets, ways), inclusion)| crate::test_machine::Cache {
            bytes: sets * u64::from(ways) * LINE,
            ways,
            cores: 1,
            inclusion,
        })
        .collect();
    let mut rig = TestMachine::new(&machine("1x1", &caches));
    let lru = |level: usize| Lru::new(shape[level].0 as usize, shape[level].1 as usize);
    let mut naive = Naive {
        first: lru(0),
        second: lru(1),
        third: Lru::outer(shape[2].0 as usize, shape[2].1 as usize),
        kinds,
        modified: BTreeSet::new(),
        dirty: BTreeSet::new(),
        written: 0,
    };
    let mut random = Random(seed);
    let all: u64 = shape.iter().map(|&(sets, ways)| sets * u64::from(ways)).sum();
    let mut before = rig.cores[0].counts();
    for step in 0..40_000u64 {
        // Some near by, some anywhere: hits and misses at every level.
        let line = match random.below(4) {
            0 => random.below(16),
            1 => random.below(all / 3),
            2 => step / 7 % (2 * all),
            _ => random.below(2 * all),
        };
        let store = random.below(3) == 0;
        if store {
            rig.store(0, line * LINE)
        } else {
            rig.load(0, line * LINE)
        }
        let level = naive.access(line, store);
        let now = rig.cores[0].counts();
        let found = [
            now.l1_hits - before.l1_hits,
            now.l2_hits - before.l2_hits,
            now.l3_hits - before.l3_hits,
            now.dram_lines - before.dram_lines,
        ];
        before = now;
        let mut expected = [0; 4];
        expected[level - 1] = 1;
        assert_eq!(found, expected, "access {step} to line {line}: {shape:?} {kinds:?}");
        assert_eq!(rig.moved.written, naive.written, "access {step}: {shape:?} {kinds:?}");
    }
    let left = naive.modified.union(&naive.dirty).count() as u64;
    rig.write_back();
    assert_eq!(rig.moved.written, naive.written + left, "{shape:?} {kinds:?}");
    assert!(rig.quick > 1000, "the filter was not part of it");
}
