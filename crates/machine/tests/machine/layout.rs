//! Ranks and threads on machines of every kind, and the lines that put them there.

use nearfar_machine::Machine;
use nearfar_machine::cpulist::{CpuList, IndexList};
use nearfar_machine::launch::{Launcher, environment, launch};
use nearfar_machine::layout::{Ask, Layout, LayoutError, lay_out};

fn list<T>(text: &str) -> IndexList<T> {
    text.parse().unwrap()
}

fn ask(ranks: usize, threads: usize) -> Ask {
    let or = |n: usize| (n > 0).then_some(n);
    Ask { ranks: or(ranks), threads: or(threads), hosts: 1, hwthreads: false, oversubscribe: false }
}

fn machine(shape: &str) -> Machine {
    Machine::from_shape(shape).unwrap()
}

/// Two packages of four cores with two hardware threads, numbered in turns as many firmwares do:
/// cpus 0, 2, 4, 6 and their second threads 8, 10, 12, 14 are the first package's.
fn in_turns() -> Machine {
    let mut machine = machine("2x4");
    machine.nodes[0].cpus = list("0,2,4,6,8,10,12,14");
    machine.nodes[1].cpus = list("1,3,5,7,9,11,13,15");
    machine.threads_per_core = 2;
    machine.figures.cores = (0..8).map(|c| [c, c + 8].into_iter().collect()).collect();
    machine
}

fn cpus(layout: &Layout) -> Vec<String> {
    layout.ranks.iter().map(|r| r.cpus.to_string()).collect()
}

fn nodes(layout: &Layout) -> Vec<String> {
    layout.ranks.iter().map(|r| r.nodes.to_string()).collect()
}

fn refusal(machine: &Machine, ask: &Ask) -> String {
    lay_out(machine, None, ask).unwrap_err().to_string()
}

fn line(layout: &Layout, launcher: Launcher) -> String {
    let program = match launcher {
        Launcher::Slurm => "srun",
        Launcher::Hydra => "mpiexec",
        _ => "mpirun",
    };
    launch(layout, launcher, program, "FILE").words.join(" ")
}

#[test]
fn one_rank_per_numa_node_is_the_default() {
    let layout = lay_out(&machine("2x4x6"), None, &ask(0, 0)).unwrap();
    assert_eq!((layout.ranks.len(), layout.threads, layout.per_node), (8, 6, Some(1)));
    assert_eq!(nodes(&layout), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(cpus(&layout)[7], "42-47");
    assert!(layout.notes.is_empty(), "{:?}", layout.notes);
}

#[test]
fn ranks_fill_nodes_evenly_and_stay_within_one() {
    let layout = lay_out(&machine("2x8"), None, &ask(4, 3)).unwrap();
    assert_eq!(cpus(&layout), ["0-2", "3-5", "8-10", "11-13"]);
    let layout = lay_out(&machine("2x8"), None, &ask(3, 0)).unwrap();
    assert_eq!((cpus(&layout), layout.threads), (vec!["0-3".into(), "4-7".into(), "8-11".into()], 4));
    assert_eq!(layout.per_node, None, "2 and 1");
    let layout = lay_out(&machine("4x2"), None, &ask(2, 2)).unwrap();
    assert!(layout.notes[0].contains("no rank runs on NUMA node 2-3"), "{:?}", layout.notes);
}

#[test]
fn a_rank_has_whole_cores_and_no_other_rank_a_part_of_them() {
    let layout = lay_out(&in_turns(), None, &ask(4, 2)).unwrap();
    assert_eq!(cpus(&layout), ["0,2,8,10", "4,6,12,14", "1,3,9,11", "5,7,13,15"]);
    assert_eq!((layout.whole_cores, layout.per_node), (true, Some(2)));
    assert!(environment(&layout).contains(&("OMP_PLACES", "cores".into())));
    let all = Ask { hwthreads: true, ..ask(4, 4) };
    let layout = lay_out(&in_turns(), None, &all).unwrap();
    assert_eq!((cpus(&layout)[1].as_str(), layout.whole_cores), ("4,6,12,14", true));
    assert!(environment(&layout).contains(&("OMP_PLACES", "threads".into())));
    // Three hardware threads are of two cores, and the fourth belongs to none.
    let layout = lay_out(&in_turns(), None, &Ask { threads: Some(3), ..all }).unwrap();
    assert_eq!((cpus(&layout)[1].as_str(), layout.whole_cores, layout.per_node), ("4,6,12", false, None));
}

#[test]
fn uneven_nodes_get_what_they_have_room_for() {
    let mut machine = machine("2x8");
    machine.nodes[1].cpus = list("8-9");
    let layout = lay_out(&machine, None, &ask(3, 2)).unwrap();
    assert_eq!(cpus(&layout), ["0-1", "2-3", "8-9"]);
    let layout = lay_out(&machine, None, &ask(5, 2)).unwrap();
    assert_eq!(nodes(&layout), ["0", "0", "0", "0", "1"]);
    assert_eq!(layout.per_node, None);
    assert_eq!(lay_out(&machine, None, &ask(0, 0)).unwrap().threads, 2, "as the smaller node has");
}

#[test]
fn nodes_without_cpus_get_no_rank() {
    let mut machine = machine("3x4");
    machine.nodes[2].cpus = CpuList::default();
    let layout = lay_out(&machine, None, &ask(0, 0)).unwrap();
    assert_eq!((nodes(&layout), layout.per_node), (vec!["0".to_string(), "1".into()], None));
    machine.nodes.iter_mut().for_each(|n| n.cpus = CpuList::default());
    assert_eq!(lay_out(&machine, None, &ask(1, 1)).unwrap_err(), LayoutError::NoCpus);
}

#[test]
fn only_ranks_larger_than_a_node_span_nodes_and_it_is_said() {
    let layout = lay_out(&machine("4x4"), None, &ask(2, 6)).unwrap();
    assert_eq!(cpus(&layout), ["0-5", "8-13"], "each begins at a node");
    assert_eq!(nodes(&layout), ["0-1", "2-3"]);
    assert!(layout.notes[0].contains("--threads 4 keeps each within one"), "{:?}", layout.notes);
    let layout = lay_out(&machine("3x4"), None, &ask(2, 6)).unwrap();
    assert_eq!(cpus(&layout), ["0-5", "6-11"], "packed, as nothing else fits");
    let said = refusal(&machine("2x6"), &ask(3, 4));
    assert!(said.contains("do not fit unless one spans NUMA nodes, which have 6, 6 cores"), "{said}");
    assert!(said.contains("Type --threads 3, or --ranks 2,"), "{said}");
}

#[test]
fn too_many_ranks_are_refused_with_what_to_type() {
    let said = refusal(&machine("1x2"), &ask(4, 1));
    assert!(
        said.contains("4 ranks of 1 thread need 4 cores on each host; it has 2 cores (cpus 0-1)"),
        "{said}"
    );
    assert!(said.contains("Type --ranks 2, or --oversubscribe"), "{said}");
    let said = refusal(&in_turns(), &ask(4, 4));
    assert!(said.contains("--threads 2, or --ranks 2, or --hwthreads"), "{said}");
    let said = refusal(&machine("2x4"), &Ask { hosts: 2, ..ask(5, 1) });
    assert!(
        said.contains("5 ranks do not divide evenly over 2 hosts; type --ranks 4, or --ranks 6"),
        "{said}"
    );
    let said = refusal(&machine("2x4"), &Ask { hosts: 4, ..ask(2, 1) });
    assert!(said.ends_with("type --ranks 4"), "{said}");
    assert!(refusal(&machine("1x2"), &ask(usize::MAX / 2, 7)).contains("it has 2 cores"));
}

#[test]
fn shared_cores_are_shared_evenly() {
    let all = Ask { oversubscribe: true, ..ask(4, 1) };
    let layout = lay_out(&machine("1x2"), None, &all).unwrap();
    assert_eq!((cpus(&layout).join(" "), layout.shared), ("0 1 0 1".into(), true));
    assert!(layout.notes[0].contains("4 ranks of 1 thread share 2 cores"), "{:?}", layout.notes);
    assert!(line(&layout, Launcher::OpenMpi4).contains("--oversubscribe --rankfile FILE"));
    assert!(
        line(&layout, Launcher::OpenMpi5)
            .contains("hwtcpus:oversubscribe --bind-to hwthread:overload-allowed")
    );
    // Where all fit, nothing is shared.
    assert!(!lay_out(&machine("1x4"), None, &all).unwrap().shared);
    let layout = lay_out(&machine("1x2"), None, &Ask { threads: Some(5), ..all }).unwrap();
    assert_eq!(cpus(&layout), ["0-1", "0-1", "0-1", "0-1"]);
}

#[test]
fn only_allowed_cpus_are_used() {
    let allowed = list("2-5");
    let layout = lay_out(&machine("2x4"), Some(&allowed), &ask(2, 2)).unwrap();
    assert_eq!(cpus(&layout), ["2-3", "4-5"]);
    assert_eq!(layout.per_node, None, "a launcher that divides the whole host would take others");
    let file = launch(&layout, Launcher::OpenMpi4, "mpirun", "FILE").rankfile.unwrap();
    assert_eq!(file, "rank 0=localhost slot=2-3\nrank 1=localhost slot=4-5\n");
}

#[test]
fn regular_hosts_need_no_file() {
    let layout = lay_out(&machine("2x8"), None, &ask(4, 4)).unwrap();
    let rest = "-x OMP_NUM_THREADS=4 -x OMP_PLACES=cores -x OMP_PROC_BIND=close";
    let open_mpi = format!("mpirun -np 4 --map-by ppr:2:numa:PE=4 --bind-to core {rest}");
    assert_eq!(line(&layout, Launcher::OpenMpi4), open_mpi);
    assert_eq!(line(&layout, Launcher::OpenMpi5), open_mpi);
    assert_eq!(
        line(&layout, Launcher::Slurm),
        "srun -N 1 -n 4 --ntasks-per-node=4 --distribution=block --cpu-bind=mask_cpu:0xf,0xf0,0xf00,0xf000 \
         --export=ALL,OMP_NUM_THREADS=4,OMP_PLACES=cores,OMP_PROC_BIND=close"
    );
    assert_eq!(
        line(&layout, Launcher::Hydra),
        "mpiexec -n 4 -bind-to user:0+1+2+3,4+5+6+7,8+9+10+11,12+13+14+15 \
         -genv OMP_NUM_THREADS 4 -genv OMP_PLACES cores -genv OMP_PROC_BIND close"
    );
    let one = lay_out(&machine("1x4"), None, &ask(2, 2)).unwrap();
    assert!(line(&one, Launcher::OpenMpi4).contains("ppr:2:node:PE=2"));
}

#[test]
fn hosts_have_the_same_layout_each() {
    let layout = lay_out(&machine("2x4"), None, &Ask { hosts: 2, ..ask(8, 2) }).unwrap();
    let hosts: Vec<usize> = layout.ranks.iter().map(|r| r.host).collect();
    assert_eq!(hosts, [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(cpus(&layout)[..4], cpus(&layout)[4..]);
    assert!(line(&layout, Launcher::OpenMpi4).starts_with("mpirun -np 8 --map-by ppr:2:numa:PE=2"));
    assert!(line(&layout, Launcher::Slurm).starts_with("srun -N 2 -n 8 --ntasks-per-node=4"));
    assert!(line(&layout, Launcher::Slurm).contains("mask_cpu:0x3,0xc,0x30,0xc0 "));
    assert!(line(&layout, Launcher::Hydra).contains("-ppn 4 -bind-to user:0+1,2+3,4+5,6+7 "));
}

/// Slots that the real launchers were seen to bind on this very machine: Open MPI 4.1.4 the kernel's
/// numbers, Open MPI 5.0.11 hwloc's.
#[test]
fn irregular_hosts_get_a_rankfile_in_the_launchers_numbers() {
    let ask = Ask { hwthreads: true, ..ask(2, 3) };
    let layout = lay_out(&in_turns(), None, &ask).unwrap();
    assert_eq!(cpus(&layout), ["0,2,8", "1,3,9"]);
    let of = |launcher| launch(&layout, launcher, "mpirun", "FILE");
    let (four, five) = (of(Launcher::OpenMpi4), of(Launcher::OpenMpi5));
    assert_eq!(four.rankfile.unwrap(), "rank 0=localhost slot=0,2,8\nrank 1=localhost slot=1,3,9\n");
    assert_eq!(five.rankfile.unwrap(), "rank 0=localhost slot=0-2\nrank 1=localhost slot=8-10\n");
    let four = four.words.join(" ");
    assert!(four.contains("--use-hwthread-cpus --mca rmaps_rank_file_physical 1 --rankfile FILE"), "{four}");
    assert!(five.words.join(" ").contains("--map-by rankfile:file=FILE:hwtcpus "));
    assert!(line(&layout, Launcher::Slurm).contains("mask_cpu:0x105,0x20a "));
}

#[test]
fn nodes_in_another_order_than_hwlocs_get_a_rankfile() {
    let mut machine = machine("2x4");
    machine.nodes[0].cpus = list("4-7");
    machine.nodes[1].cpus = list("0-3");
    let layout = lay_out(&machine, None, &ask(2, 4)).unwrap();
    assert_eq!((cpus(&layout).join(" "), layout.per_node), ("4-7 0-3".into(), None));
}

#[test]
fn launchers_are_known_by_what_they_say() {
    let of = Launcher::from_version;
    assert_eq!(of("mpirun (Open MPI) 4.1.4\n\nReport bugs to"), Some(Launcher::OpenMpi4));
    assert_eq!(of("mpirun (Open MPI) 5.0.11\n"), Some(Launcher::OpenMpi5));
    assert_eq!(of("HYDRA build details:\n    Version: 4.0.2"), Some(Launcher::Hydra));
    assert_eq!(of("slurm 22.05.8\n"), Some(Launcher::Slurm));
    assert_eq!(of("Intel(R) MPI Library for Linux* OS, Version 2021.9"), None);
    assert_eq!(of("something else"), None);
}
