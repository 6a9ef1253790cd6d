//! Caliper's split JSON, as `cali-query -q "format json-split"` writes it and hatchet reads it: phases as the hierarchy
//! `path`, their amounts as columns.

use nearfar_analyze::{Basis, PhaseAmounts, Report};
use serde_json::{Value, json};

/// The file; `None` without phases. Times are seconds.
pub fn json(report: &Report, rank: u32) -> Option<String> {
    let phases = report.phases.as_ref()?;
    let weight = |n: u64| match phases.basis {
        Basis::StallTime => json!(n as f64 / 1e9),
        Basis::DramLines | Basis::MemoryLoads => json!(n),
    };
    let (near, far) = match phases.basis {
        Basis::StallTime => ("near memory seconds", "far memory seconds"),
        Basis::DramLines => ("near memory lines", "far memory lines"),
        Basis::MemoryLoads => ("near memory loads", "far memory loads"),
    };
    type Of<'a> = &'a dyn Fn(&PhaseAmounts) -> Value;
    let amounts: [(&str, Of); 6] = [
        ("time.duration", &|a| json!(a.time_ns as f64 / 1e9)),
        (near, &|a| weight(a.near)),
        (far, &|a| weight(a.far)),
        ("samples", &|a| json!(a.samples)),
        ("page faults", &|a| json!(a.faults)),
        ("bytes allocated", &|a| json!(a.bytes)),
    ];
    // The name that Caliper's own recipe for hatchet gives it; readers want it first.
    let mut columns: Vec<String> = vec!["Node order".to_owned()];
    for (name, _) in &amounts {
        columns.push(format!("sum#{name}"));
        columns.push(format!("inclusive#sum#{name}"));
    }
    columns.extend(["count", "mpi.rank", "path"].map(str::to_owned));
    let metadata: Vec<Value> = columns.iter().map(|c| json!({ "is_value": c != "path" })).collect();
    let data: Vec<Value> = phases
        .nodes
        .iter()
        .enumerate()
        .map(|(i, node)| {
            let mut row: Vec<Value> = vec![json!(i)];
            for (_, of) in &amounts {
                row.push(of(&node.all.exclusive));
                row.push(of(&node.all.inclusive));
            }
            row.extend([json!(node.all.calls), json!(rank), json!(i)]);
            Value::Array(row)
        })
        .collect();
    let nodes: Vec<Value> = phases
        .nodes
        .iter()
        .map(|node| match node.parent {
            None => json!({ "label": "(thread)", "column": "path" }),
            Some(parent) => json!({ "label": node.name, "column": "path", "parent": parent }),
        })
        .collect();
    let all = json!({
        "data": data,
        "columns": columns,
        "column_metadata": metadata,
        "nodes": nodes,
        "nearfar.command": report.command.join(" "),
        "nearfar.machine": report.machine.name,
    });
    Some(nearfar_figures::escape::json(format!("{all:#}\n")))
}
