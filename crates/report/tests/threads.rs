//! How threads are called on pages for people.

#[path = "report_samples/mod.rs"]
#[allow(dead_code)] // other tests use the rest
mod samples;

use nearfar_report::phases::{Quantity, Wanted};
use nearfar_report::{to_details, to_phases, to_text};

/// JSON and exports have the operating system's number too; a reader of pages meets the own number everywhere.
#[test]
fn a_thread_has_one_number_on_all_pages() {
    let system = |tid: &mut u32| *tid += 16_392;
    for (name, mut r) in [
        ("affected", samples::affected()),
        ("clean", samples::clean()),
        ("simulated", samples::simulated()),
        ("untimed", samples::untimed()),
    ] {
        r.threads.iter_mut().for_each(|t| system(&mut t.tid));
        r.objects.iter_mut().flat_map(|o| &mut o.first_touch).for_each(|t| system(&mut t.thread));
        r.counted_along.iter_mut().flat_map(|c| &mut c.threads).for_each(|t| system(&mut t.tid));
        r.pictures.timeline.iter_mut().flat_map(|c| &mut c.threads).for_each(|t| system(&mut t.tid));
        r.phases.iter_mut().flat_map(|p| &mut p.threads).for_each(|t| system(&mut t.tid));
        let wanted = Wanted { quantity: Quantity::Time, threads: true };
        let mut pages = vec![
            to_text(&r, "app.nearfar", "app.nearfar", 100, false),
            to_details(&r, "app.nearfar", 100, false),
            to_phases(&r, wanted, 100, false),
        ];
        pages.extend(nearfar_report::svg::pictures(&r).into_iter().map(|p| p.svg));
        for page in &pages {
            for t in &r.threads {
                assert!(
                    !page.contains(&t.tid.to_string()),
                    "{name}: {} of thread {}: {page}",
                    t.tid,
                    t.index
                );
            }
        }
        if name == "clean" {
            // Where both were: what was counted beside the samples, and the phases.
            assert!(pages[1].contains("\n0 triad ") && pages[2].contains(";THREAD 0 (triad)"), "{pages:?}");
        }
    }
}
