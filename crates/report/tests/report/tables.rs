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
