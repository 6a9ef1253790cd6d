//! The region of interest: the time whose samples count, if the program marks one.

use super::hash::IdIndex;
use super::input::Input;
use super::space::Spaces;
use nearfar_recording::SampleSurvey;

/// When samples count, per process.
#[derive(Debug, Default)]
pub struct Region {
    /// Per space: disjoint intervals, both ends included, ascending. A space that marks nothing
    /// has none, so that nothing of it counts. `None`: the whole run counts.
    marked: Option<Vec<Vec<(u64, u64)>>>,
    /// Epochs of a virtual machine that lie inside, ascending; `None`: all count.
    epochs: Option<Vec<u32>>,
    /// First and last time that can count, for blocks of time.
    pub bounds: (u64, u64),
    /// How long that is, ns: without what is between marked parts, of the process that marks most.
    pub length_ns: u64,
}

impl Region {
    /// Reads the marks: phases with an empty name. `whole` ignores them.
    pub fn new(
        input: &Input,
        whole: bool,
        spaces: &Spaces,
        threads: &IdIndex,
        survey: &SampleSurvey,
    ) -> Region {
        let p = &input.phases;
        let all = (survey.first_ns, survey.last_ns);
        let mut marked: Vec<Vec<(u64, u64)>> = vec![Vec::new(); spaces.spaces.len()];
        for i in (0..p.name.len()).filter(|&i| p.name[i].is_empty()) {
            if let Some(thread) = threads.get(p.thread[i]) {
                let space = spaces.position(input.threads.process[thread]);
                marked[space as usize].push((p.begin_ns[i], p.end_ns[i].max(p.begin_ns[i])));
            }
        }
        let epochs = epochs(input, whole);
        // What the virtual machine counted decides there, not what the clock of its guest says.
        let counted = !input.cpu_epochs.epoch.is_empty();
        if whole || marked.iter().all(Vec::is_empty) || counted && epochs.is_none() {
            return Region { marked: None, epochs, bounds: all, length_ns: all.1.saturating_sub(all.0) };
        }
        marked.iter_mut().for_each(join);
        let lists = || marked.iter().flatten();
        let first = lists().map(|r| r.0).min().unwrap_or(all.0).clamp(all.0, all.1);
        let last = lists().map(|r| r.1).max().unwrap_or(all.1).clamp(first, all.1);
        let length = |list: &Vec<(u64, u64)>| {
            list.iter().fold(0u64, |sum, r| sum.saturating_add(r.1.min(last).saturating_sub(r.0.max(first))))
        };
        let length_ns = marked.iter().map(length).max().unwrap_or(0);
        // A forked helper that marks nothing works for the process that does.
        for space in 0..marked.len() {
            let mut at = space;
            for _ in 0..marked.len() {
                match spaces.spaces[at].parent {
                    Some((parent, _)) if marked[at].is_empty() => at = parent as usize,
                    _ => break,
                }
            }
            marked[space] = marked[at].clone();
        }
        Region { marked: Some(marked), epochs, bounds: (first, last), length_ns }
    }

    /// Whether the program marks a region and it is used.
    pub fn is_marked(&self) -> bool {
        self.marked.is_some() || self.epochs.is_some()
    }

    /// Whether an epoch counts.
    #[inline]
    pub fn holds_epoch(&self, epoch: u32) -> bool {
        self.epochs.as_ref().is_none_or(|e| e.binary_search(&epoch).is_ok())
    }

    /// Whether a sample counts; `space` is `None` for a thread that is not known.
    #[inline]
    pub fn holds(&self, space: Option<u32>, time: u64) -> bool {
        let Some(marked) = &self.marked else {
            return true;
        };
        let list = space.map_or(&[][..], |s| &marked[s as usize]);
        let k = list.partition_point(|r| r.0 <= time);
        k > 0 && time <= list[k - 1].1
    }
}

/// The epochs inside the region of interest, if any is and the whole run was not asked for.
fn epochs(input: &Input, whole: bool) -> Option<Vec<u32>> {
    let e = &input.cpu_epochs;
    let inside = (0..e.epoch.len()).filter(|&i| e.region[i] == 1);
    let mut list: Vec<u32> = inside.map(|i| e.epoch[i]).collect();
    list.sort_unstable();
    list.dedup();
    (!whole && !list.is_empty()).then_some(list)
}

/// Sorts intervals and joins those that overlap: several threads may mark the same loop.
fn join(list: &mut Vec<(u64, u64)>) {
    list.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(list.len());
    for &(begin, end) in list.iter() {
        match joined.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((begin, end)),
        }
    }
    *list = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_join_and_hold_both_ends() {
        let mut list = vec![(50, 60), (10, 20), (15, 30)];
        join(&mut list);
        assert_eq!(list, [(10, 30), (50, 60)]);
        let region =
            Region { marked: Some(vec![list, Vec::new()]), epochs: None, bounds: (10, 60), length_ns: 30 };
        let held: Vec<bool> = [9, 10, 30, 31, 50, 61].map(|t| region.holds(Some(0), t)).into();
        assert_eq!(held, [false, true, true, false, true, false]);
        assert!(!region.holds(Some(1), 10) && !region.holds(None, 10));
        assert!(Region::default().holds(None, 0));
    }
}
