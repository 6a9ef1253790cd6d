//! What the kernel is set to do, and what it lets the caller do.

use super::tree::Tree;
use nearfar_machine::cpulist::{CpuList, NodeList};
use std::path::Path;

/// Settings that change where pages go or what can be observed. `None`: unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelState {
    /// `kernel.numa_balancing`: 0 off, 1 on, 2 memory tiering.
    pub numa_balancing: Option<i32>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Folio sizes that anonymous memory may take, bytes, ascending; the base page is left out.
    pub folio_bytes: Vec<u64>,
    /// `kernel.perf_event_paranoid`; `None` also where there is no perf_event_open.
    pub perf_event_paranoid: Option<i32>,
    /// Whether a hypervisor is below; `None` where processors do not tell.
    pub virtual_machine: Option<bool>,
    /// Cpus that are online.
    pub online: CpuList,
    /// Cpus that the caller may run on.
    pub allowed_cpus: Option<CpuList>,
    /// Nodes that the caller may take memory from.
    pub allowed_mems: Option<NodeList>,
    /// Cpu times since boot; two readings give the share that was stolen.
    pub cpu_times: Option<CpuTimes>,
}

/// Cpu time since boot over all cpus, in ticks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// Everything, idle included.
    pub total: u64,
    /// Time in which the hypervisor ran something else.
    pub steal: u64,
}

impl CpuTimes {
    /// Share of the time since `earlier` that was stolen; `None` if no tick passed.
    pub fn steal_share_since(&self, earlier: &CpuTimes) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|&t| t > 0)?;
        let steal = self.steal.checked_sub(earlier.steal)?;
        Some(steal as f64 / total as f64)
    }
}

/// Cpu times below `root`, from `proc/stat`.
pub fn cpu_times(root: &Path) -> Option<CpuTimes> {
    times(&Tree::new(root))
}

fn times(tree: &Tree) -> Option<CpuTimes> {
    let text = tree.text("proc/stat")?;
    let line = text.lines().find(|l| l.starts_with("cpu "))?;
    let ticks: Option<Vec<u64>> = line.split_whitespace().skip(1).map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time, which may
    // follow, is contained in user and nice.
    let ticks = ticks?;
    Some(CpuTimes { total: ticks.get(..8)?.iter().sum(), steal: ticks[7] })
}

/// Memory below `root` that hugetlb pages may take, bytes: every pool with what it may grow by. `None` if sysfs is not
/// there or a pool cannot be read; a kernel without hugetlbfs has none.
pub fn hugetlb_bytes(root: &Path) -> Option<u64> {
    const POOLS: &str = "sys/kernel/mm/hugepages";
    let tree = Tree::new(root);
    if !tree.is_dir("sys/kernel/mm") {
        return None;
    }
    let mut sum = 0u64;
    for name in tree.names(POOLS) {
        let Some(kib) =
            name.strip_prefix("hugepages-").and_then(|n| n.strip_suffix("kB")?.parse::<u64>().ok())
        else {
            continue;
        };
        for file in ["nr_hugepages", "nr_overcommit_hugepages"] {
            let pages: u64 = tree.parsed(&format!("{POOLS}/{name}/{file}"))?;
            sum = sum.saturating_add(pages.saturating_mul(kib << 10));
        }
    }
    Some(sum)
}

pub(super) fn read(tree: &Tree) -> KernelState {
    let status = tree.text("proc/self/status").unwrap_or_default();
    let allowed = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)).map(str::trim);
    let mut allowed_cpus: Option<CpuList> = allowed("Cpus_allowed_list:").and_then(|l| l.parse().ok());
    let mut allowed_mems: Option<NodeList> = allowed("Mems_allowed_list:").and_then(|l| l.parse().ok());
    if !tree.is_live() {
        let (cpus, mems) = super::cgroups::allowed(tree);
        (allowed_cpus, allowed_mems) = (allowed_cpus.or(cpus), allowed_mems.or(mems));
    }
    KernelState {
        numa_balancing: balancing(tree),
        thp: chosen(tree, &format!("{THP}/enabled")),
        folio_bytes: folios(tree),
        perf_event_paranoid: tree.parsed("proc/sys/kernel/perf_event_paranoid"),
        virtual_machine: virtual_machine(tree),
        online: CpuList::default(),
        allowed_cpus,
        allowed_mems,
        cpu_times: times(tree),
    }
}

/// What decides on the size and the migration of pages below `root`; everything else is unknown.
pub fn page_settings(root: &Path) -> KernelState {
    let tree = Tree::new(root);
    KernelState { numa_balancing: balancing(&tree), folio_bytes: folios(&tree), ..KernelState::default() }
}

fn balancing(tree: &Tree) -> Option<i32> {
    tree.parsed("proc/sys/kernel/numa_balancing")
}

/// x86 has a bit for it; Xen reports it in sysfs on every architecture.
fn virtual_machine(tree: &Tree) -> Option<bool> {
    if tree.text("sys/hypervisor/type").is_some() {
        return Some(true);
    }
    let info = tree.text("proc/cpuinfo")?;
    let flags = info.lines().find_map(|l| l.strip_prefix("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Bytes of the huge pages that fresh memory gets of itself; `asked`: that it gets if it asks for them. `None` if it gets none.
pub fn huge_page_bytes(root: &Path, asked: bool) -> Option<u64> {
    let tree = Tree::new(root);
    let word = chosen(&tree, &format!("{THP}/enabled"))?;
    let gets = word == "always" || (asked && word == "madvise");
    tree.parsed(&format!("{THP}/hpage_pmd_size")).filter(|_| gets)
}

const THP: &str = "sys/kernel/mm/transparent_hugepage";

/// The word in brackets: `always [madvise] never`.
fn chosen(tree: &Tree, file: &str) -> Option<String> {
    let text = tree.text(file)?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn folios(tree: &Tree) -> Vec<u64> {
    let on = |word: &str| matches!(word, "always" | "madvise");
    let global = chosen(tree, &format!("{THP}/enabled")).is_some_and(|w| on(&w));
    let sizes: Vec<(u64, String)> = tree
        .names(THP)
        .iter()
        .filter_map(|name| {
            let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            let word = chosen(tree, &format!("{THP}/{name}/enabled"))?;
            Some((kib.parse::<u64>().ok()? * 1024, word))
        })
        .collect();
    if sizes.is_empty() {
        // Before Linux 6.8 there was one size, under the global switch.
        let pmd = tree.parsed(&format!("{THP}/hpage_pmd_size"));
        return pmd.filter(|_| global).into_iter().collect();
    }
    let mut enabled: Vec<u64> = sizes
        .into_iter()
        .filter(|(_, word)| on(word) || (word == "inherit" && global))
        .map(|(bytes, _)| bytes)
        .collect();
    enabled.sort_unstable();
    enabled
}
