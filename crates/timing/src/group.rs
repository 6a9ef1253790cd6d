//! Cores that ask the same per line are one class of the network with several
//! members: of 44 cores that share a loop, two classes remain.

use super::demand::Class;

/// Largest difference that passes for the same, as a part of what a line takes.
const SAME: f64 = 0.04;

/// Classes that are alike.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The mean of its members, by their lines.
    pub class: Class,
    /// Positions of its members.
    pub members: Vec<usize>,
}

/// Groups the classes that request lines.
pub(super) fn groups(classes: &[Class]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (c, class) in classes.iter().enumerate().filter(|(_, class)| class.requests > 0.0) {
        match groups.iter_mut().find(|g| same(&g.class, class)) {
            Some(group) => {
                add(&mut group.class, class);
                group.members.push(c);
            }
            None => groups.push(Group { class: class.clone(), members: vec![c] }),
        }
    }
    groups
}

fn same(a: &Class, b: &Class) -> bool {
    if a.node != b.node {
        return false;
    }
    let scale = a.latency_ns / a.requests + a.core + a.walk;
    let mut apart = (a.core - b.core).abs() + (a.walk - b.walk).abs();
    apart += both(&a.demands, &b.demands).map(|(_, x, y)| (x - y).abs()).sum::<f64>();
    if apart > SAME * scale || (a.population / b.population - 1.0).abs() > SAME {
        return false;
    }
    let delays: f64 = both(&a.delays, &b.delays).map(|(_, x, y)| (x - y).abs()).sum();
    delays / a.population <= SAME * scale
}

fn add(sum: &mut Class, class: &Class) {
    let all = sum.requests + class.requests;
    let (old, new) = (sum.requests / all, class.requests / all);
    let mean = |x: f64, y: f64| x * old + y * new;
    let list = |x: &[(u32, f64)], y: &[(u32, f64)]| both(x, y).map(|(at, x, y)| (at, mean(x, y))).collect();
    sum.delays = list(&sum.delays, &class.delays);
    sum.growth = list(&sum.growth, &class.growth);
    sum.demands = list(&sum.demands, &class.demands);
    sum.core = mean(sum.core, class.core);
    sum.walk = mean(sum.walk, class.walk);
    sum.core_ns += class.core_ns;
    sum.walk_ns += class.walk_ns;
    sum.waited_ns += class.waited_ns;
    sum.latency_ns += class.latency_ns;
    sum.population = (sum.waited_ns / sum.latency_ns).max(1.0);
    sum.requests = all;
}

/// Two sparse lists, ascending by index, side by side; what one lacks is 0 there.
fn both<'a>(x: &'a [(u32, f64)], y: &'a [(u32, f64)]) -> impl Iterator<Item = (u32, f64, f64)> + 'a {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        let at = match (x.get(i), y.get(j)) {
            (Some(a), Some(b)) => a.0.min(b.0),
            (Some(a), None) => a.0,
            (None, Some(b)) => b.0,
            (None, None) => return None,
        };
        let take = |list: &[(u32, f64)], k: &mut usize| match list.get(*k) {
            Some(&(index, value)) if index == at => {
                *k += 1;
                value
            }
            _ => 0.0,
        };
        Some((at, take(x, &mut i), take(y, &mut j)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(node: usize, requests: f64, demands: &[(u32, f64)]) -> Class {
        Class {
            requests,
            population: 10.0,
            node,
            delays: vec![(0, 85.0)],
            demands: demands.to_vec(),
            waited_ns: 85.0 * requests,
            latency_ns: 8.5 * requests,
            ..Class::default()
        }
    }

    #[test]
    fn members_are_alike_and_their_sum_is_kept() {
        let classes = [
            class(0, 100.0, &[(0, 1.0)]),
            class(0, 300.0, &[(0, 1.1), (2, 0.1)]),
            class(0, 0.0, &[]),
            class(1, 100.0, &[(0, 1.0)]),
            class(0, 100.0, &[(0, 1.5)]),
            class(0, 50.0, &[(0, 1.05)]),
        ];
        let groups = groups(&classes);
        let members: Vec<&[usize]> = groups.iter().map(|g| &g.members[..]).collect();
        assert_eq!(members, [&[0, 1, 5][..], &[3], &[4]]);
        let sum = &groups[0].class;
        assert_eq!(sum.requests, 450.0);
        let asked: Vec<(u32, f64)> = sum.demands.iter().map(|(at, ns)| (*at, ns * sum.requests)).collect();
        assert_eq!(asked.iter().map(|a| a.0).collect::<Vec<_>>(), [0, 2]);
        assert!((asked[0].1 - (100.0 + 330.0 + 52.5)).abs() < 1e-9 && (asked[1].1 - 30.0).abs() < 1e-9);
        assert!((sum.population - 10.0).abs() < 1e-12);
    }
}
