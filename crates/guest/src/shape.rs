//! The virtual machine's shape: pure, from a [`Machine`] to QEMU's arguments.

use nearfar_figures::sizes::capacity;
use nearfar_machine::{Machine, NodeId};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Memory of a node unless another is given, bytes.
pub const DEFAULT_MEMORY_PER_NODE: u64 = 1 << 30;
/// Least memory of a node, bytes: the first one has the kernel and its caches.
pub const LEAST_MEMORY_PER_NODE: u64 = 256 << 20;
/// Linux's memory sections on x86-64, bytes: nodes begin and end at their borders.
const SECTION: u64 = 128 << 20;
/// Most vCPUs: 8-bit APIC ids, of which 255 means all. QEMU's emulation has no x2APIC before 9.0.
pub const MOST_CPUS: usize = 255;
/// Most vCPUs that the kernel itself starts. It gives each one that waits 250 interrupts a second until it has found its clock, and one thread
/// of the emulator serves them all: on two cores, 128 vCPUs did not boot within 150 s. Started by init, when those that wait are left
/// alone, they take 27 s; 44 take 1.5 s more than by the kernel, and 64 take 2 to 4. // chosen
const MOST_AT_ONCE: usize = 65;
/// Most nodes of QEMU (MAX_NODES in its include/sysemu/numa.h).
pub const MOST_NODES: usize = 128;

/// Most numbers that are left out: each takes a socket.
const MOST_ABSENT: usize = 4;

/// SLIT of a node to itself; Linux drops the table if it is anything else.
const LOCAL: u32 = 10;
/// By convention, where a machine file has no distances; as in `machine::shape`.
const SAME_SOCKET: u32 = 12;
const OTHER_SOCKET: u32 = 21;

/// The files that hold the nodes' memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory<'a> {
    /// In the order of the nodes.
    pub files: &'a [PathBuf],
    /// What the guest writes goes into the files; else they are what it begins with.
    pub shared: bool,
}

/// What may be chosen about the guest apart from the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestOptions {
    /// Bytes of memory of each node; `None`: [`DEFAULT_MEMORY_PER_NODE`].
    pub memory_per_node: Option<u64>,
}

/// Why a machine cannot be a guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// More cpus than APIC ids.
    #[error(
        "{machine} has {cpus} cpus; the virtual machine can have {} and one of its own. Scale the machine \
         down: --cpus-per-node {fits}",
        MOST_CPUS - 1
    )]
    Cpus {
        /// The machine's name.
        machine: String,
        /// Its cpus.
        cpus: usize,
        /// As many as fit.
        fits: usize,
    },
    /// More nodes than QEMU takes.
    #[error("{machine} has {nodes} nodes; QEMU can have {MOST_NODES}")]
    Nodes {
        /// The machine's name.
        machine: String,
        /// Its nodes.
        nodes: usize,
    },
    /// No cpu at all.
    #[error("{0} has no cpus: nothing could run on it")]
    NoCpus(String),
    /// Too little memory.
    #[error(
        "{} of memory per node is too little for a virtual machine: take at least {}",
        capacity(*bytes), capacity(LEAST_MEMORY_PER_NODE)
    )]
    Memory {
        /// What was asked for, bytes.
        bytes: u64,
    },
}

/// A node of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestNode {
    /// Kernel number in the machine.
    pub id: NodeId,
    /// Kernel number in the guest: see [`Shape::absent`].
    pub number: u32,
    /// Its vCPUs, without the housekeeping one.
    pub cpus: Vec<u32>,
    /// Memory in bytes, a multiple of 128 MiB.
    pub memory_bytes: u64,
}

/// The virtual machine as QEMU's command line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The nodes, in the machine's order.
    pub nodes: Vec<GuestNode>,
    /// The machine's kernel index of each vCPU; the housekeeping one is not in it.
    pub cpus: Vec<u32>,
    /// The vCPU on which everything but the program runs: the highest index.
    pub housekeeping: u32,
    /// Numbers below the guest's highest that no node has. Linux numbers nodes in the order in which the
    /// firmware's table names them, first those of cpus: a gap before a node without cpus can be made, by a
    /// cpu that is never plugged in. Other gaps of the machine are closed.
    pub absent: Vec<u32>,
    /// Firmware distances as the guest's kernel will see them, row and column by position in `nodes`.
    pub distances: Vec<Vec<u32>>,
    /// Sockets, and cores of each; together at least the vCPUs.
    pub topology: (usize, usize),
}

impl Shape {
    /// The shape of a machine: its cpus in the order of their kernel numbers, its nodes in the
    /// order of theirs, and one more vCPU on the first node with cpus.
    ///
    /// # Errors
    /// If the machine is larger than QEMU can be.
    pub fn from_machine(machine: &Machine, options: &GuestOptions) -> Result<Shape, ShapeError> {
        let bytes = options.memory_per_node.unwrap_or(DEFAULT_MEMORY_PER_NODE);
        if bytes < LEAST_MEMORY_PER_NODE {
            return Err(ShapeError::Memory { bytes });
        }
        let mut cpus: Vec<u32> = machine.nodes.iter().flat_map(|n| n.cpus.iter()).collect();
        cpus.sort_unstable();
        if cpus.is_empty() {
            return Err(ShapeError::NoCpus(machine.name.clone()));
        }
        if cpus.len() >= MOST_CPUS {
            let with_cpus = machine.cpu_nodes().count();
            return Err(ShapeError::Cpus {
                machine: machine.name.clone(),
                cpus: cpus.len(),
                fits: ((MOST_CPUS - 1) / with_cpus).max(1),
            });
        }
        if machine.nodes.len() > MOST_NODES {
            return Err(ShapeError::Nodes { machine: machine.name.clone(), nodes: machine.nodes.len() });
        }
        let index = |cpu: u32| cpus.binary_search(&cpu).expect("it was collected above") as u32;
        let numbers = numbers(machine);
        let nodes: Vec<GuestNode> = machine
            .nodes
            .iter()
            .zip(&numbers)
            .map(|(n, &number)| GuestNode {
                id: n.id,
                number,
                cpus: n.cpus.iter().map(index).collect(),
                memory_bytes: bytes.div_ceil(SECTION) * SECTION,
            })
            .collect();
        let packages: Vec<usize> = packages(machine, &cpus);
        let most = numbers.iter().copied().max().unwrap_or(0);
        let absent: Vec<u32> = (0..most).filter(|n| !numbers.contains(n)).collect();
        Ok(Shape {
            topology: topology(&packages, absent.len()),
            absent,
            distances: distances(machine),
            housekeeping: cpus.len() as u32,
            nodes,
            cpus,
        })
    }

    /// The vCPUs that are the machine's, as the kernel writes lists: `0-7`.
    pub fn machine_cpus(&self) -> String {
        match self.cpus.len() {
            1 => "0".into(),
            n => format!("0-{}", n - 1),
        }
    }

    /// Memory of all nodes, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.nodes.iter().map(|n| n.memory_bytes).sum()
    }

    /// Position of the node that also has the housekeeping vCPU.
    pub fn housekeeping_node(&self) -> usize {
        self.nodes.iter().position(|n| !n.cpus.is_empty()).expect("a shape has cpus")
    }

    /// The guest's cpus of a node as its kernel lists them, the housekeeping one included.
    pub fn guest_cpus(&self, node: usize) -> Vec<u32> {
        let mut cpus = self.nodes[node].cpus.clone();
        if node == self.housekeeping_node() {
            cpus.push(self.housekeeping);
        }
        cpus
    }

    /// QEMU's arguments for cpus, memory and nodes.
    pub fn arguments(&self, memory: &Memory) -> Vec<String> {
        let (sockets, cores) = self.topology;
        let vcpus = self.cpus.len() + 1;
        let mut out = vec![
            "-smp".into(),
            format!("{vcpus},maxcpus={},sockets={sockets},cores={cores},threads=1", sockets * cores),
            "-m".into(),
            format!("{}M", self.memory_bytes() >> 20),
        ];
        let mut put = |option: &str, value: String| out.extend([option.to_owned(), value]);
        for (at, node) in self.nodes.iter().enumerate() {
            let size = node.memory_bytes >> 20;
            let (id, share) = (memory_name(at), if memory.shared { "on" } else { "off" });
            let path = memory.files.get(at).map(|path| path.display().to_string()).unwrap_or_default();
            put("-object", format!("memory-backend-file,id={id},size={size}M,share={share},mem-path={path}"));
            put("-numa", format!("node,nodeid={},memdev={}", node.number, memory_name(at)));
        }
        for number in &self.absent {
            put("-numa", format!("node,nodeid={number}"));
        }
        // Every place must have a node, also those that stay empty (QEMU warns otherwise). The last sockets
        // are of the absent nodes.
        let theirs = sockets - self.absent.len();
        for place in 0..sockets * cores {
            let cpu = place as u32;
            let own = self.nodes.iter().find(|n| n.cpus.contains(&cpu));
            let node = match (own, (place / cores).checked_sub(theirs)) {
                (Some(node), _) => node.number,
                (None, Some(absent)) => self.absent[absent],
                (None, None) => self.nodes[self.housekeeping_node()].number,
            };
            put(
                "-numa",
                format!(
                    "cpu,node-id={node},socket-id={},core-id={},thread-id=0",
                    place / cores,
                    place % cores
                ),
            );
        }
        let mut distance = |from: u32, to: u32, value: u32| {
            put("-numa", format!("dist,src={from},dst={to},val={value}"));
        };
        for (from, row) in self.nodes.iter().zip(&self.distances) {
            for (to, value) in self.nodes.iter().zip(row) {
                distance(from.number, to.number, *value);
            }
        }
        // QEMU wants all pairs or none.
        for (i, &absent) in self.absent.iter().enumerate() {
            let others = self.nodes.iter().map(|n| n.number).chain(self.absent[i + 1..].iter().copied());
            for other in others {
                distance(absent, other, OTHER_SOCKET);
                distance(other, absent, OTHER_SOCKET);
            }
            distance(absent, absent, LOCAL);
        }
        out
    }

    /// The guest's kernel command line.
    pub fn kernel_arguments(&self) -> String {
        let mut text = String::from("console=ttyS0 quiet panic=-1");
        // The plugin knows tasks by the address of the kernel's stack switch.
        text += " nokaslr mitigations=off";
        // Libraries where they were: what is translated of them for one program is there for the next.
        text += " norandmaps";
        // A fifth level of page tables would be walked for nothing.
        text += " no5lvl";
        // An emulated cpu may wait long for its turn on the host.
        text += " nowatchdog nmi_watchdog=0 rcupdate.rcu_cpu_stall_suppress=1";
        // The boot's test of the timer counts its interrupts while the counter of time goes on, and ends in a panic if the cpu waited meanwhile.
        text += " no_timer_check";
        // Nothing says that the emulated processor's counter of time is a good clock, so the kernel would take the HPET: a device,
        // 8 µs for each look at the clock instead of 1 (Zen 5), and one cpu at a time. It is a good one: all emulated cpus have the host's.
        text += " tsc=reliable";
        // Each cpu would measure for a tenth of a second how often it can turn in a loop, while another spins until it has: a
        // fifth of the time that 8 cpus take to boot, more than half with 44. No emulated device needs exact delays. // chosen
        text += " lpj=4000000";
        // Tests of unused ciphers; zeros that are overwritten with zeros.
        text += " cryptomgr.notests init_on_alloc=0";
        // An emulated `rep stosb` or `rep movsb` goes byte by byte: pages are cleared and copied by plain loops. Programs
        // ask the processor itself, and see no difference.
        text += " clearcpuid=erms,fsrm,rep_good";
        // Places of the topology that stay empty are not cpus; interrupts keep off the program's.
        let vcpus = self.cpus.len() + 1;
        match self.misses_interrupts() {
            false => {
                let _ = write!(text, " nr_cpus={vcpus}");
            }
            true => text += &format!(" nr_cpus={PHYSICAL} possible_cpus={PHYSICAL}"),
        }
        if vcpus > MOST_AT_ONCE {
            // Init starts the others: `start_cpus`.
            text += " maxcpus=1";
        }
        // `rodata=off lsm= psi=0 cgroup_disable=memory` would save 0.2 s of a boot, and are not worth their risk: of some 200 boots with these
        // in a thread for each cpu, three did not end; of 200 in one thread, all did.

        // After the dashes: init's own argument.
        let _ = write!(text, " irqaffinity={0} -- {0}", self.housekeeping);
        text
    }

    /// Whether a kernel of so few cpus would wait for ever for some of them. Where a socket's cores are no power of two, the
    /// numbers of interrupt controllers have gaps, and QEMU (7.2, `apic_get_delivery_bitmask`) stops looking for the
    /// addressed ones at the first gap. Kernels of more than eight possible cpus address them one by one instead.
    fn misses_interrupts(&self) -> bool {
        let (sockets, cores) = self.topology;
        sockets > 1 && !cores.is_power_of_two() && self.cpus.len() + 1 < PHYSICAL
    }
}

/// Possible cpus from which on Linux addresses interrupts to single cpus (arch/x86/kernel/apic/apic_flat_64.c).
const PHYSICAL: usize = 9;

/// Name of a node's memory in QEMU, also of its RAM block.
pub(super) fn memory_name(node: usize) -> String {
    format!("node{node}")
}

/// The guest's number of each node: the machine's own where all gaps are before nodes without cpus, which
/// [`Shape::absent`] can make, and are few; else the position.
fn numbers(machine: &Machine) -> Vec<u32> {
    let own: Vec<u32> = machine.nodes.iter().map(|n| n.id).collect();
    let with_cpus = machine.nodes.iter().take_while(|n| !n.cpus.is_empty()).count();
    let dense = own[..with_cpus].iter().enumerate().all(|(at, &id)| id as usize == at);
    let last_have_none = machine.nodes[with_cpus..].iter().all(|n| n.cpus.is_empty());
    let most = own.iter().copied().max().unwrap_or(0) as usize;
    if dense && last_have_none && most < own.len() + MOST_ABSENT {
        own
    } else {
        (0..own.len() as u32).collect()
    }
}

/// The package of each vCPU, as consecutive numbers; where unknown, each node is one.
fn packages(machine: &Machine, cpus: &[u32]) -> Vec<usize> {
    let known = machine.cpu_nodes().all(|n| n.package.is_some());
    cpus.iter()
        .map(|&cpu| {
            let at = machine.nodes.iter().position(|n| n.cpus.contains(cpu)).unwrap_or(0);
            if known { machine.nodes[at].package.unwrap_or(0) as usize } else { at }
        })
        .collect()
}

/// Sockets and cores. QEMU fills sockets in the order of vCPUs, so packages appear as sockets
/// only if they are equal and their cpus consecutive; the housekeeping vCPU then has a socket
/// of its own, and each absent node one that stays empty. Otherwise every vCPU is a socket: Linux
/// would not believe in a cache that is shared across nodes.
fn topology(packages: &[usize], absent: usize) -> (usize, usize) {
    let cpus = packages.len();
    let flat = (cpus + 1 + absent, 1);
    let cores = packages.iter().take_while(|&&p| p == packages[0]).count();
    if !cpus.is_multiple_of(cores) {
        return flat;
    }
    let blocks: Vec<&[usize]> = packages.chunks(cores).collect();
    let uniform = blocks.iter().all(|block| block.iter().all(|p| *p == block[0]));
    let distinct = blocks.windows(2).all(|pair| pair[0][0] != pair[1][0]);
    // APIC ids give each field whole bits.
    let last = (blocks.len() + absent) * cores.next_power_of_two();
    if uniform && distinct && last < MOST_CPUS { (blocks.len() + 1 + absent, cores) } else { flat }
}

/// The machine's distances made acceptable to Linux, which drops a table with other local
/// distances than 10 or remote ones below 11; by convention where there are none.
fn distances(machine: &Machine) -> Vec<Vec<u32>> {
    let nodes = &machine.nodes;
    let between = |a: usize, b: usize| {
        if a == b {
            return LOCAL;
        }
        if let Some(known) = machine.distance(nodes[a].id, nodes[b].id) {
            return known.clamp(LOCAL + 1, 254);
        }
        let same = nodes[a].package.is_some() && nodes[a].package == nodes[b].package;
        if same { SAME_SOCKET } else { OTHER_SOCKET }
    };
    (0..nodes.len()).map(|a| (0..nodes.len()).map(|b| between(a, b)).collect()).collect()
}
