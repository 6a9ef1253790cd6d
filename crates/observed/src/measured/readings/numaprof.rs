//! What NUMAPROF writes (github.com/memtt/numaprof): JSON with accesses of each thread, counted by instrumentation.
//!
//! They are accesses, of which caches answer most: neither lines from memory nor time. Accesses by threads that are not bound
//! are counted apart ("unpinned"), and whether they were remote is not known. Only `threads` is read; its sites and allocations
//! have the same counts.

use super::value::{Place, Reading, Readings};
use serde_json::Value;

/// The counters of a thread, with what they are.
const COUNTERS: [(&str, &str); 10] = [
    ("firstTouch", "first touches by bound threads"),
    ("unpinnedFirstTouch", "first touches by threads that are not bound"),
    ("localAccess", "local accesses by bound threads"),
    ("remoteAccess", "remote accesses by bound threads"),
    ("unpinnedPageAccess", "accesses to pages that a thread which was not bound touched first"),
    ("unpinnedThreadAccess", "accesses by threads that are not bound"),
    ("unpinnedBothAccess", "accesses of which neither thread was bound"),
    ("mcdramAccess", "accesses to MCDRAM"),
    ("localMcdramAccess", "local accesses to MCDRAM"),
    ("remoteMcdramAccess", "remote accesses to MCDRAM"),
];

/// Reads its JSON; `None` if that has no threads with such counters.
pub fn read(text: &str) -> Option<Readings> {
    if !text.trim_start().starts_with('{') || !text.contains("\"localAccess\"") {
        return None;
    }
    let whole: Value = serde_json::from_str(text).ok()?;
    let threads = whole.get("threads")?.as_array()?;
    let mut found = Readings::new("NUMAPROF");
    for (thread, number) in threads.iter().zip(0..) {
        let Some(counts) = thread.get("stats").and_then(Value::as_object) else {
            found.damaged(1, &format!("thread {number} has no counts"));
            continue;
        };
        for (key, name) in COUNTERS {
            match counts.get(key).map(Value::as_u64) {
                // Versions have different ones.
                None => {}
                Some(None) => found.damaged(1, &format!("thread {number}: {key} is not a count")),
                Some(Some(value)) => {
                    let place = Place::Other(format!("thread {number}"));
                    let (name, value) = (name.to_owned(), Some(value as f64));
                    found.push(Reading { place, name, value, ..Reading::default() });
                }
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_threads_are_read_and_damage_is_named() {
        let text = r#"{"infos": {"exe": "a"}, "threads": [
            {"stats": {"firstTouch": 3, "localAccess": 10, "remoteAccess": 0}},
            {"stats": {"localAccess": -1, "remoteAccess": 7}}, {}]}"#;
        let found = read(text).unwrap();
        let rows: Vec<_> = found.rows.iter().map(|r| (r.place.clone(), r.value.unwrap())).collect();
        let thread = |n: u32| Place::Other(format!("thread {n}"));
        assert_eq!(rows, [(thread(0), 3.0), (thread(0), 10.0), (thread(0), 0.0), (thread(1), 7.0)]);
        assert_eq!(found.damage.len(), 2, "{:?}", found.damage);
        assert_eq!(read(r#"{"threads": [], "x": 1}"#), None);
    }
}
