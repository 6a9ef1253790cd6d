//! What must hold between the parts of a machine file.

use super::Machine;
use super::NodeId;
use super::raw::{MachineFileError, RawFile};

type Checked = Result<(), MachineFileError>;

fn square<T>(rows: &[Vec<T>], machine: &Machine, what: &str) -> Result<(), String> {
    let n = machine.nodes.len();
    if rows.len() != n {
        return Err(format!("{what} has {} rows, but the machine has {n} nodes", rows.len()));
    }
    match rows.iter().position(|r| r.len() != n) {
        Some(i) => Err(format!(
            "{what}: the row of node {} has {} entries, but the machine has {n} nodes",
            machine.nodes[i].id,
            rows[i].len()
        )),
        None => Ok(()),
    }
}

pub(super) fn distances(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
    let Some(distances) = &raw.distances else {
        return Ok(());
    };
    let rows = distances.rows.get_ref();
    let fail = |m: String| MachineFileError::at(text, distances.rows.span().start, m);
    square(rows, machine, "distances").map_err(fail)?;
    for (i, row) in rows.iter().enumerate() {
        if let Some(j) = (0..row.len()).find(|&j| j != i && row[j] < row[i]) {
            return Err(fail(format!(
                "distances: node {} is nearer to node {} ({}) than that is to itself ({})",
                machine.nodes[j].id, machine.nodes[i].id, row[j], row[i]
            )));
        }
    }
    Ok(())
}

pub(super) fn topology(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
    let mut seen: Vec<u32> = Vec::new();
    for core in &raw.topology.cores {
        let fail = |m: String| Err(MachineFileError::at(text, core.span().start, m));
        for cpu in core.get_ref().iter() {
            if machine.node_of_cpu(cpu).is_none() {
                return fail(format!("cpu {cpu} of a core is in no node"));
            }
            if seen.contains(&cpu) {
                return fail(format!("cpu {cpu} is in two cores"));
            }
            seen.push(cpu);
        }
    }
    for node in &raw.nodes {
        let cpus = node.get_ref().cpus.get_ref().len() as u32;
        let threads = raw.topology.threads_per_core.unwrap_or(1).max(1);
        if raw.topology.cores.is_empty() && !cpus.is_multiple_of(threads) {
            return Err(MachineFileError::at(
                text,
                node.get_ref().cpus.span().start,
                format!(
                    "node {} has {cpus} cpus, which are not whole cores of {threads} threads \
                     (threads_per_core)",
                    node.get_ref().id
                ),
            ));
        }
    }
    let mut level = 0;
    for cache in &raw.caches {
        if cache.get_ref().level <= level {
            return Err(MachineFileError::at(
                text,
                cache.span().start,
                format!(
                    "cache level {} comes after level {level}; inner levels come first",
                    cache.get_ref().level
                ),
            ));
        }
        level = cache.get_ref().level;
        let c = cache.get_ref();
        let ways = c.ways.as_ref().map_or(1.0, |w| w.value);
        if c.cores_per_instance == 0 || c.size_bytes.value < 1.0 || ways < 1.0 {
            return Err(MachineFileError::at(
                text,
                cache.span().start,
                format!("cache level {}: size_bytes, ways and cores_per_instance must be 1 or more", c.level),
            ));
        }
    }
    Ok(())
}

/// Translations: sizes that exist, each described once per level.
pub(super) fn tlbs(raw: &RawFile, text: &str) -> Checked {
    let mut seen: Vec<(u32, u64)> = Vec::new();
    for spanned in &raw.tlbs {
        let fail = |m: String| Err(MachineFileError::at(text, spanned.span().start, m));
        let tlb = spanned.get_ref();
        if tlb.page_bytes.is_empty() {
            return fail("page_bytes is empty; it lists the page sizes, such as [4096, 2097152]".into());
        }
        let ways = tlb.ways.as_ref().map_or(1.0, |w| w.value);
        if ways < 1.0 || tlb.entries.value < ways {
            return fail(format!("a TLB of {} entries cannot have {ways} ways", tlb.entries.value));
        }
        for &bytes in &tlb.page_bytes {
            if !bytes.is_power_of_two() || bytes < 4096 {
                return fail(format!("{bytes} is not a page size; it is given in bytes, such as 4096"));
            }
            if seen.contains(&(tlb.level, bytes)) {
                return fail(format!("the level-{} TLB of {bytes}-byte pages is described twice", tlb.level));
            }
            seen.push((tlb.level, bytes));
        }
    }
    Ok(())
}

pub(super) fn matrices(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
    let latency = raw.latency_ns.iter().map(|m| (m, "latency_ns", true));
    let pairs = raw.pair_read_gbs.iter().map(|m| (m, "pair_read_gbs", false));
    for (spanned, what, local_is_least) in latency.chain(pairs) {
        let matrix = spanned.get_ref();
        let fail = |m: String| MachineFileError::at(text, spanned.span().start, m);
        square(&matrix.rows, machine, what).map_err(fail)?;
        for (i, node) in machine.nodes.iter().enumerate() {
            let row = matrix.rows[i].iter().map(|c| c.0);
            if let Some(bad) = row.flatten().find(|v| !v.is_finite() || *v <= 0.0) {
                return Err(fail(format!(
                    "{what}: {bad} in the row of node {}; what is not known is written \
                     \"unknown\", never 0",
                    node.id
                )));
            }
            let Some(own) = matrix.get(i, i).filter(|_| local_is_least) else {
                continue;
            };
            for (j, other) in machine.nodes.iter().enumerate() {
                if let Some(far) = matrix.get(i, j).filter(|&far| j != i && far < own) {
                    return Err(fail(format!(
                        "{what}: from node {} to node {} takes {far} ns, less than its own \
                         memory ({own} ns)",
                        node.id, other.id
                    )));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn parts(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
    let mut described: Vec<NodeId> = Vec::new();
    for spanned in &raw.bandwidth {
        let fail = |m: String| Err(MachineFileError::at(text, spanned.span().start, m));
        let b = spanned.get_ref();
        for node in b.nodes.iter() {
            if machine.position(node).is_none() {
                return fail(format!("bandwidth of node {node}, which is not described"));
            }
            if described.contains(&node) {
                return fail(format!("bandwidth of node {node} is given twice"));
            }
            described.push(node);
        }
        let sustained = [&b.read_gbs, &b.update_gbs, &b.triad_gbs];
        if let Some(peak) = &b.peak_gbs
            && let Some(over) = sustained.into_iter().flatten().map(|f| f.value).find(|&s| s > peak.value)
        {
            return fail(format!("sustained {over} GB/s is above the peak of {} GB/s", peak.value));
        }
    }
    for spanned in &raw.links {
        let fail = |m: String| Err(MachineFileError::at(text, spanned.span().start, m));
        let link = spanned.get_ref();
        if let Some(end) = [link.from, link.to].into_iter().find(|&n| machine.position(n).is_none()) {
            return fail(format!("a link to node {end}, which is not described"));
        }
        if link.from == link.to {
            return fail(format!("a link from node {} to itself", link.from));
        }
        if link.count.value < 1.0 {
            return fail("a link's count must be 1 or more".into());
        }
    }
    let time = &raw.time.get_ref();
    if let Some(over) = time.probe_share.as_ref().map(|f| f.value).filter(|&v| v > 1.0) {
        let message = format!("probe_share is a part of a whole, so it cannot be {over}");
        return Err(MachineFileError::at(text, raw.time.span().start, message));
    }
    if let Some(below) = time.eta.as_ref().map(|f| f.value).filter(|&v| v < 1.0) {
        let message = format!("eta is a cost factor of 1 or more, not {below}");
        return Err(MachineFileError::at(text, raw.time.span().start, message));
    }
    Ok(())
}
