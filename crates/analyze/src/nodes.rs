//! Threads and nodes: which thread runs where on the machine that the report judges by.

mod working;

use super::hash::{FastMap, IdIndex};
use super::input::{Input, Judge};
use nearfar_machine::binding::assign;
use nearfar_machine::{DistanceClass, Machine};
use nearfar_recording::NONE;
use nearfar_recording::SampleSurvey;

/// Position of a node in `machine.nodes`; [`UNKNOWN`] if the node is not known.
pub type NodeIndex = u8;
/// No known node.
pub const UNKNOWN: NodeIndex = u8::MAX;
/// Most nodes that a report can tell apart.
pub const MAX_NODES: usize = 254;

/// Distance classes in the order of the counts.
pub const CLASSES: [DistanceClass; 4] =
    [DistanceClass::Local, DistanceClass::SameSocket, DistanceClass::OtherSocket, DistanceClass::CpuLess];

/// Position of a distance class among the counts.
pub fn class(class: DistanceClass) -> usize {
    CLASSES.iter().position(|&c| c == class).unwrap_or(0)
}

/// Threads and cpus as nodes of the judged machine.
#[derive(Debug)]
pub struct Nodes {
    /// Number of nodes.
    pub count: usize,
    /// Kernel numbers, in the order of the machine.
    pub ids: Vec<u32>,
    /// Whether the machine is assumed.
    pub assumed: bool,
    /// Per thread (position in the threads table), on an assumed machine.
    of_thread: Vec<NodeIndex>,
    /// Per thread: position among the threads in creation order.
    pub order: Vec<u32>,
    /// Threads that hardly ran, and were put with the first of their process that did.
    pub followed: Vec<u32>,
    of_cpu: Vec<NodeIndex>,
    classes: Vec<DistanceClass>,
}

impl Nodes {
    /// Assigns threads to nodes.
    pub fn new(input: &Input, judge: &Judge, survey: &SampleSurvey, threads: &IdIndex) -> Nodes {
        let machine = &judge.machine;
        let ids: Vec<u32> = machine.nodes.iter().map(|n| n.id).collect();
        let index = |id: u32| ids.iter().position(|&n| n == id).map_or(UNKNOWN, |n| n as NodeIndex);
        let total = input.threads.id.len();
        let mut creation: Vec<usize> = (0..total).collect();
        creation.sort_by_key(|&t| input.threads.id[t]);
        let mut order = vec![0u32; total];
        for (i, &t) in creation.iter().enumerate() {
            order[t] = i as u32;
        }
        let mut of_thread = vec![UNKNOWN; total];
        let mut followed = Vec::new();
        if let Some(bind) = judge.assume {
            let mut sampled = vec![false; total];
            for &id in &survey.threads {
                if let Some(t) = threads.get(id) {
                    sampled[t] = true;
                }
            }
            let mut sampled: Vec<usize> = creation.iter().copied().filter(|&t| sampled[t]).collect();
            let mut begun: FastMap<u32, u32> = FastMap::default();
            for &t in &creation {
                begun.entry(input.threads.process[t]).or_insert(order[t]);
            }
            sampled.sort_by_key(|&t| (begun[&input.threads.process[t]], order[t]));
            for (t, node) in
                working::nodes(&sampled, &input.threads, survey, |count| assign(count, machine, bind))
            {
                of_thread[t] = index(node);
            }
            follow(input, &creation, &mut of_thread, &mut followed);
        }
        let mut of_cpu = Vec::new();
        for (n, node) in machine.nodes.iter().enumerate() {
            for cpu in node.cpus.iter() {
                let cpu = cpu as usize;
                if of_cpu.len() <= cpu {
                    of_cpu.resize(cpu + 1, UNKNOWN);
                }
                of_cpu[cpu] = n as NodeIndex;
            }
        }
        let classes = classes(machine, &ids);
        let assumed = judge.assume.is_some();
        Nodes { count: ids.len(), ids, assumed, of_thread, order, followed, of_cpu, classes }
    }

    /// Node of a thread, on an assumed machine.
    #[inline]
    pub fn of_thread(&self, thread: u32) -> NodeIndex {
        if thread == NONE { UNKNOWN } else { self.of_thread[thread as usize] }
    }

    /// Node of a cpu of the judged machine.
    #[inline]
    pub fn of_cpu(&self, cpu: u16) -> NodeIndex {
        self.of_cpu.get(cpu as usize).copied().unwrap_or(UNKNOWN)
    }

    /// Node where a thread is while it runs on a cpu: the assigned one on an assumed machine.
    #[inline]
    pub fn running(&self, thread: u32, cpu: u16) -> NodeIndex {
        if self.assumed { self.of_thread(thread) } else { self.of_cpu(cpu) }
    }

    /// Position of a kernel node number.
    pub fn position(&self, id: i16) -> NodeIndex {
        self.ids.iter().position(|&n| i64::from(n) == i64::from(id)).map_or(UNKNOWN, |n| n as NodeIndex)
    }

    /// How far memory on `page_node` is from a cpu on `from`.
    pub fn class(&self, from: NodeIndex, page_node: NodeIndex) -> DistanceClass {
        self.classes[from as usize * self.count + page_node as usize]
    }
}

/// Threads that hardly ran: with the first thread of their process that has a node, for want of
/// better knowledge (they are usually that process's main thread's helpers); else with the first of all.
fn follow(input: &Input, creation: &[usize], of_thread: &mut [NodeIndex], followed: &mut Vec<u32>) {
    let known = of_thread.to_vec();
    let first = creation.iter().map(|&t| known[t]).find(|&n| n != UNKNOWN).unwrap_or(0);
    for &t in creation {
        if known[t] == UNKNOWN {
            let process = input.threads.process[t];
            let peers = creation.iter().filter(|&&o| input.threads.process[o] == process);
            of_thread[t] = peers.map(|&o| known[o]).find(|&n| n != UNKNOWN).unwrap_or(first);
            followed.push(t as u32);
        }
    }
}

fn classes(machine: &Machine, ids: &[u32]) -> Vec<DistanceClass> {
    ids.iter().flat_map(|&from| ids.iter().map(move |&to| machine.distance_class(from, to))).collect()
}
