//! What a recording that was not closed can still say of itself: from its rows.

use super::Tables;
use nearfar_recording::{Columns, Meta, ObjectKind, SampleSource, SampleSurvey, Source, SourceReport};

/// Completes the meta.json of a recorder that was killed: which sources worked and whether the agent
/// reported is known only at the end, but what they recorded is there.
pub(super) fn complete(meta: &mut Meta, tables: &Tables, survey: &SampleSurvey, faults: bool) {
    if meta.state != "open" {
        return;
    }
    let heap = |&kind: &u8| kind == ObjectKind::Heap as u8 || kind == ObjectKind::SmallHeap as u8;
    if tables.objects.kind.iter().any(heap) {
        meta.agent = true;
        meta.agent_why.clear();
    } else if !meta.agent && meta.agent_why.is_empty() {
        meta.agent_why =
            "it is not known whether it would have: the recorder was killed, and there is no heap \
                          object in what it wrote"
                .into();
    }
    let mut found = |source: Source, why: &str| {
        if !meta.sources.iter().any(|r| r.source == source && r.active) {
            meta.sources.retain(|r| r.source != source);
            meta.sources.push(SourceReport { source, active: true, why: why.into(), hz: 0.0 });
        }
    };
    let why = "known from its rows: the recorder was killed before it said so";
    if survey.samples > 0 {
        // Segments that are written already are of the same source as the rows that are left.
        for (code, source) in [
            (SampleSource::Clock, Source::Clock),
            (SampleSource::Signal, Source::Signal),
            (SampleSource::Hardware, Source::Hardware),
            (SampleSource::Simulated, Source::Simulated),
        ] {
            if tables.samples.source.contains(&(code as u8)) {
                found(source, why);
            }
        }
    }
    if faults || !tables.faults.is_empty() || !tables.page_nodes.is_empty() {
        found(Source::Pages, why);
    }
}
