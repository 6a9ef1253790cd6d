//! Writes the repairs of a report as a placement file.

use super::layout::percent;
use super::whatif::{gain, words};
use nearfar_analyze::{Finding, Predicted, Repair, RepairPart, Report, base};
use nearfar_machine::placement_file::{FORMAT, ObjectPolicy, PlacedObject, PlacementFile};

/// A placement file, and what should be said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The file.
    pub file: PlacementFile,
    /// What is predicted of it, in words; `unknown` with the reason where nothing is.
    pub predicted: String,
    /// Whether it needs threads that stay where they are.
    pub pinned: bool,
}

/// What a report's repairs are as a file; and what a file cannot say, a line each.
pub fn to_placement(report: &Report) -> (Option<Placement>, Vec<String>) {
    let (parts, predicted) = parts(report);
    let mut left: Vec<String> = Vec::new();
    let mut objects: Vec<PlacedObject> = Vec::new();
    for part in parts.iter().copied() {
        match refused(part, &parts) {
            Some(why) => left.push(format!("{}: {why}", part.object)),
            None => {
                let object = object(part);
                // A file that is refused when it is read repairs nothing, the other objects neither.
                match object.wrong() {
                    Some(why) => left.push(format!("{}: a file cannot name it: {why}", part.object)),
                    None => objects.push(object),
                }
            }
        }
    }
    for part in report.what_if.iter().flat_map(|w| &w.best).flat_map(|b| &b.parts) {
        if parts.iter().any(|p| p.object == part.object) {
            continue;
        }
        let why = part.not_placeable.as_deref().unwrap_or("nothing that a file can say gains anything");
        left.push(format!("{} {}: {why}", part.object, words(part.repair)));
    }
    if objects.is_empty() {
        return (None, left);
    }
    let sampled = report.sampled_gain.as_ref().filter(|_| left.is_empty());
    let sampled = sampled.and_then(|g| Some((g.repaired.as_ref()?, &g.source)));
    let predicted = match (predicted, sampled, &report.what_if_why) {
        (Some(p), ..) => format!("{}; predicted from counts", gain(p)),
        (None, Some((p, source)), _) => format!("{}; predicted from {source}", gain(p)),
        (None, None, Some(why)) => format!("unknown: {}{why}", at_most(report, &parts)),
        (None, None, None) => "unknown".to_owned(),
    };
    let pinned = objects.iter().any(|o| o.policy.follows_threads());
    let comment = format!(
        "Written by nearfar fix, for: {}\nMachine: {}\nGain: {predicted}",
        report.command.join(" "),
        report.machine.name,
    );
    let program = program(report).filter(|_| objects.iter().any(|o| o.module.is_none()));
    let file = PlacementFile { format: FORMAT, program, objects, comment: Some(comment) };
    (Some(Placement { file, predicted, pinned }), left)
}

/// Why a file cannot say one of these parts.
fn refused<'a>(part: &'a RepairPart, parts: &[&RepairPart]) -> Option<&'a str> {
    let tied = parts.iter().any(|other| other.is_named_as(part) && !other.is_like(part));
    let why =
        "its line allocates other objects too, which need another placement: a file cannot tell them apart";
    part.not_placeable.as_deref().or(tied.then_some(why))
}

/// Whether `nearfar fix` has something to place of these objects.
pub(crate) fn places(report: &Report, objects: &[String]) -> bool {
    let (parts, _) = parts(report);
    parts.iter().any(|part| objects.contains(&part.object) && refused(part, &parts).is_none())
}

/// The program, where the command is another one that starts it (numactl, a script): the file's lines are the program's.
fn program(report: &Report) -> Option<String> {
    let command = report.command.first()?;
    let most = &report.pictures.processes.first()?.executable;
    (base(most) != base(command)).then(|| most.clone())
}

/// What the findings that these parts repair have at risk; nothing where that is not time.
fn at_most(report: &Report, parts: &[&RepairPart]) -> String {
    let in_file = |part: &RepairPart| parts.iter().any(|p| std::ptr::eq(*p, part));
    let repaired = |f: &&Finding| !f.shares_lines() && f.repairs.iter().any(in_file);
    let at_risk: f64 = report.findings.iter().filter(repaired).map(|f| f.at_risk).sum();
    if at_risk > 0.0 {
        format!("at most {} of the time; ", percent(Some(at_risk.min(1.0))))
    } else {
        String::new()
    }
}

/// The best combination that a file can say; without counts, what the findings suggest.
fn parts(report: &Report) -> (Vec<&RepairPart>, Option<&Predicted>) {
    match &report.what_if {
        Some(w) => {
            let best = w.placeable.as_ref();
            (best.map_or(Vec::new(), |b| b.parts.iter().collect()), best.map(|b| &b.predicted))
        }
        None => {
            let mut seen: Vec<&RepairPart> = Vec::new();
            for part in report.findings.iter().flat_map(|f| &f.repairs) {
                if !seen.iter().any(|p| p.object == part.object && p.allocated_at == part.allocated_at) {
                    seen.push(part);
                }
            }
            (seen, None)
        }
    }
}

fn object(part: &RepairPart) -> PlacedObject {
    let policy = match part.repair {
        Repair::WhereUsed if !part.turns.is_empty() => ObjectPolicy::Turns,
        // One part is the whole.
        Repair::WhereUsed if part.blocks.len() == 1 => ObjectPolicy::Preferred,
        Repair::WhereUsed => ObjectPolicy::Blocks,
        Repair::Bind { .. } => ObjectPolicy::Preferred,
        _ => ObjectPolicy::Interleave,
    };
    let list = |nodes: &[u32]| Some(nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    let nodes = match policy {
        ObjectPolicy::Interleave => list(&part.nodes),
        ObjectPolicy::Preferred if part.blocks.len() == 1 => list(&[part.blocks[0].1]),
        ObjectPolicy::Preferred => list(&part.nodes),
        _ => None,
    };
    // The file's name alone: a rebuild elsewhere has another path.
    let at = part.allocated_at.as_ref().map(|at| base(at).to_owned());
    PlacedObject {
        name: Some(part.object.clone()),
        allocated_at: at,
        variable: part.variable.clone(),
        module: part.module.clone(),
        nodes,
        blocks: (policy == ObjectPolicy::Blocks).then(|| part.blocks.clone()),
        weights: (!part.weights.is_empty()).then(|| part.weights.clone()),
        turns: (policy == ObjectPolicy::Turns).then(|| part.turns.clone()),
        comment: Some(format!("{}: {}", part.object, words(part.repair))),
        ..PlacedObject::new(policy)
    }
}
