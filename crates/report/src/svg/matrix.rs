//! Node × node.

use super::drawing::{Anchor, Drawing};
use super::source::source;
use nearfar_analyze::Report;
use nearfar_figures::percent;

/// Rows are nodes of threads, columns nodes of pages; `None` for a machine of one node.
pub(super) fn matrix(r: &Report, title: &str, rows: &[Vec<f64>]) -> Option<Drawing> {
    let n = rows.len();
    if n < 2 {
        return None;
    }
    let side = if n <= 8 { 44.0 } else { (400.0 / n as f64).max(6.0) };
    let (left, top) = (90.0, Drawing::TOP + 40.0);
    let mut d = Drawing::new((left + n as f64 * side + 20.0).max(460.0), title);
    d.text(left, Drawing::TOP + 12.0, "small", Anchor::Start, "pages on node");
    d.text(10.0, top + 14.0, "small", Anchor::Start, "threads");
    d.text(10.0, top + 28.0, "small", Anchor::Start, "on node");
    let most = rows.iter().flatten().copied().fold(1e-9, f64::max);
    let every = n.div_ceil(16);
    for (at, id) in r.machine.node_ids.iter().enumerate().filter(|x| x.0 % every == 0) {
        let middle = at as f64 * side + side / 2.0;
        d.text(left + middle, top - 6.0, "small", Anchor::Middle, &id.to_string());
        d.text(left - 8.0, top + middle + 4.0, "small", Anchor::End, &id.to_string());
    }
    for (from, row) in rows.iter().enumerate() {
        for (page_node, &share) in row.iter().enumerate() {
            let at = (left + page_node as f64 * side, top + from as f64 * side);
            let inner = side - 1.5;
            d.cell("box", at, inner, 1.0);
            if share > 0.0 {
                let class = if from == page_node { "near" } else { "far" };
                d.cell(class, at, inner, 0.15 + 0.85 * share / most);
            }
            if n <= 8 {
                let words = match share {
                    s if s > 0.0 && s < 0.000_95 => "<0.1".to_owned(),
                    s => percent::number(s),
                };
                let class = if share / most > 0.55 { "in" } else { "" };
                d.text(at.0 + inner / 2.0, at.1 + inner / 2.0 + 4.0, class, Anchor::Middle, &words);
            }
        }
    }
    d.keys(&[("near", "near".to_owned()), ("far", "far".to_owned())]);
    d.foot(&source(r));
    Some(d)
}
