//! The run over time: near and far, threads, and what memory and links had to do.

use super::drawing::{Anchor, Drawing, node_class};
use super::source::source;
use crate::counted::{digits, seconds_short};
use crate::layout::shorten;
use nearfar_analyze::{Report, Timeline, TimelineClock};

const LEFT: f64 = 150.0;
const WIDTH: f64 = 900.0;
const INNER: f64 = WIDTH - LEFT - 20.0;

struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn x(&self, t: f64) -> f64 {
        LEFT + ((t - self.from) / (self.to - self.from).max(1e-12)).clamp(0.0, 1.0) * INNER
    }

    fn draw(&self, d: &mut Drawing, y: f64) {
        d.line("grid", (LEFT, y), (LEFT + INNER, y));
        for (part, anchor) in [(0.0, Anchor::Start), (0.5, Anchor::Middle), (1.0, Anchor::End)] {
            let t = self.from + part * (self.to - self.from);
            d.text(self.x(t), y + 14.0, "small", anchor, &seconds_short(t));
        }
    }
}

fn axis(c: &Timeline) -> Axis {
    Axis { from: c.from_s, to: c.to_s }
}

fn part(c: &Timeline, p: usize) -> f64 {
    c.from_s + (c.to_s - c.from_s) * p as f64 / c.parts.max(1) as f64
}

/// A row for each phase.
fn phases(d: &mut Drawing, r: &Report, axis: &Axis, mut y: f64) -> f64 {
    let mut names: Vec<&str> = Vec::new();
    for p in &r.pictures.phases {
        if !names.contains(&p.name.as_str()) {
            names.push(&p.name);
        }
    }
    for name in names.into_iter().take(8) {
        d.text(
            10.0,
            y + 11.0,
            "small",
            Anchor::Start,
            if name.is_empty() { "region of interest" } else { name },
        );
        for p in r.pictures.phases.iter().filter(|p| p.name == name) {
            let (from, to) = (axis.x(p.from_s), axis.x(p.to_s));
            d.rect("phase", (from, y + 1.0), ((to - from).max(1.0), 11.0));
        }
        y += 16.0;
    }
    y
}

/// Near, far and the rest; `None` without samples.
pub(super) fn timeline(r: &Report) -> Option<Drawing> {
    let c = r.pictures.timeline.as_ref()?;
    let clock = match c.clock {
        TimelineClock::Recorded => "",
        TimelineClock::Simulated => ", in the time that the work takes on the machine",
    };
    let mut d = Drawing::new(WIDTH, &format!("Near and far over time, by {}{clock}", r.basis.words()));
    let axis = axis(c);
    let (high, bottom) = (140.0, Drawing::TOP + 140.0);
    let lists =
        [("near", &c.all.near), ("far", &c.all.far), ("unknown", &c.all.other), ("wait", &c.all.waiting)];
    let sum = |p: usize| lists.iter().map(|l| l.1.get(p).copied().unwrap_or(0)).sum::<u32>();
    let most = f64::from((0..c.parts).map(sum).max().unwrap_or(1).max(1));
    for p in 0..c.parts {
        let (x, width) = (axis.x(part(c, p)), axis.x(part(c, p + 1)) - axis.x(part(c, p)));
        let mut y = bottom;
        for (class, list) in lists {
            let own = f64::from(list.get(p).copied().unwrap_or(0)) / most * high;
            y -= own;
            if own > 0.0 {
                d.rect(class, (x, y), (width, own));
            }
        }
    }
    d.text(10.0, Drawing::TOP + 12.0, "small", Anchor::Start, &format!("share of {}", r.basis.words()));
    axis.draw(&mut d, bottom);
    phases(&mut d, r, &axis, bottom + 22.0);
    let keys =
        [("near", "near"), ("far", "far"), ("unknown", "no memory, or node unknown"), ("wait", "waiting")];
    d.keys(&keys.map(|(class, words)| (class, words.to_owned())));
    d.foot(&source(r));
    Some(d)
}

/// Where each thread was; `None` where threads are not followed over time.
pub(super) fn threads(r: &Report) -> Option<Drawing> {
    let c = r.pictures.timeline.as_ref().filter(|c| !c.threads.is_empty())?;
    let axis = axis(c);
    let mut d = Drawing::new(WIDTH, "Threads over time: node, and how busy");
    let lane = 13.0;
    let of = |list: &[u32], p: usize| list.get(p).copied().unwrap_or(0);
    let weight = |t: &nearfar_analyze::ThreadParts, p: usize| {
        let w = &t.weights;
        of(&w.near, p) + of(&w.far, p) + of(&w.other, p) + of(&w.waiting, p)
    };
    let most =
        c.threads.iter().flat_map(|t| (0..c.parts).map(move |p| weight(t, p))).max().unwrap_or(1).max(1);
    let mut y = Drawing::TOP;
    for t in &c.threads {
        let row = r.threads.iter().find(|row| row.tid == t.tid);
        let name = row.map_or(String::new(), |row| format!("{} {}", row.index, row.name));
        d.text(10.0, y + 10.0, "small", Anchor::Start, &shorten(&name, 22));
        let node =
            row.and_then(|row| row.node).and_then(|id| r.machine.node_ids.iter().position(|&n| n == id));
        for p in (0..c.parts).filter(|&p| weight(t, p) > 0) {
            let (x, width) = (axis.x(part(c, p)), axis.x(part(c, p + 1)) - axis.x(part(c, p)));
            let high = f64::from(weight(t, p)) / f64::from(most) * (lane - 2.0);
            let waits = f64::from(of(&t.weights.waiting, p)) / f64::from(most) * (lane - 2.0);
            d.rect(&node_class(node), (x, y + lane - high + waits), (width, high - waits));
            if waits > 0.0 {
                d.rect("unknown", (x, y + lane - high), (width, waits));
            }
        }
        y += lane;
    }
    axis.draw(&mut d, y + 2.0);
    let ids = r.machine.node_ids.iter().take(8).enumerate();
    let own: Vec<(String, String)> =
        ids.map(|(at, id)| (node_class(Some(at)), format!("node {id}"))).collect();
    let mut keys: Vec<(&str, String)> = own.iter().map(|(c, w)| (c.as_str(), w.clone())).collect();
    keys.push(("unknown", "waiting".to_owned()));
    d.keys(&keys);
    d.foot(&source(r));
    Some(d)
}

/// GB/s of each memory and link; `None` where no lines were counted and timed.
pub(super) fn bandwidth(r: &Report) -> Option<Drawing> {
    let c = r.counters.as_ref()?;
    let (first, last) = (c.timeline.first()?, c.timeline.last()?);
    let axis = Axis { from: first.from_s, to: last.to_s };
    let mut d = Drawing::new(WIDTH, "Bandwidth of memory and links over time");
    let mut y = Drawing::TOP;
    let mut lane =
        |d: &mut Drawing, name: &str, class: &str, limit: Option<f64>, of: &dyn Fn(usize) -> f64| {
            let (high, bottom) = (38.0, y + 44.0);
            let most = (0..c.timeline.len()).map(of).fold(limit.unwrap_or(1e-9), f64::max).max(1e-9);
            let mut path = format!("M{LEFT:.1} {bottom:.1}");
            for (i, m) in c.timeline.iter().enumerate() {
                path.push_str(&format!("V{:.1}H{:.1}", bottom - of(i) / most * high, axis.x(m.to_s)));
            }
            d.path(class, &format!("{path}V{bottom:.1}z"), bottom);
            d.text(10.0, y + 18.0, "", Anchor::Start, name);
            let of_most = limit.map_or("of unknown".to_owned(), |l| format!("of {} GB/s", digits(l)));
            d.text(10.0, y + 32.0, "small", Anchor::Start, &of_most);
            if let Some(limit) = limit {
                let at = bottom - limit / most * high;
                d.line("dash", (LEFT, at), (LEFT + INNER, at));
            }
            y = bottom + 4.0;
        };
    for (n, load) in c.bandwidth.iter().enumerate() {
        let position = r.machine.node_ids.iter().position(|&id| id == load.node);
        let rate = |i: usize| c.timeline[i].nodes.get(n).map_or(0.0, |m| m.read_gb_per_s + m.write_gb_per_s);
        let name = format!("memory of node {}", load.node);
        lane(&mut d, &name, &node_class(position), load.sustained_gb_per_s, &rate);
    }
    for (n, link) in c.links.iter().enumerate().take(24) {
        let rate = |i: usize| c.timeline[i].links_gb_per_s.get(n).copied().unwrap_or(0.0);
        lane(&mut d, &format!("link {}→{}", link.from, link.to), "medium", link.capacity_gb_per_s, &rate);
    }
    axis.draw(&mut d, y);
    phases(&mut d, r, &axis, y + 22.0);
    d.foot("dashed: what it sustains. Source: lines counted on an emulated machine, time by its figures");
    Some(d)
}

/// How long each memory and link had little, medium or much to do.
pub(super) fn usage(r: &Report) -> Option<Drawing> {
    let c = r.counters.as_ref()?;
    let nodes = c.bandwidth.iter().map(|b| (format!("memory of node {}", b.node), [b.low, b.medium, b.high]));
    let links = c.links.iter().map(|l| (format!("link {}→{}", l.from, l.to), [l.low, l.medium, l.high]));
    let rows: Vec<(String, [Option<f64>; 3])> = nodes.chain(links).take(40).collect();
    if rows.is_empty() {
        return None;
    }
    let mut d = Drawing::new(640.0, "Use of bandwidth, share of the time");
    for (at, (name, levels)) in rows.iter().enumerate() {
        let y = Drawing::TOP + at as f64 * 20.0;
        d.text(10.0, y + 12.0, "", Anchor::Start, name);
        d.rect("frame", (LEFT, y), (460.0, 14.0));
        let mut x = LEFT;
        for (class, level) in ["low", "medium", "high"].iter().zip(levels) {
            let width = level.unwrap_or(0.0) * 460.0;
            d.rect(class, (x, y), (width, 14.0));
            x += width;
        }
        if levels[0].is_none() {
            d.rect("unknown", (LEFT, y), (460.0, 14.0));
        }
    }
    let keys = [
        ("low", "below half"),
        ("medium", "half to four fifths"),
        ("high", "above four fifths of what it sustains"),
        ("unknown", "unknown"),
    ];
    d.keys(&keys.map(|(class, words)| (class, words.to_owned())));
    d.foot("source: lines counted on an emulated machine, time by its figures");
    Some(d)
}
