//! What the header of perf.data says of the machine (tools/perf/Documentation/perf.data-file-format.txt).

use super::sample::Cursor;
use nearfar_machine::cpulist::CpuList;

/// Numbers of the header's parts.
pub mod feature {
    /// Name of the host.
    pub const HOSTNAME: u16 = 3;
    /// Release of the kernel.
    pub const OSRELEASE: u16 = 4;
    /// Version of perf.
    pub const VERSION: u16 = 5;
    /// Architecture.
    pub const ARCH: u16 = 6;
    /// Cpus available and online.
    pub const NRCPUS: u16 = 7;
    /// Name of the processor.
    pub const CPUDESC: u16 = 8;
    /// Vendor, family, model, stepping.
    pub const CPUID: u16 = 9;
    /// The command line of perf.
    pub const CMDLINE: u16 = 11;
    /// Events with their names.
    pub const EVENT_DESC: u16 = 12;
    /// Cores and packages of the cpus.
    pub const CPU_TOPOLOGY: u16 = 13;
    /// Nodes with memory and cpus.
    pub const NUMA_TOPOLOGY: u16 = 14;
    /// Blocks of physical memory by node.
    pub const MEM_TOPOLOGY: u16 = 22;
}

/// Most nodes that are believed: as of a recording.
const MOST_NODES: u32 = 1024;

/// A text: its length and its bytes, padded with zeros.
pub fn text(c: &mut Cursor<'_>) -> Option<String> {
    let length = c.u32()? as usize;
    let bytes = c.take(length)?;
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// A list of texts, such as the command line.
pub fn texts(bytes: &[u8]) -> Option<Vec<String>> {
    let mut c = Cursor::new(bytes);
    let n = c.u32()?;
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(text(&mut c)?);
    }
    Some(all)
}

/// A node of NUMA_TOPOLOGY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Its cpus.
    pub cpus: CpuList,
}

/// Reads NUMA_TOPOLOGY.
pub fn nodes(bytes: &[u8]) -> Option<Vec<Node>> {
    let mut c = Cursor::new(bytes);
    let n = c.u32()?;
    if n == 0 || n > MOST_NODES {
        return None;
    }
    let mut nodes = Vec::new();
    for _ in 0..n {
        let id = c.u32()?;
        let (kib, _free) = (c.u64()?, c.u64()?);
        let list = text(&mut c)?;
        let cpus = if list.trim().is_empty() { CpuList::default() } else { list.trim().parse().ok()? };
        nodes.push(Node { id, memory_bytes: kib.checked_mul(1024)?, cpus });
    }
    Some(nodes)
}

/// The package of each cpu, from CPU_TOPOLOGY; `None` if it does not say.
pub fn sockets(bytes: &[u8], cpus: usize) -> Option<Vec<u32>> {
    let mut c = Cursor::new(bytes);
    for _ in 0..2 {
        let lists = c.u32()?;
        for _ in 0..lists {
            text(&mut c)?;
        }
    }
    let mut sockets = Vec::new();
    for _ in 0..cpus.min(c.left() / 8) {
        c.u32()?;
        sockets.push(c.u32()?);
    }
    (sockets.len() == cpus).then_some(sockets)
}

/// Which node has a block of physical memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Node and its blocks as bits.
    pub nodes: Vec<(u32, Vec<u64>)>,
}

impl Blocks {
    /// Reads MEM_TOPOLOGY.
    pub fn read(bytes: &[u8]) -> Option<Blocks> {
        let mut c = Cursor::new(bytes);
        let (version, block_bytes, n) = (c.u64()?, c.u64()?, c.u64()?);
        if version != 1 || block_bytes == 0 || n > u64::from(MOST_NODES) {
            return None;
        }
        let mut nodes = Vec::new();
        for _ in 0..n {
            let (node, bits) = (c.u64()?, c.u64()?);
            let words = usize::try_from(bits.div_ceil(64)).ok().filter(|n| *n <= c.left() / 8)?;
            let blocks: Option<Vec<u64>> = (0..words).map(|_| c.u64()).collect();
            nodes.push((u32::try_from(node).ok()?, blocks?));
        }
        Some(Blocks { block_bytes, nodes })
    }

    /// The node of a physical address; `None` if no block or several have it.
    pub fn node_of(&self, physical: u64) -> Option<u32> {
        if physical == 0 || self.block_bytes == 0 {
            return None;
        }
        let block = physical / self.block_bytes;
        let word = usize::try_from(block / 64).ok()?;
        let has = |(_, bits): &&(u32, Vec<u64>)| bits.get(word).is_some_and(|w| w >> (block % 64) & 1 == 1);
        let mut found = self.nodes.iter().filter(has);
        match (found.next(), found.next()) {
            (Some((node, _)), None) => Some(*node),
            _ => None,
        }
    }
}
