//! Policies of whole processes: which of them the report predicts to gain, in the forms in which others keep them.
//!
//! Nothing is calculated here: the candidates are rows of [`WhatIf`] that are of the whole program. What is best for
//! single objects is a placement file's ([`crate::placement`]); these forms can hold none.

mod forms;

pub use forms::{Form, Known, text};

use super::whatif::gain;
use nearfar_analyze::{Predicted, Repair, Report, WORTH, WhatIf};
use nearfar_figures::percent::percent;
use nearfar_machine::cpulist::NodeList;

/// A memory policy of a whole process, with the cpus that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Pages in turns on these nodes.
    Interleave(NodeList),
    /// The same by the kernel's weights, which follow the nodes' bandwidths.
    WeightedInterleave(NodeList),
    /// The same by these weights: nodes and their pages in a row.
    Weights(Vec<(u32, u32)>),
    /// Threads and memory on this node.
    OneNode(u32),
}

impl Policy {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Policy::Interleave(nodes) => format!("all memory in turns on nodes {nodes}"),
            Policy::WeightedInterleave(nodes) => {
                format!("all memory in turns on nodes {nodes}, by their bandwidths")
            }
            Policy::Weights(weights) => {
                let pages: Vec<String> = weights.iter().map(|w| w.1.to_string()).collect();
                format!(
                    "all memory in turns on nodes {}, {} pages in a row",
                    nodes_of(weights),
                    pages.join(" and ")
                )
            }
            Policy::OneNode(node) => format!("threads and memory on node {node}"),
        }
    }
}

/// The nodes of weights.
fn nodes_of(weights: &[(u32, u32)]) -> NodeList {
    weights.iter().map(|w| w.0).collect()
}

/// A policy that is predicted to gain.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The policy.
    pub policy: Policy,
    /// The time with it over the time without.
    pub predicted: Predicted,
    /// A better one that the form does not have.
    pub better: Option<(Policy, Predicted)>,
    /// The best placement of single objects; `None` if none gains anything.
    pub single: Option<Predicted>,
}

impl Choice {
    /// `34 % less time (27 to 40 %)`.
    pub fn gain(&self) -> String {
        gain(&self.predicted)
    }

    /// What of the gain of placing single objects it keeps, in a sentence.
    pub fn kept(&self) -> String {
        match &self.single {
            Some(single) if single.ratio < self.predicted.ratio => format!(
                "This keeps {} of what placing single objects gains, which is {}.",
                percent((1.0 - self.predicted.ratio) / (1.0 - single.ratio)),
                gain(single)
            ),
            _ => "Placing single objects is not predicted to gain more.".to_owned(),
        }
    }
}

/// Why no policy of a whole process is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing gains, no matter what is placed.
    NothingGains,
    /// What gains is the placement of single objects.
    OnlyObjects(String),
    /// Nothing is predicted.
    Unpredicted(String),
}

/// The policy of the whole process that gains most, of those that the form has. `nodes`: those with cpus; `memory`: those
/// without that have memory.
///
/// # Errors
/// If none is predicted to gain as much as is worth a change, for certain.
pub fn choose(report: &Report, nodes: &NodeList, memory: &NodeList, form: Form) -> Result<Choice, Refused> {
    let Some(w) = &report.what_if else {
        let why = report.what_if_why.clone().unwrap_or_else(|| "nothing was predicted".to_owned());
        return Err(Refused::Unpredicted(why));
    };
    let worth = |p: &Predicted| p.ratio <= 1.0 - WORTH && p.high < 1.0;
    let tried = tried(w, nodes, memory);
    let mut gaining: Vec<(Policy, Predicted)> = tried.iter().filter(|t| worth(&t.1)).cloned().collect();
    gaining.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let single = w.best.iter().chain(&w.placeable).map(|c| c.predicted.clone());
    let single = single.min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let Some(at) = gaining.iter().position(|(policy, _)| form.has(policy)) else {
        return Err(match &single {
            Some(single) => Refused::OnlyObjects(only_objects(&tried, single)),
            None => Refused::NothingGains,
        });
    };
    let (policy, predicted) = gaining[at].clone();
    let better = gaining.into_iter().take(at).next();
    Ok(Choice { policy, predicted, better, single })
}

/// Policies of the whole process with what is predicted of them.
fn tried(w: &WhatIf, nodes: &NodeList, memory: &NodeList) -> Vec<(Policy, Predicted)> {
    let of_all = w.repairs.iter().filter(|row| row.objects.is_empty());
    let mut tried: Vec<(Policy, Predicted)> = of_all
        .filter_map(|row| match row.repair {
            Repair::Interleave => Some((Policy::Interleave(nodes.clone()), row.predicted.clone())),
            Repair::WeightedInterleave => {
                Some((Policy::WeightedInterleave(nodes.clone()), row.predicted.clone()))
            }
            Repair::Weighted { with_cpus, without } => {
                let of = |list: &NodeList, weight| list.iter().map(move |n| (n, weight)).collect::<Vec<_>>();
                let mut weights = [of(nodes, with_cpus), of(memory, without)].concat();
                weights.sort_unstable();
                Some((Policy::Weights(weights), row.predicted.clone()))
            }
            // Where it is used is no policy: the kernel's is where it is touched first, which is what is recorded.
            _ => None,
        })
        .collect();
    tried.extend(w.one_node.iter().map(|one| (Policy::OneNode(one.node), one.predicted.clone())));
    tried
}

fn only_objects(tried: &[(Policy, Predicted)], single: &Predicted) -> String {
    let each: Vec<String> =
        tried.iter().map(|(policy, p)| format!("{}: {}", policy.words(), gain_or_loss(p))).collect();
    format!(
        "no policy of the whole process is sure to gain ({}). Placing single objects is predicted to: {}",
        each.join("; "),
        gain(single)
    )
}

/// A gain; what is not, or is not sure to be, with the ends of its range.
fn gain_or_loss(p: &Predicted) -> String {
    match p.ratio < 1.0 {
        true => gain(p),
        false => format!("time × {}", super::whatif::ratio(p)),
    }
}
