//! Samples one by one, with what the pass finds out about each: for exports.

use super::attribute::{Located, Worker};
use super::context::Context;
use super::input::SampleReader;
use super::nodes::{NodeIndex, UNKNOWN};
use super::value::Basis;
use nearfar_recording::{AccessSamples, NONE, Resolution, SampleSource};

/// What was found out about a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Position of its thread; `None` if unknown.
    pub thread: Option<u32>,
    /// Node of its cpu; `None` if unknown.
    pub node: Option<u32>,
    /// Node of its memory; `None` if unknown.
    pub page_node: Option<u32>,
    /// Whether that is far; `None` if unknown, or if it touched none.
    pub remote: Option<bool>,
    /// Its object, as position among their names; `None` if unknown.
    pub row: Option<u32>,
    /// What it weighs: ns, lines or loads.
    pub weight: u64,
}

/// Gives every sample that counts, and those of the processor that caches answered, with what was found out about it.
pub fn replay(
    context: &Context,
    samples: &dyn SampleReader,
    each: &mut dyn FnMut(&AccessSamples, usize, &Found),
) -> Result<(), String> {
    let mut worker = Worker::new(context);
    for i in 0..samples.segments() {
        let segment = samples.segment(i)?;
        for i in 0..segment.time_ns.len() {
            if let Some(seen) = look(&mut worker, &segment, i) {
                each(&segment, i, &seen);
            }
        }
    }
    Ok(())
}

/// What the pass finds out about a sample, without counting it.
fn look(worker: &mut Worker, s: &AccessSamples, i: usize) -> Option<Found> {
    let context = worker.context;
    let (measure, nodes) = (context.measure, context.finder.nodes);
    let thread = context.threads.get(s.thread[i]);
    let space = thread.map(|t| context.spaces_of_threads[t]);
    if !measure.in_region(s, i, space, context.region) {
        return None;
    }
    let hardware = s.source[i] == SampleSource::Hardware as u8;
    let answered = (hardware && measure.basis == Basis::MemoryLoads).then(|| u64::from(s.period[i].max(1)));
    let weight = measure.weight(s, i).or(answered)?;
    let resolution = Resolution::from_code(s.resolution[i]).unwrap_or(Resolution::Unresolved);
    let node = nodes.running(thread.map_or(NONE, |t| t as u32), s.cpu[i]);
    let Located { thing, page_node, told, .. } = worker.locate(s, i, space.unwrap_or(0), node, resolution);
    let id = |n: NodeIndex| nodes.ids.get(usize::from(n)).copied();
    let by_page = (page_node.node != UNKNOWN).then(|| worker.class(node, page_node) != 0);
    Some(Found {
        thread: thread.map(|t| t as u32),
        node: id(node),
        page_node: id(page_node.node),
        remote: by_page.or(told),
        row: thing.map(|t| context.rows.of_thing[t as usize]),
        weight,
    })
}
