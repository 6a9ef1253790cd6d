use super::naive::Naive;
use super::steps::taken;
use super::*;
use crate::stats::Random;

/// From, to, born, died; the id is the place in the list.
fn spans(list: &[(u64, u64, u64, u64)]) -> Vec<Span> {
    list.iter().map(|&(from, to, born, died)| Span { from, to, born, died }).collect()
}

fn layer(spans: &[Span], overlap: Overlap) -> Layer {
    Layer::new((0..spans.len() as u32).collect(), spans, overlap)
}

#[test]
fn recycled_addresses_are_told_apart_by_time() {
    let s = spans(&[(10, 20, 0, 5), (10, 30, 7, 9)]);
    let l = layer(&s, Overlap::Replaces);
    let at = |address, time| l.at(&s[..], address, time).0;
    assert_eq!(at(15, 3), Some(0));
    assert_eq!(at(15, 6), None);
    assert_eq!(at(15, 7), Some(1));
    assert_eq!(at(25, 3), None);
    assert_eq!(at(25, 8), Some(1));
    assert_eq!(at(30, 8), None);
    assert_eq!(at(9, 8), None);
}

#[test]
fn a_range_finds_what_touches_it_while_it_lives() {
    let s = spans(&[(10, 20, 1, 5), (15, 30, 3, 9), (35, 40, 8, 12)]);
    let l = layer(&s, Overlap::Nests);
    let over = |from, to, since, until| over(&l, &s, from, to, since, until);
    assert_eq!(over(0, 10, 0, 99), [0u32; 0]);
    assert_eq!(over(0, 11, 0, 99), [0]);
    assert_eq!(over(12, 36, 0, 99), [0, 1, 2]);
    assert_eq!(over(12, 36, 5, 7), [1]);
    assert_eq!(over(12, 36, 0, 2), [0]);
    assert_eq!((over(20, 30, 0, 99), over(40, 50, 0, 99)), (vec![1], vec![]));
    Layer::default().over(&s[..], 0, 9, 0, 9, |_| panic!("there is nothing"));
}

fn over(l: &Layer, s: &[Span], from: u64, to: u64, since: u64, until: u64) -> Vec<u32> {
    let mut found = Vec::new();
    l.over(s, from, to, since, until, |id| found.push(id));
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn a_missed_free_ends_with_the_next_birth_on_the_heap() {
    let s = spans(&[(0, 10, 0, u64::MAX), (0, 10, 5, 6)]);
    assert_eq!(layer(&s, Overlap::Replaces).at(&s[..], 3, 8).0, None);
    assert_eq!(layer(&s, Overlap::Nests).at(&s[..], 3, 8).0, Some(0));
}

/// Random spans: some begin together, touch, nest, never die, are empty, or die before they are born.
fn some(random: &mut Random, count: usize, addresses: u64, times: u64) -> Vec<Span> {
    let mut below = |n: u64| (random.unit() * n as f64) as u64;
    (0..count)
        .map(|_| {
            let from = below(addresses);
            let part = 1 + below(8);
            let to = from + below(1 + addresses / part);
            let born = below(times);
            let died = match below(5) {
                0 => u64::MAX,
                1 => below(times),
                _ => born + 1 + below(times / 3),
            };
            Span { from, to, born, died }
        })
        .collect()
}

#[test]
fn every_answer_is_that_of_the_plain_rules() {
    const ADDRESSES: u64 = 30;
    const TIMES: u64 = 20;
    let mut random = Random::new(7);
    for round in 0..90 {
        let s = some(&mut random, round % 31, ADDRESSES, TIMES);
        let overlap = if round % 2 == 0 { Overlap::Replaces } else { Overlap::Nests };
        let naive = Naive::new(&s, overlap);
        for grain in [1, 2, 5, 16] {
            let l = Layer::with_grain((0..s.len() as u32).collect(), &s[..], overlap, grain);
            assert_eq!(l.is_empty(), naive.is_empty());
            for address in 0..2 * ADDRESSES + 2 {
                let ever = naive.ever(address);
                for time in (0..TIMES + 2).chain([u64::MAX]) {
                    let what = format!("round {round}, grain {grain}, {overlap:?}, {address} at {time}");
                    let (found, _) = l.at(&s[..], address, time);
                    assert_eq!(found, naive.at(address, time).0, "{what}");
                    let k = ever.partition_point(|i| i.0 <= time);
                    let youngest: Vec<u32> = ever[..k].iter().rev().take(4).map(|i| i.2).collect();
                    let found: Vec<u32> = l.youngest::<4, _>(&s[..], address, time).collect();
                    assert_eq!(found, youngest, "{what}");
                    let odd = |id: u32| id % 3 == 1;
                    let latest = ever[..k].iter().rev().map(|i| i.2).find(|&id| odd(id));
                    assert_eq!(l.latest(&s[..], address, time, odd), latest, "{what}");
                    let next = ever[k..].iter().map(|i| i.2).find(|&id| odd(id));
                    assert_eq!(l.next(&s[..], address, time, odd), next, "{what}");
                }
            }
        }
    }
}

#[test]
fn ranges_are_those_of_the_plain_rules() {
    let mut random = Random::new(11);
    for round in 0..50 {
        let s = some(&mut random, round % 23, 30, 20);
        let naive = Naive::new(&s, Overlap::Replaces);
        for grain in [1, 3, 16] {
            let l = Layer::with_grain((0..s.len() as u32).collect(), &s[..], Overlap::Replaces, grain);
            for from in 0..32 {
                for (to, since, until) in [(from + 1, 0, u64::MAX), (from + 7, 5, 9), (from, 0, 9)] {
                    let mut wanted: Vec<u32> = naive.over(from, to, since, until).collect();
                    wanted.sort_unstable();
                    wanted.dedup();
                    // Nothing covers part of nothing; the plain rules look at where it would be.
                    let wanted = if from < to { wanted } else { Vec::new() };
                    assert_eq!(over(&l, &s, from, to, since, until), wanted, "{round} {grain} {from}");
                }
            }
        }
    }
}

#[test]
fn the_answer_holds_within_its_validity_and_not_beyond() {
    let mut random = Random::new(3);
    for round in 0..17 {
        let mut s = some(&mut random, 1 + round, 20, 12);
        // Nothing dies before it is born: `space` sees to that.
        s.iter_mut().for_each(|s| s.died = s.died.max(s.born + 1));
        for overlap in [Overlap::Replaces, Overlap::Nests] {
            for grain in [1, 16] {
                let l = Layer::with_grain((0..s.len() as u32).collect(), &s[..], overlap, grain);
                for address in 0..42 {
                    for time in 0..16 {
                        let (found, valid) = l.at(&s[..], address, time);
                        assert!(valid.holds(address, time), "{address} {time} {valid:?}");
                        for a in valid.from..valid.to.min(42) {
                            for t in valid.since..valid.until.min(16) {
                                let what = format!("{overlap:?} {address}/{time} vs {a}/{t} {valid:?}");
                                assert_eq!(l.at(&s[..], a, t).0, found, "{what}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_last_one_alive_is_found_across_blocks() {
    let mut random = Random::new(5);
    let died: Vec<u64> =
        (0..3000).map(|i| if i % 700 == 13 { 90 } else { random.unit().to_bits() % 50 }).collect();
    let deaths = Deaths::new(died.clone());
    for (first, end) in [(0, 3000), (5, 2999), (14, 700), (700, 716), (17, 17), (0, 13)] {
        for time in [0, 30, 49, 60, 90] {
            let alive = (first..end).rev().find(|&i| time < died[i]);
            let behind = died[alive.map_or(first, |i| i + 1)..end].iter().copied().max().unwrap_or(0);
            assert_eq!(deaths.last_alive(first, end, time), (alive, behind), "{first}..{end} {time}");
        }
    }
}

/// What a layer keeps for so many spans stays below a few numbers for each, however they lie.
#[test]
fn memory_grows_with_the_spans_and_not_with_their_square() {
    const COUNT: u64 = 1 << 17;
    let per_span = |span: &dyn Fn(u64) -> (u64, u64)| {
        let s: Vec<Span> = (0..COUNT)
            .map(|i| {
                let (from, to) = span(i);
                Span { from, to, born: i, died: i + 1000 }
            })
            .collect();
        let entries = [Overlap::Replaces, Overlap::Nests].map(|o| layer(&s, o).entries());
        assert_eq!(entries[0], entries[1]);
        entries[0] as f64 / COUNT as f64
    };
    let scattered = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
    // The same block again and again, blocks side by side, one address with every size.
    assert_eq!(per_span(&|_| (1 << 20, 2 << 20)), 1.0);
    assert!(per_span(&|i| (i << 20, (i + 1) << 20)) <= 3.0);
    assert!(per_span(&|i| (1 << 20, (1 << 20) + 65536 + scattered(i))) <= 10.0);
    // Any place and size in a heap of a GiB.
    assert!(per_span(&|i| (scattered(i), scattered(i) + 65536 + scattered(3 * i) / 1024)) <= 8.0);
    // All nested, and a staircase: the worst that a file can do.
    assert!(per_span(&|i| (i << 12, (2 * COUNT - i) << 12)) <= 20.0);
    assert!(per_span(&|i| (i << 12, (COUNT + i) << 12)) <= 20.0);
}

/// Blocks of their own sizes at one address, one alive at a time, in a number that doubles: what a lookup goes through
/// grows by a list or two.
#[test]
fn lookups_among_mappings_of_their_own_sizes_do_not_grow_with_their_number() {
    let steps = |count: u64, overlap: Overlap| {
        let scattered = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 36;
        let s: Vec<Span> = (0..count)
            .map(|i| {
                let born = 1000 + 100 * i;
                Span { from: 1 << 30, to: (1 << 30) + 65536 + scattered(i) / 16 * 16, born, died: born + 50 }
            })
            .collect();
        let l = layer(&s, overlap);
        let asked = 1000;
        let all = taken(|| {
            for i in 0..asked {
                let block = i * count / asked;
                let (address, time) = ((1 << 30) + scattered(3 * i) % 65536, 1000 + 100 * block);
                assert_eq!(l.at(&s[..], address, time + 20).0, Some(block as u32));
                assert_eq!(l.at(&s[..], address, time + 70).0, None);
                assert_eq!(l.latest(&s[..], address, time + 20, |_| true), Some(block as u32));
                assert_eq!(l.youngest::<4, _>(&s[..], address, time + 20).next(), Some(block as u32));
            }
        });
        all as f64 / asked as f64
    };
    for overlap in [Overlap::Replaces, Overlap::Nests] {
        let [few, many] = [25_000, 200_000].map(|count| steps(count, overlap));
        // Eight times the blocks: three more lists for each of four lookups, and partly filled cells from 65,536 on.
        assert!(many <= few + 300.0, "{overlap:?}: {few} and {many} steps a block");
    }
}

/// Pages of such blocks, asked for the rows that were there: of three rows each list has three at most.
#[test]
fn the_rows_of_a_page_do_not_take_longer_to_find_among_many_mappings() {
    let steps = |count: u64| {
        let scattered = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 36;
        let s: Vec<Span> = (0..count)
            .map(|i| Span {
                from: 1 << 30,
                to: (1 << 30) + 4096 * (16 + scattered(i) % 25_000),
                born: i,
                died: i + 1,
            })
            .collect();
        let l = layer(&s, Overlap::Replaces);
        let row = |id: u32| id % 3;
        let groups = l.groups(&s[..], 0, u64::MAX, row);
        let pages = 1000;
        let all = taken(|| {
            for page in 0..pages {
                let from = (1 << 30) + page * 4096;
                let mut found = Vec::new();
                l.groups_over(&s[..], &groups, row, (from, from + 4096), |r| found.push(r));
                found.sort_unstable();
                found.dedup();
                assert_eq!(found, [0, 1, 2], "{page}");
            }
        });
        all as f64 / pages as f64
    };
    let [few, many] = [25_000, 200_000].map(steps);
    assert!(many <= few + 100.0 && many < 300.0, "{few} and {many} steps a page");
}

#[test]
fn groups_over_ranges_are_those_of_the_spans_there() {
    let mut random = Random::new(13);
    for round in 0..50 {
        let s = some(&mut random, round % 23, 30, 20);
        for grain in [1, 3, 16] {
            let l = Layer::with_grain((0..s.len() as u32).collect(), &s[..], Overlap::Replaces, grain);
            for (since, until) in [(0, u64::MAX), (5, 9), (12, 12)] {
                let groups = l.groups(&s[..], since, until, |id| id % 3);
                for (from, to) in (0..32).flat_map(|from| [(from, from + 1), (from, from + 7), (from, from)])
                {
                    let mut wanted: Vec<u32> =
                        over(&l, &s, from, to, since, until).iter().map(|id| id % 3).collect();
                    let mut found = Vec::new();
                    l.groups_over(&s[..], &groups, |id| id % 3, (from, to), |g| found.push(g));
                    for list in [&mut wanted, &mut found] {
                        list.sort_unstable();
                        list.dedup();
                    }
                    assert_eq!(found, wanted, "{round} {grain} {from}..{to} {since}..={until}");
                }
            }
        }
    }
}
