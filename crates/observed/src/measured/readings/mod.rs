//! Counters that other tools printed, as rows of the table `counters`: `perf stat` ([`perf_stat`]), `numastat`
//! ([`numastat`]), Intel PCM ([`pcm`]) and NUMAPROF ([`numaprof`]).
//!
//! A counter says how often something happened, not which thread, object or line it happened to. So no verdict comes of
//! them, and none of them is a share of remote accesses.

pub mod numaprof;
pub mod numastat;
pub mod pcm;
pub mod perf_stat;
mod value;

pub use value::{MOST_ROWS, Place, Reading, Readings};

/// Reads a text of any of these tools; `None` if it is of none of them.
pub fn read(text: &str) -> Option<Readings> {
    let readers = [numaprof::read, perf_stat::read_json, numastat::read, pcm::read, perf_stat::read_csv];
    readers.into_iter().find_map(|read| read(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_no_such_tool_are_none() {
        for text in ["", "hello\n", "{}", "a,b,c\n1,2,3\n", "1,2\n", "{\"threads\": 5}", "[1, 2]"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
