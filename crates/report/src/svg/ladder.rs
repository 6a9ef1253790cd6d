//! What each repair would give, as intervals on one scale.

use super::drawing::{Anchor, Drawing};
use crate::layout::shorten;
use crate::whatif::words;
use nearfar_analyze::{Predicted, Report};

struct Step {
    name: String,
    what: String,
    predicted: Predicted,
    strong: bool,
}

/// `None` where nothing was counted.
pub(super) fn ladder(r: &Report) -> Option<Drawing> {
    let w = r.what_if.as_ref()?;
    let step =
        |name: String, what: String, predicted: Predicted, strong| Step { name, what, predicted, strong };
    let mut steps: Vec<Step> = w
        .repairs
        .iter()
        .map(|one| {
            let name =
                if one.objects.is_empty() { "whole program".to_owned() } else { one.objects.join(", ") };
            step(name, words(one.repair), one.predicted.clone(), false)
        })
        .collect();
    steps.sort_by(|a, b| a.predicted.ratio.total_cmp(&b.predicted.ratio));
    let names = |c: &nearfar_analyze::Combination| {
        c.parts.iter().map(|p| p.object.as_str()).collect::<Vec<_>>().join(", ")
    };
    if let Some(c) = &w.placeable {
        steps.insert(0, step(names(c), "best without a recompile".to_owned(), c.predicted.clone(), true));
    }
    if let Some(c) = &w.best {
        steps.insert(0, step(names(c), "best combination".to_owned(), c.predicted.clone(), true));
    }
    steps.push(step(
        "every line local".to_owned(),
        "bound for any placement".to_owned(),
        w.all_local.clone(),
        false,
    ));
    if let Some(one) = &w.one_node {
        let what = format!("all on node {}", one.node);
        steps.push(step("threads and memory".to_owned(), what, one.predicted.clone(), false));
    }
    let (width, left, row, top) = (900.0, 440.0, 24.0, Drawing::TOP + 30.0);
    let most = steps.iter().map(|s| s.predicted.high).fold(1.05, f64::max);
    let least = steps.iter().map(|s| s.predicted.low).fold(0.9, f64::min);
    let x = |ratio: f64| left + (ratio - least) / (most - least) * (width - left - 20.0);
    let mut d = Drawing::new(width, "Predicted time with a repair over the time without");
    let bottom = top + steps.len() as f64 * row;
    let ticks = ((most - least) / 8.0 * 10.0).ceil().max(1.0) / 10.0;
    let mut tick = (least / ticks).ceil() * ticks;
    while tick <= most {
        d.line("grid", (x(tick), top - 10.0), (x(tick), bottom));
        d.text(x(tick), top - 16.0, "small", Anchor::Middle, &format!("{tick:.1}"));
        tick += ticks;
    }
    d.line("line", (x(1.0), top - 10.0), (x(1.0), bottom));
    for (at, s) in steps.iter().enumerate() {
        let y = top + at as f64 * row + 10.0;
        let p = &s.predicted;
        let class = match () {
            () if p.high < 1.0 => "good",
            () if p.low > 1.0 => "bad",
            () => "none",
        };
        d.text(10.0, y + 4.0, if s.strong { "strong" } else { "" }, Anchor::Start, &shorten(&s.name, 34));
        d.text(left - 20.0, y + 4.0, "small", Anchor::End, &shorten(&s.what, 34));
        d.rect(class, (x(p.low), y - 1.0), (x(p.high) - x(p.low), 2.0));
        d.dot(class, (x(p.ratio), y), if s.strong { 5.0 } else { 4.0 });
    }
    d.foot("dot: best guess; line: its range; 1.0: as it is. Source: counted lines, time by the machine's figures");
    Some(d)
}
