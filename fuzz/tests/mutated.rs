//! Machine files, placement files and captured trees that were damaged at random: each is read, and whatever comes of it,
//! it is not a panic and no command to a terminal. Recordings: crates/nearfar/tests/hostile/mutations.rs.
//!
//! `NEARFAR_MUTATIONS=10000` for more of them, `NEARFAR_MUTATIONS=5000-6000` for others.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// Of each kind, where nothing else is asked for.
const USUALLY: &str = "300";
/// What stands in the place of a number.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1e308",
    "4294967295",
    "18446744073709551615",
    "nan",
    "0.1",
    "",
    "1-",
    "99999",
    "0-4095",
    "٣",
];

/// Marsaglia's xorshift: the same cases on every machine.
struct Random(u64);

impl Random {
    /// Below `n`, which may be 0.
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// A file damaged as disks, editors and other machines do: bits, parts, lines, numbers.
fn mutated(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        random.below(1);
    }
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let to = (at + random.below(60)).min(bytes.len());
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..to)),
            3 => {
                let part = bytes[at..to].to_vec();
                let place = random.below(bytes.len() + 1);
                drop(bytes.splice(place..place, part));
            }
            4 => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
                let (one, other) = (random.below(lines.len()), random.below(lines.len()));
                match random.below(3) {
                    0 if !lines.is_empty() => lines.swap(one, other),
                    1 if !lines.is_empty() => drop(lines.remove(one)),
                    _ if !lines.is_empty() => lines.insert(one, lines[other]),
                    _ => {}
                }
                bytes = lines.concat();
            }
            _ => {
                // The next number becomes another.
                let digit = |b: &u8| b.is_ascii_digit();
                if let Some(from) = bytes[at..].iter().position(digit).map(|skip| at + skip) {
                    let end = bytes[from..].iter().position(|b| !digit(b)).map_or(bytes.len(), |n| from + n);
                    let put = NUMBERS[random.below(NUMBERS.len())];
                    drop(bytes.splice(from..end, put.bytes()));
                }
            }
        }
    }
    bytes
}

fn seeds(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_none_or(|e| e == "toml"));
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(seeds.len() >= 3, "{}", folder.display());
    seeds
}

fn never_panics(what: &str, seeds: &[Vec<u8>], read: fn(&[u8])) {
    let many = std::env::var("NEARFAR_MUTATIONS").unwrap_or(USUALLY.into());
    let (from, to) = many.split_once('-').unwrap_or(("0", &many));
    let (from, to): (u64, u64) = (from.parse().expect("a number"), to.parse().expect("a number"));
    let wrong = |number: &u64| catch_unwind(|| read(&mutated(seeds, *number))).is_err();
    let failed: Vec<u64> = (from..to).filter(wrong).take(20).collect();
    assert!(failed.is_empty(), "{what}: NEARFAR_MUTATIONS={}-{}", failed[0], failed[0] + 1);
    println!("{what}: {} read, 0 panics", to - from);
}

#[test]
fn machine_files_never_panic() {
    never_panics("machine files", &seeds("../machines"), nearfar_fuzz::machine);
}

#[test]
fn placement_files_never_panic() {
    never_panics("placement files", &seeds("corpus/placement"), nearfar_fuzz::placement);
}

#[test]
fn captured_trees_never_panic() {
    never_panics("captured trees", &seeds("corpus/topology"), nearfar_fuzz::topology);
}

#[test]
fn damage_is_done() {
    let seeds = seeds("../machines");
    let changed = (0..200).filter(|&number| !seeds.contains(&mutated(&seeds, number))).count();
    assert!(changed > 180, "{changed}");
    let refused = |number: &u64| {
        let bytes = mutated(&seeds, *number);
        !std::str::from_utf8(&bytes).is_ok_and(|text| nearfar_machine::Machine::from_toml(text).is_ok())
    };
    let refused = (0..200).filter(refused).count();
    // Some are refused, and some are read.
    assert!((50..195).contains(&refused), "{refused}");
}
