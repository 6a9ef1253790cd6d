//! The part of an assumed machine that is a rank's: ranks of a host divide it among them, and none is spread over all.

use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_recording::Rank;

/// `machine` with the cpus of this rank only; its nodes stay.
///
/// If the machine has the cpus of the one that was recorded, these are the cpus that the launcher gave: a rank that was
/// bound wrongly is judged as it was bound. Else each rank of the host gets an equal part, in order, as a launcher
/// that binds would give it. Where it is unknown how many share the host, it is the whole machine.
pub fn of_rank(machine: &Machine, recorded: &Machine, rank: &Rank) -> Machine {
    let all: Vec<u32> = machine.cpu_nodes().flat_map(|n| n.cpus.iter()).collect();
    let cpus_of = |m: &Machine| m.nodes.iter().flat_map(|n| n.cpus.iter()).collect::<CpuList>();
    let own: CpuList = if cpus_of(machine) == cpus_of(recorded) && !rank.cpus.is_empty() {
        rank.cpus.clone()
    } else if let (Some(local), Some(size)) = (rank.local_rank, rank.local_size) {
        let (at, of) = (local as usize * all.len(), size as usize);
        let from = at / of;
        // More ranks than cpus: several share one.
        let to = ((at + all.len()) / of).max(from + 1);
        all[from.min(all.len())..to.min(all.len())].iter().copied().collect()
    } else {
        return machine.clone();
    };
    let mut part = machine.clone();
    for node in &mut part.nodes {
        node.cpus = node.cpus.iter().filter(|&cpu| own.contains(cpu)).collect();
    }
    // Cpus that are none of the machine's: better all of it than nothing.
    if part.cpu_count() == 0 { machine.clone() } else { part }
}
