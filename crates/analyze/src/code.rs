//! The report's rows of code: functions, and the lines that use an object.

use super::context::Context;
use super::counters::{Counters, LineUse};
use super::hash::FastMap;
use super::input::Input;
use super::object_rows::RowUse;
use super::shares::share;
use super::sites::{NAMELESS, function_of};
use super::thresholds::MOST_ROWS;
use super::value::{Basis, Bound, CallPath, DramLines, FunctionRow, UseRow};

/// Lines of code listed per object and function.
const MOST_LINES: usize = 10;

/// Paths of calls listed, and frames of each.
const MOST_PATHS: usize = 20;
const MOST_FRAMES: usize = 12;

/// Where the answers of the pass over samples are.
#[derive(Clone, Copy)]
pub struct Code<'a> {
    /// What samples were looked up in.
    pub context: &'a Context<'a>,
    /// What was counted.
    pub counters: &'a Counters,
}

impl Code<'_> {
    fn total(&self) -> f64 {
        self.counters.total.weight.max(1) as f64
    }

    /// Lines as samples stand for them; `None` where samples stand for time.
    fn dram(&self, lines: &[LineUse], bound: Vec<Bound>) -> Option<DramLines> {
        if self.context.measure.basis != Basis::DramLines {
            return None;
        }
        let remote: u64 = lines.iter().map(|l| l.remote).sum();
        let known: u64 = lines.iter().map(|l| l.known).sum();
        Some(DramLines { local: known - remote, remote, exact: false, windows_error: None, bound })
    }

    /// Resources with the weight that they bound, most first.
    fn bound(&self, weights: impl Iterator<Item = (u16, u64)>) -> Vec<Bound> {
        let Some(timing) = self.context.timing else {
            return Vec::new();
        };
        let mut sums = vec![0u64; timing.resources.len()];
        weights.for_each(|(resource, weight)| sums[usize::from(resource)] += weight);
        let all: u64 = sums.iter().sum();
        let bound = |(&binds, &weight)| Bound { binds, share: share(weight, all) };
        let mut list: Vec<Bound> =
            timing.resources.iter().zip(&sums).filter(|b| *b.1 > 0).map(bound).collect();
        list.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.binds.cmp(&b.binds)));
        list
    }

    /// Paths of calls with most samples; chains that differ only within libraries are one.
    pub fn call_paths(&self) -> Vec<CallPath> {
        let mut paths: FastMap<Vec<u32>, [u64; 2]> = FastMap::default();
        for (&chain, &[weight, remote]) in &self.counters.paths {
            let frames = self.context.sites.frames(chain).iter().take(MOST_FRAMES);
            let frames: Vec<u32> = frames.map(|f| f.site).collect();
            if !frames.is_empty() {
                let sum = paths.entry(frames).or_default();
                sum[0] += weight;
                sum[1] += remote;
            }
        }
        let mut paths: Vec<(Vec<u32>, [u64; 2])> = paths.into_iter().collect();
        paths.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        paths.truncate(MOST_PATHS);
        let name = |&site: &u32| {
            let site = self.context.sites.get(site);
            match (&site.function, &site.at) {
                (Some(function), Some(at)) => format!("{function} ({at})"),
                (Some(one), None) | (None, Some(one)) => one.clone(),
                (None, None) => NAMELESS.to_owned(),
            }
        };
        let path = |(frames, [weight, remote]): (Vec<u32>, [u64; 2])| CallPath {
            share: weight as f64 / self.total(),
            remote: remote as f64 / self.total(),
            frames: frames.iter().map(name).collect(),
        };
        paths.into_iter().map(path).collect()
    }

    fn use_row(&self, site: u32, line: &LineUse, bound: Vec<Bound>) -> UseRow {
        let site = self.context.sites.get(site);
        let known = line.known > 0 && self.context.finder.nodes.count > 1;
        let of_all = |weight: u64| known.then(|| weight as f64 / self.total());
        UseRow {
            at: site.at.clone(),
            function: site.function.clone(),
            stall_share: line.sum.weight as f64 / self.total(),
            remote_share: known.then(|| share(line.remote, line.known)),
            near_share: of_all(line.known.saturating_sub(line.remote)),
            at_risk: of_all(line.remote),
            dram: self.dram(&[*line], bound),
        }
    }

    /// Where an object is used, most first.
    pub fn used_at(&self, f: &RowUse) -> Vec<UseRow> {
        let row = f.row as u32;
        let bound = |site: u32| {
            let of = |r: u16| Some((r, *self.counters.line_bounds.get(&(row, site, r))?));
            self.bound(self.resources().filter_map(of))
        };
        f.lines.iter().take(MOST_LINES).map(|(s, l)| self.use_row(*s, l, bound(*s))).collect()
    }

    /// An object's lines from and to DRAM: counted if they were.
    pub fn of_object(&self, f: &RowUse) -> Option<DramLines> {
        let row = f.row as u32;
        let of = |site: u32| {
            self.resources().filter_map(move |r| Some((r, *self.counters.line_bounds.get(&(row, site, r))?)))
        };
        let bound = self.bound(f.lines.iter().flat_map(|l| of(l.0)));
        let lines: Vec<LineUse> = f.lines.iter().map(|l| l.1).collect();
        let windows_error = f.windows.map(|errors| errors.lines);
        let sampled = DramLines { windows_error, ..self.dram(&lines, bound)? };
        Some(match f.exact {
            Some(l) => DramLines {
                local: l.local().round() as u64,
                remote: l.remote().round() as u64,
                exact: true,
                ..sampled
            },
            None => sampled,
        })
    }

    fn resources(&self) -> std::ops::Range<u16> {
        0..self.context.timing.map_or(0, |p| p.resources.len() as u16)
    }

    /// Functions, most first.
    pub fn functions(&self, input: &Input) -> Vec<FunctionRow> {
        let mut by_function: FastMap<(String, u32), Vec<(u32, LineUse)>> = FastMap::default();
        for (&site, line) in self.counters.functions.iter() {
            let (name, module) = function_of(self.context.sites.get(site));
            by_function.entry((name.to_owned(), module.unwrap_or(u32::MAX))).or_default().push((site, *line));
        }
        let of = |site: u32| {
            let at = move |r: u16| Some((r, *self.counters.function_bounds.get(&(site, r))?));
            self.resources().filter_map(at)
        };
        let mut rows: Vec<FunctionRow> = Vec::new();
        for ((function, module), mut lines) in by_function {
            lines.sort_by_key(|l| (std::cmp::Reverse(l.1.sum.weight), l.0));
            let sum = |f: fn(&LineUse) -> u64| lines.iter().map(|l| f(&l.1)).sum::<u64>();
            let known = sum(|l| l.known);
            let all: Vec<LineUse> = lines.iter().map(|l| l.1).collect();
            let most = lines.iter().take(MOST_LINES);
            rows.push(FunctionRow {
                function,
                module: input.modules.path.get(module as usize).cloned(),
                stall_share: sum(|l| l.sum.weight) as f64 / self.total(),
                remote_share: (known > 0 && self.context.finder.nodes.count > 1)
                    .then(|| share(sum(|l| l.remote), known)),
                waiting_share: sum(|l| l.waits) as f64 / self.total(),
                dram: self.dram(&all, self.bound(lines.iter().flat_map(|l| of(l.0)))),
                lines: most.map(|(s, l)| self.use_row(*s, l, self.bound(of(*s)))).collect(),
            });
        }
        rows.sort_by(|a, b| {
            b.stall_share.total_cmp(&a.stall_share).then_with(|| a.function.cmp(&b.function))
        });
        rows.truncate(MOST_ROWS);
        rows
    }
}
