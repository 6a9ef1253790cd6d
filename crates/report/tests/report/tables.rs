//! Which tables the first screen has.

use crate::{samples, to_details, to_text};
use nearfar_analyze::Report;

/// Of three lines each is a third of everything: what rests on them alone has no table on the first screen. Counts by page have.
#[test]
fn few_sampled_lines_have_no_tables() {
    let mut r = samples::simulated();
    let page = |r: &Report| to_text(r, 100, false);
    assert!(page(&r).contains("\nObject ") && page(&r).contains("\nFunction "), "{}", page(&r));
    r.sources.iter_mut().for_each(|source| source.samples = 0);
    r.sources[0].samples = 9;
    assert!(page(&r).contains("\nObject ") && !page(&r).contains("\nFunction "), "{}", page(&r));
    assert!(page(&r).contains("9 sampled, too few for tables"), "{}", page(&r));
    r.objects.iter_mut().for_each(|object| object.remote_share_exact = false);
    assert!(!page(&r).contains("\nObject ") && !page(&r).contains("\nThread"), "{}", page(&r));
    assert!(to_details(&r, 100, false).contains("\nFunctions "), "{}", to_details(&r, 100, false));
    r.sources[0].samples = 10;
    assert!(page(&r).contains("\nFunction "), "{}", page(&r));
}

/// A long path gives way, not the figures before it.
#[test]
fn long_places_do_not_cut_the_figures_of_a_function() {
    let mut r = samples::affected();
    let figures = |r: &Report, width| {
        let page = to_text(r, width, false);
        let row = page.lines().skip_while(|line| !line.starts_with("Function ")).nth(1).unwrap().to_owned();
        assert!(row.chars().count() <= width, "{row}");
        row.split_whitespace().skip(1).take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = figures(&r, 100);
    r.functions[0].function = "_splitter.cpython-311-x86_64-linux-gnu.so+0xae920".repeat(2);
    r.functions[0].lines[0].at = Some("_splitter.cpython-311-x86_64-linux-gnu.so+0xae92".repeat(2));
    assert_eq!((figures(&r, 100), figures(&r, 80)), (before.clone(), before));
}

/// A plain repair of all objects is preferred to a better one of some that gains little more: then it is not the best.
#[test]
fn a_repair_is_called_best_only_where_no_better_one_is_below_it() {
    let mut r = samples::simulated();
    let line = |r: &Report| {
        let page = to_details(r, 100, false);
        page.lines().skip_while(|line| !line.starts_with("What if")).nth(1).unwrap().to_owned()
    };
    assert!(line(&r).starts_with("best: a, b and c"), "{}", line(&r));
    let w = r.what_if.as_mut().unwrap();
    w.best.as_mut().unwrap().predicted.ratio = w.repairs[0].predicted.ratio + 0.02;
    assert!(line(&r).starts_with("the simplest within 3.0 % of the best: a, b and c"), "{}", line(&r));
}
