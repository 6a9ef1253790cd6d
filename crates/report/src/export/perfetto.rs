//! Perfetto's trace: a track for each thread with its phases as slices, in the protocol buffers of `perfetto_trace.proto`
//! (numbers of fields are from there), which ui.perfetto.dev and its trace processor read.

use super::protobuf::Message;
use nearfar_analyze::Report;

/// Fields of `TracePacket`.
mod packet {
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK_DESCRIPTOR: u32 = 60;
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: nothing before this packet is referred to.
const CLEARED: u64 = 1;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;

/// The trace; `None` without phases. Times begin with the recording. It has the intervals that the report has: the
/// 2000 longest.
pub fn trace(report: &Report) -> Option<Vec<u8>> {
    let phases = report.phases.as_ref()?;
    let mut trace = Message::default();
    let track = |thread: usize| thread as u64 + 1;
    for (t, thread) in phases.threads.iter().enumerate() {
        let mut of_thread = Message::default();
        let (mut descriptor, mut whole) = (Message::default(), Message::default());
        of_thread.number(1, thread.pid.into()).number(2, thread.tid.into()).text(5, &thread.name);
        descriptor.number(1, track(t)).bytes(4, &of_thread.0);
        whole.number(packet::SEQUENCE, 1);
        if t == 0 {
            whole.number(packet::SEQUENCE_FLAGS, CLEARED);
        }
        whole.bytes(packet::TRACK_DESCRIPTOR, &descriptor.0);
        trace.bytes(1, &whole.0);
    }
    let ns = |s: f64| (s * 1e9).round() as u64;
    let mut intervals: Vec<_> = phases.intervals.iter().collect();
    intervals.sort_by_key(|i| (i.thread, ns(i.from_s), phases.nodes[i.node].depth));
    // A reader sorts by time; within one time the order here is kept.
    for of_thread in intervals.chunk_by(|a, b| a.thread == b.thread) {
        let track = track(of_thread[0].thread);
        let mut open: Vec<u64> = Vec::new();
        for interval in of_thread {
            let (from, to) = (ns(interval.from_s), ns(interval.to_s));
            while let Some(end) = open.pop_if(|end| *end <= from) {
                event(&mut trace, track, end, None);
            }
            let node = &phases.nodes[interval.node];
            event(&mut trace, track, from, Some((&node.name, &node.source)));
            open.push(to.max(from));
        }
        while let Some(end) = open.pop() {
            event(&mut trace, track, end, None);
        }
    }
    Some(trace.0)
}

/// A slice begins, with its name and category, or the last one ends.
fn event(trace: &mut Message, track: u64, time: u64, begins: Option<(&str, &str)>) {
    let mut event = Message::default();
    event.number(9, if begins.is_some() { SLICE_BEGIN } else { SLICE_END }).number(11, track);
    if let Some((name, category)) = begins {
        event.text(22, category).text(23, name);
    }
    let mut whole = Message::default();
    whole.number(packet::TIMESTAMP, time).number(packet::SEQUENCE, 1);
    whole.bytes(packet::TRACK_EVENT, &event.0);
    trace.bytes(1, &whole.0);
}
