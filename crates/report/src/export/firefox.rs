//! The Firefox Profiler's processed profile (profiler.firefox.com): stacks of each thread in the colours of near and far
//! memory, and tracks of both over time.

use super::samples::{Frame as Function, Sample, Samples, Weight};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, GraphColor, ProcessHandle,
    Profile, ReferenceTimestamp, SamplingInterval, ThreadHandle, Timestamp,
};
use std::collections::{BTreeMap, HashMap};

/// Points of a track at most: more than a screen has. // chosen
const POINTS: u64 = 2000;

/// Where a sample's memory was, in the order of its categories and tracks.
const PLACES: [(&str, CategoryColor, GraphColor); 3] = [
    ("far", CategoryColor::Orange, GraphColor::Orange),
    ("near", CategoryColor::Blue, GraphColor::Blue),
    ("unknown", CategoryColor::Gray, GraphColor::Grey),
];

/// The profile as JSON; `started_ms` is when the recording began, milliseconds since 1970. A weight of the format is a
/// whole number of 32 bits: where one of ours is larger, all are divided by a power of a thousand, which the profile's
/// name says.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn profile(samples: &Samples, by: Weight, started_ms: f64) -> serde_json::Result<Vec<u8>> {
    let weighed = || samples.samples.iter().filter_map(|s| Some((s, samples.weight(s, by)?)));
    let largest = weighed().map(|(_, weight)| weight).max().unwrap_or(0);
    let mut divisor = 1u64;
    while largest / divisor > i32::MAX as u64 {
        divisor *= 1000;
    }
    let unit = match divisor {
        1 => samples.unit(by).to_owned(),
        _ => format!("{divisor} {}", samples.unit(by)),
    };
    let name = samples.command.join(" ");
    let began = ReferenceTimestamp::from_millis_since_unix_epoch(started_ms);
    let mut out = Profile::new(&format!("{name} (weights: {unit})"), began, SamplingInterval::from_millis(1));
    out.set_product("nearfar");
    out.set_os_name("Linux");
    // The profiler need not look up symbols: the profile has all names.
    out.set_symbolicated(true);
    let categories = PLACES.map(|(place, color, _)| {
        let words = if place == "unknown" { "memory unknown".to_owned() } else { format!("{place} memory") };
        out.add_category(&words, color)
    });
    let first_ns = samples.samples.iter().map(|s| s.time_ns).min().unwrap_or(0);
    let last_ns = samples.samples.iter().map(|s| s.time_ns).max().unwrap_or(0);
    let at = |ns: u64| Timestamp::from_nanos_since_reference(ns - first_ns);

    let mut threads = Threads::default();
    for (s, weight) in weighed() {
        let (_, thread) = threads.of(samples, s, &mut out);
        let place = place_of(s);
        let stack = stack(samples, s, categories[place], thread, &mut out);
        out.add_sample(thread, at(s.time_ns), stack, CpuDelta::ZERO, (weight / divisor) as i32);
    }

    let step_ns = ((last_ns - first_ns) / POINTS).max(1_000_000);
    let mut tracks: BTreeMap<(u32, usize), BTreeMap<u64, (u64, u32)>> = BTreeMap::new();
    for (s, weight) in weighed() {
        let pid = samples.threads.get(s.thread as usize).map_or(0, |t| t.pid);
        let point = tracks.entry((pid, place_of(s))).or_default();
        let (sum, n) = point.entry((s.time_ns - first_ns) / step_ns).or_default();
        *sum = sum.saturating_add(weight);
        *n += 1;
    }
    for ((pid, place), points) in tracks {
        let Some(&process) = threads.processes.get(&pid) else { continue };
        let (word, _, color) = PLACES[place];
        let what = format!(
            "{} of samples whose memory was {word}, in {} ms each",
            samples.unit(by),
            step_ns as f64 / 1e6
        );
        let counter = out.add_counter(process, word, "Memory", &what);
        out.set_counter_color(counter, color);
        // The format has what is added; ours is a rate, so each point takes back the one before.
        let mut before = 0.0;
        let end = (last_ns - first_ns) / step_ns + 1;
        for step in 0..=end {
            let (sum, n) = points.get(&step).copied().unwrap_or((0, 0));
            let value = sum as f64;
            if value != before || step == 0 || step == end {
                out.add_counter_sample(
                    counter,
                    Timestamp::from_nanos_since_reference(step * step_ns),
                    value - before,
                    n,
                );
            }
            before = value;
        }
    }
    serde_json::to_vec(&out)
}

/// Position in [`PLACES`].
fn place_of(s: &Sample) -> usize {
    let word = Samples::place(s);
    PLACES.iter().position(|p| p.0 == word).unwrap_or(PLACES.len() - 1)
}

/// Processes and threads that have samples.
#[derive(Default)]
struct Threads {
    processes: HashMap<u32, ProcessHandle>,
    threads: HashMap<u32, ThreadHandle>,
}

impl Threads {
    fn of(&mut self, samples: &Samples, s: &Sample, out: &mut Profile) -> (ProcessHandle, ThreadHandle) {
        let about = samples.threads.get(s.thread as usize).cloned().unwrap_or_default();
        let begin = Timestamp::from_nanos_since_reference(0);
        let program = samples.command.first().map_or("", |c| c.rsplit('/').next().unwrap_or(c));
        let process =
            *self.processes.entry(about.pid).or_insert_with(|| out.add_process(program, about.pid, begin));
        let thread = *self.threads.entry(s.thread).or_insert_with(|| {
            let thread = out.add_thread(process, about.tid, begin, about.tid == about.pid);
            out.set_thread_name(thread, &about.name);
            thread
        });
        (process, thread)
    }
}

/// The stack, outermost first, with the object as the innermost frame.
fn stack(
    samples: &Samples,
    s: &Sample,
    category: CategoryHandle,
    thread: ThreadHandle,
    out: &mut Profile,
) -> Option<fxprof_processed_profile::StackHandle> {
    let name = |f: &Function| if f.function.is_empty() { f.module.clone() } else { f.function.clone() };
    let functions = s.stack.iter().rev().filter_map(|&f| samples.frames.get(f as usize)).map(name);
    let object = s.object.and_then(|o| samples.objects.get(o as usize)).map(|o| format!("[{o}]"));
    let frames: Vec<FrameInfo> = functions
        .chain(object)
        .map(|name| FrameInfo {
            frame: Frame::Label(out.intern_string(&name)),
            category_pair: category.into(),
            flags: FrameFlags::empty(),
        })
        .collect();
    out.intern_stack_frames(thread, frames.into_iter())
}
