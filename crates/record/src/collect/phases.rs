//! Phases of threads: which one is in which, and how each ended.

use super::agent::{PhaseCall, PhaseCount};
use super::events::Interpreter;
use crate::store::Tables;
use nearfar_recording::{Columns, NONE, Phase, PhaseEnd};
use std::collections::HashMap;

/// Phases that threads are in, outermost first.
#[derive(Default)]
pub struct Phases {
    /// By thread.
    open: HashMap<u32, Vec<Open>>,
    next_id: u32,
}

/// A phase that has begun.
struct Open {
    /// The agent's number of it.
    number: u32,
    process: u32,
    inherited: bool,
    /// All but its end.
    row: Phase,
}

impl Phases {
    /// A thread begins a phase.
    pub fn begin(&mut self, pid: u32, tid: u32, call: PhaseCall, to: &mut Interpreter, tables: &mut Tables) {
        let process = to.processes.space_of(pid, call.time_ns, tables);
        let thread = to.processes.thread(pid, tid, call.time_ns, tables);
        let begin_at = place(process, call.site, to, tables);
        let stack = self.open.entry(thread).or_default();
        let parent = stack.last().map_or(NONE, |outer| outer.row.id);
        let id = self.next_id;
        self.next_id += 1;
        let row = Phase {
            id,
            parent,
            source: call.source,
            begin_at,
            begin_place: call.place.into(),
            ..Phase::plain(thread, call.name, call.time_ns, u64::MAX)
        };
        stack.push(Open { number: call.id, process, inherited: call.inherited, row });
    }

    /// A thread ends a phase, its own or another thread's.
    pub fn end(&mut self, pid: u32, tid: u32, call: PhaseCall, to: &mut Interpreter, tables: &mut Tables) {
        let process = to.processes.space_of(pid, call.time_ns, tables);
        let thread = to.processes.thread(pid, tid, call.time_ns, tables);
        let how = match call.how {
            0 => PhaseEnd::Ended,
            1 => PhaseEnd::Unwound,
            2 => PhaseEnd::Elsewhere,
            3 => PhaseEnd::ThreadEnded,
            4 => PhaseEnd::Exited,
            _ => return,
        };
        let end_at = place(process, call.site, to, tables);
        let end = End { how, time_ns: call.time_ns, at: end_at, place: call.place };
        if how == PhaseEnd::Elsewhere {
            return self.end_of_another(process, thread, call.name, end, tables);
        }
        let Some(stack) = self.open.get_mut(&thread) else { return };
        let Some(at) = stack.iter().rposition(|open| open.number == call.id) else {
            return; // its beginning was lost, or another thread has ended it
        };
        // What is still inside has lost its end.
        for inside in stack.drain(at + 1..).rev() {
            inside.close(End { how: PhaseEnd::Open, at: NONE, place: String::new(), ..end }, tables);
        }
        if let Some(open) = stack.pop() {
            open.close(end, tables);
        }
    }

    /// The latest phase of the name in another thread of the process ends.
    fn end_of_another(&mut self, process: u32, thread: u32, name: String, end: End, tables: &mut Tables) {
        let of = |open: &Open| open.process == process && open.row.name == name;
        let inside = |(&thread, stack): (&u32, &Vec<Open>)| {
            let at = stack.iter().rposition(of)?;
            Some((stack[at].row.begin_ns, thread, at))
        };
        if let Some((_, thread, at)) = self.open.iter().filter_map(inside).max() {
            let stack = self.open.get_mut(&thread).expect("found above");
            let inside: Vec<Open> = stack.drain(at + 1..).collect();
            let closed = stack.pop().expect("found above");
            // Those inside go on in the phase around it, as the agent knows them.
            let parent = closed.row.parent;
            stack.extend(inside.into_iter().map(|mut open| {
                if open.row.parent == closed.row.id {
                    open.row.parent = parent;
                }
                open
            }));
            closed.close(end, tables);
        } else {
            let plain = Phase::plain(thread, name, end.time_ns, end.time_ns);
            let how = PhaseEnd::NotBegun as u8;
            tables.phases.push(Phase { how, end_at: end.at, end_place: end.place.into(), ..plain });
        }
    }

    /// The recording ends.
    pub fn close(&mut self, tables: &mut Tables) {
        let mut open: Vec<Open> = self.open.drain().flat_map(|(_, stack)| stack).collect();
        open.sort_by_key(|open| open.row.id);
        for open in open {
            let how = PhaseEnd::Open;
            open.close(End { how, time_ns: u64::MAX, at: NONE, place: String::new() }, tables);
        }
    }
}

/// How a phase ends.
struct End {
    how: PhaseEnd,
    time_ns: u64,
    at: u32,
    place: String,
}

impl Open {
    fn close(self, end: End, tables: &mut Tables) {
        // A child that ends in its parent's phase has left nothing out.
        let how = match end.how {
            PhaseEnd::Ended | PhaseEnd::Unwound | PhaseEnd::Elsewhere => end.how,
            _ if self.inherited => PhaseEnd::Inherited,
            how => how,
        };
        tables.phases.push(Phase {
            end_ns: end.time_ns.max(self.row.begin_ns),
            how: how as u8,
            end_at: end.at,
            end_place: end.place.into(),
            ..self.row
        });
    }
}

/// The location of a call, by its return address.
fn place(process: u32, site: u64, to: &mut Interpreter, tables: &mut Tables) -> u32 {
    match site {
        0 => NONE,
        site => to.processes.location(process, site - 1, tables),
    }
}

/// Phases that were only counted.
pub fn counted(pid: u32, time_ns: u64, count: PhaseCount, to: &mut Interpreter, tables: &mut Tables) {
    let thread = to.processes.thread(pid, count.tid, time_ns, tables);
    let [sum, least, most] = count.values;
    let PhaseCount { path, source, calls, inclusive_ns, .. } = count;
    let metric = u8::from(count.metric);
    tables.phase_counts.push(nearfar_recording::PhaseCount {
        time_ns,
        thread,
        path,
        source,
        metric,
        calls,
        inclusive_ns,
        sum,
        least,
        most,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(time_ns: u64, id: u32, name: &str, how: u8) -> PhaseCall {
        PhaseCall { time_ns, id, name: name.to_owned(), how, ..PhaseCall::default() }
    }

    /// Name, begin, end, how, and name of the phase around each, in order of their beginnings.
    fn recorded(calls: &[(u32, bool, PhaseCall)]) -> Vec<(String, u64, u64, u8, String)> {
        let (mut processes, mut tables) = (Interpreter::new(1, false), Tables::default());
        let mut phases = Phases::default();
        for (tid, begins, call) in calls.iter().cloned() {
            match begins {
                true => phases.begin(1, tid, call, &mut processes, &mut tables),
                false => phases.end(1, tid, call, &mut processes, &mut tables),
            }
        }
        phases.close(&mut tables);
        let rows: Vec<Phase> = tables.phases.rows().collect();
        let name =
            |id: u32| rows.iter().find(|r| r.id == id && id != NONE).map_or("", |r| &r.name).to_owned();
        let mut found: Vec<_> =
            rows.iter().map(|r| (r.name.clone(), r.begin_ns, r.end_ns, r.how, name(r.parent))).collect();
        found.sort_by_key(|r| r.1);
        found
    }

    fn row(name: &str, begin: u64, end: u64, how: PhaseEnd, parent: &str) -> (String, u64, u64, u8, String) {
        (name.to_owned(), begin, end, how as u8, parent.to_owned())
    }

    #[test]
    fn phases_nest_by_thread() {
        let found = recorded(&[
            (1, true, call(10, 1, "main", 0)),
            (2, true, call(15, 1, "other", 0)),
            (1, true, call(20, 2, "solve", 0)),
            (1, false, call(30, 2, "", 0)),
            (2, false, call(35, 1, "", 0)),
        ]);
        let want = [
            row("main", 10, u64::MAX, PhaseEnd::Open, ""),
            row("other", 15, 35, PhaseEnd::Ended, ""),
            row("solve", 20, 30, PhaseEnd::Ended, "main"),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn an_end_in_another_thread_ends_the_latest_of_the_name_and_one_without_a_beginning_is_kept_as_such() {
        let found = recorded(&[
            (1, true, call(10, 1, "solve", 0)),
            (1, true, call(12, 2, "inner", 0)),
            (2, false, call(20, 0, "solve", 2)),
            (2, false, call(25, 0, "solve", 2)),
            (1, false, call(30, 2, "", 0)),
            (1, false, call(40, 1, "", 1)), // what its own thread says later counts no more
        ]);
        let want = [
            row("solve", 10, 20, PhaseEnd::Elsewhere, ""),
            row("inner", 12, 30, PhaseEnd::Ended, ""),
            row("solve", 25, 25, PhaseEnd::NotBegun, ""),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn a_lost_end_ends_with_the_phase_around_it() {
        let found = recorded(&[
            (1, true, call(10, 1, "main", 0)),
            (1, true, call(20, 2, "solve", 0)),
            (1, false, call(30, 1, "", 0)),
        ]);
        let want = [row("main", 10, 30, PhaseEnd::Ended, ""), row("solve", 20, 30, PhaseEnd::Open, "main")];
        assert_eq!(found, want);
    }
}
