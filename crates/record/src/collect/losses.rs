//! What a recording says at its end of all that is not in it.

use super::agent::AgentFile;
use super::agent_events::AgentEvents;
use super::events::Interpreter;
use crate::store::Writer;

/// Notes what perf's rings and the agents have lost. `agent`: with what was interpreted of it; `None` if there was none.
pub(super) fn note(
    writer: &mut Writer,
    interpreter: &Interpreter,
    agent: Option<(&AgentFile, &AgentEvents)>,
    end_ns: u64,
) {
    let mut lose = |what: &str, count: u64, why: &str| {
        if count > 0 {
            writer.lose(end_ns, what, count, why);
        }
    };
    lose("perf_records", interpreter.lost, "the perf ring was full: samples or faults are missing");
    lose("throttled", interpreter.throttled, "the kernel paused sampling to limit its cost");
    let Some((agent, events)) = agent else { return };
    let lost = agent.lost();
    // Full rings are rows of their own, with their times.
    for (count, why) in [
        (
            lost.quiet,
            "threads under the program's own seccomp filter: those that began under it cannot be told apart, and \
             those that may not read the time stamp counter either have no time",
        ),
        (lost.damaged, "the program wrote over the agent's memory"),
    ] {
        lose("agent_records", count, why);
    }
    for (count, why) in [
        (
            lost.unclaimed,
            "more processes at a time than the agent's memory has room for: these have no agent",
        ),
        (lost.refused, "processes with a limited address space (ulimit -v) have no agent"),
        (lost.unopened, "forked processes that could not open the agent's memory (another user or /proc)"),
        (lost.sandboxed, "processes that began under a seccomp filter, and may not be asked, have no agent"),
        (lost.no_memory, "processes for whose records there was no memory have no agent"),
    ] {
        lose("processes", count, why);
    }
    let unsaid = agent.short_lived().count.saturating_sub(events.grouped);
    let why = "came and went too fast to be recorded one by one, and their process was killed before it said which \
               lines made them";
    lose("allocations", unsaid, why);
    let why = "objects of a burst of allocations lived when their process was killed, and were not yet told";
    lose("objects", lost.untold, why);
}
