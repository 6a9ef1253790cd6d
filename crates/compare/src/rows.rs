//! Objects, functions and nodes of two reports, side by side.

use super::change::{self, Far};
use super::comparable::{Comparable, cpu_seconds};
use super::nodes;
use super::value::{Bytes, Change, NodeChange, NodeSide, RowChange, RowSide};
use nearfar_analyze::{CALLED_FROM, DramLines, FunctionRow, Interval, ObjectRow, Report, base};

/// What a row may be recognised by, the surest first.
type Keys = Vec<Option<(String, String)>>;

/// Pairs of positions; a key that several rows have pairs them in their order.
fn pairs<K: PartialEq>(
    before: &[Vec<Option<K>>],
    after: &[Vec<Option<K>>],
) -> Vec<(Option<usize>, Option<usize>)> {
    let passes = before.iter().chain(after).map(Vec::len).max().unwrap_or(0);
    let mut of_before: Vec<Option<usize>> = vec![None; before.len()];
    let mut taken = vec![false; after.len()];
    for pass in 0..passes {
        for (i, keys) in before.iter().enumerate() {
            let Some(key) = keys[pass].as_ref().filter(|_| of_before[i].is_none()) else { continue };
            let found = (0..after.len()).find(|&j| !taken[j] && after[j][pass].as_ref() == Some(key));
            if let Some(j) = found {
                (of_before[i], taken[j]) = (Some(j), true);
            }
        }
    }
    let first = of_before.iter().enumerate().map(|(i, j)| (Some(i), *j));
    first.chain((0..after.len()).filter(|&j| !taken[j]).map(|j| (None, Some(j)))).collect()
}

/// Without folders: `allocation at a/b.c:1` is `allocation at b.c:1`, a mapped file its own name.
fn brief(name: &str) -> String {
    let name = without_caller(name);
    match name.strip_prefix("allocation at ") {
        Some(at) => format!("allocation at {}", base(at)),
        None if name.starts_with('/') => base(name).to_owned(),
        None => name.to_owned(),
    }
}

/// Which lines call an allocation may differ from run to run.
fn without_caller(name: &str) -> &str {
    name.split(CALLED_FROM).next().unwrap_or(name)
}

/// By name and line; by name, as lines move when code changes; what is only named by its line by the
/// function that allocates it.
fn object_keys(o: &ObjectRow) -> Keys {
    let (name, at) =
        (brief(&o.name), o.allocated_at.as_deref().map_or(String::new(), |at| base(at).to_owned()));
    let file = at.split(':').next().unwrap_or_default().to_owned();
    let site = (o.name_from == "site" && !file.is_empty()).then_some(()).and(o.allocated_in.clone());
    vec![Some((name.clone(), at)), Some((name, String::new())), site.map(|function| (function, file))]
}

fn function_keys(f: &FunctionRow) -> Keys {
    let module = f.module.as_deref().map_or(String::new(), |m| base(m).to_owned());
    vec![Some((f.function.clone(), module)), Some((f.function.clone(), String::new()))]
}

/// Of each object.
pub fn objects(before: &Report, after: &Report, comparable: &Comparable) -> Vec<RowChange> {
    let rows = |r: &Report| {
        let one = |(at, o): (usize, &ObjectRow)| Row {
            keys: object_keys(o),
            name: without_caller(&o.name).to_owned(),
            at: o.allocated_at.clone(),
            side: row(
                r,
                at,
                o.stall_share,
                (o.remote_share, o.remote_share_ci),
                o.page_node_unknown_share,
                o.dram.as_ref(),
            ),
        };
        merged(r.objects.iter().enumerate().map(one))
    };
    compared(rows(before), rows(after), comparable)
}

/// Of each function.
pub fn functions(before: &Report, after: &Report, comparable: &Comparable) -> Vec<RowChange> {
    let rows = |r: &Report| {
        let one = |(at, f): (usize, &FunctionRow)| {
            let ci = f.remote_share.and_then(|s| sampled(r, s, f.stall_share));
            let side =
                row(r, at, f.stall_share, (f.remote_share, ci), r.page_node_unknown_share, f.dram.as_ref());
            Row { keys: function_keys(f), name: f.function.clone(), at: None, side }
        };
        merged(r.functions.iter().enumerate().map(one))
    };
    compared(rows(before), rows(after), comparable)
}

/// An object or function of one report.
struct Row {
    keys: Keys,
    name: String,
    at: Option<String>,
    side: RowSide,
}

/// Rows of one name and line as one: which call chains lead there may differ from run to run.
fn merged(rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let mut all: Vec<Row> = Vec::new();
    for row in rows {
        match all.iter_mut().find(|r| r.keys[0] == row.keys[0]) {
            Some(same) => same.side = sum(&same.side, &row.side),
            None => all.push(row),
        }
    }
    all
}

fn sum(x: &RowSide, y: &RowSide) -> RowSide {
    let share = x.share + y.share;
    let known = |s: &RowSide| s.remote_share.map_or(0.0, |_| s.share * (1.0 - s.page_node_unknown_share));
    let (kx, ky) = (known(x), known(y));
    let mean =
        |a: f64, wa: f64, b: f64, wb: f64| if wa + wb > 0.0 { (a * wa + b * wb) / (wa + wb) } else { a };
    let of = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => Some(mean(a, kx, b, ky)),
        (a, b) => a.or(b),
    };
    let end = |of_end: fn(Interval) -> f64| of(x.remote_share_ci.map(of_end), y.remote_share_ci.map(of_end));
    let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    RowSide {
        rows: [&x.rows[..], &y.rows[..]].concat(),
        share,
        remote_share: of(x.remote_share, y.remote_share),
        // The mean of the ends is wider than the interval of the sum.
        remote_share_ci: end(|i| i.low).zip(end(|i| i.high)).map(|(low, high)| Interval { low, high }),
        page_node_unknown_share: mean(x.page_node_unknown_share, x.share, y.page_node_unknown_share, y.share),
        local_lines: add(x.local_lines, y.local_lines),
        remote_lines: add(x.remote_lines, y.remote_lines),
        cpu_seconds: x.cpu_seconds.zip(y.cpu_seconds).map(|(a, b)| a + b),
    }
}

fn compared(before: Vec<Row>, after: Vec<Row>, comparable: &Comparable) -> Vec<RowChange> {
    let keys = |rows: &[Row]| rows.iter().map(|r| r.keys.clone()).collect::<Vec<_>>();
    let rows = pairs(&keys(&before), &keys(&after)).into_iter().map(|(b, a)| {
        let (b, a) = (b.map(|i| &before[i]), a.map(|j| &after[j]));
        let shown = a.or(b);
        let name = shown.map_or(String::new(), |r| r.name.clone());
        let at = shown.and_then(|r| r.at.clone());
        changed(name, at, b.map(|r| r.side.clone()), a.map(|r| r.side.clone()), comparable)
    });
    sorted(rows.collect())
}

/// The interval of a share of so large a part of the samples.
fn sampled(r: &Report, share: f64, part: f64) -> Option<Interval> {
    let n = r.samples() as f64;
    let spread = match (r.remote_time_share, r.remote_time_share_ci) {
        (Some(share), Some(ci)) => change::spread(share, ci, n),
        _ => 1.0,
    };
    change::interval(share, part * n, spread)
}

fn row(
    r: &Report,
    at: usize,
    share: f64,
    (remote_share, remote_share_ci): (Option<f64>, Option<Interval>),
    page_node_unknown_share: f64,
    dram: Option<&DramLines>,
) -> RowSide {
    RowSide {
        rows: vec![at],
        share,
        remote_share,
        remote_share_ci,
        page_node_unknown_share,
        local_lines: dram.map(|d| d.local),
        remote_lines: dram.map(|d| d.remote),
        cpu_seconds: cpu_seconds(r).map(|s| s * share),
    }
}

fn changed(
    name: String,
    at: Option<String>,
    before: Option<RowSide>,
    after: Option<RowSide>,
    comparable: &Comparable,
) -> RowChange {
    let far = |s: &RowSide| Far {
        share: s.share,
        remote: s.remote_share.zip(s.remote_share_ci),
        unknown: s.page_node_unknown_share,
        lines: s.local_lines.zip(s.remote_lines).map(|(l, r)| (l + r) as f64),
    };
    let change = judged(before.as_ref().map(far), after.as_ref().map(far), comparable);
    RowChange { name, at, change, before, after }
}

fn judged(before: Option<Far>, after: Option<Far>, comparable: &Comparable) -> Change {
    // Counts of different parts of the run are not counts of the same work; their shares are what is left.
    let lines = |f: Far| Far { lines: f.lines.filter(|_| comparable.time.is_ok()), ..f };
    match (before, after) {
        (Some(_), Some(_)) if comparable.shares.is_err() || comparable.work.is_err() => Change::Unknown,
        (Some(b), Some(a)) => change::row(&lines(b), &lines(a)),
        (Some(_), None) => Change::OnlyBefore,
        (None, _) => Change::OnlyAfter,
    }
}

/// The most at risk on either side first, then the largest.
fn sorted(mut rows: Vec<RowChange>) -> Vec<RowChange> {
    let most = |r: &RowChange, of: fn(&RowSide) -> f64| {
        [&r.before, &r.after].into_iter().flatten().map(of).fold(0.0, f64::max)
    };
    // Rounded to a percent: rows that differ by less stay by size.
    let at_risk = |r: &RowChange| (100.0 * most(r, |s| s.share * s.remote_share.unwrap_or(0.0))).round();
    rows.sort_by(|x, y| {
        at_risk(y).total_cmp(&at_risk(x)).then_with(|| most(y, |s| s.share).total_cmp(&most(x, |s| s.share)))
    });
    rows
}

/// Of each node's memory; `order` has the place of each node of the first in the second.
pub fn nodes(
    before: &Report,
    after: &Report,
    order: Option<&[usize]>,
    comparable: &Comparable,
) -> Vec<NodeChange> {
    let (b_ids, a_ids) = (&before.machine.node_ids, &after.machine.node_ids);
    let pairs = match order {
        Some(order) => order.iter().enumerate().map(|(i, &p)| (Some(i), Some(p))).collect(),
        None => {
            let keys = |ids: &[u32]| ids.iter().map(|id| vec![Some(*id)]).collect::<Vec<_>>();
            pairs(&keys(b_ids), &keys(a_ids))
        }
    };
    let far = |s: &NodeSide| Far {
        share: s.share,
        // Nothing there: nothing far.
        remote: s.remote_share.zip(s.remote_share_ci).or((s.share == 0.0).then_some((0.0, EXACTLY_NONE))),
        unknown: s.page_node_unknown_share,
        lines: s.dram.map(|d| (d.local + d.remote) as f64),
    };
    let one = |(b, a): (Option<usize>, Option<usize>)| {
        let (before, after) = (b.map(|i| node(before, i)), a.map(|i| node(after, i)));
        let change = judged(before.as_ref().map(far), after.as_ref().map(far), comparable);
        NodeChange { node: b.map(|i| b_ids[i]), node_after: a.map(|i| a_ids[i]), change, before, after }
    };
    pairs.into_iter().map(one).collect()
}

const EXACTLY_NONE: Interval = Interval { low: 0.0, high: 0.0 };

fn node(r: &Report, i: usize) -> NodeSide {
    let counted = r.counters.is_some();
    let matrix = nodes::matrix(r, counted);
    let column = |i: usize| matrix.iter().map(|row| row[i]).sum::<f64>();
    let all: f64 = (0..matrix.len()).map(column).sum();
    let (mine, near) = (column(i), matrix[i][i]);
    let share = if all > 0.0 { mine / all } else { 0.0 };
    let remote_share = (mine > 0.0).then(|| (mine - near) / mine);
    let remote_share_ci = remote_share.and_then(|s| match counted {
        true => Some(Interval { low: s, high: s }),
        false => sampled(r, s, mine),
    });
    NodeSide {
        threads: nodes::threads(r, r.machine.node_ids[i]),
        share,
        remote_share,
        remote_share_ci,
        page_node_unknown_share: if counted { 0.0 } else { r.page_node_unknown_share },
        dram: counted.then_some(Bytes { local: near as u64, remote: (mine - near) as u64 }),
    }
}
