//! Excerpts as a recording has them: how many, and what they are of.

use super::{Excerpts, Length, Plan};
use crate::collect::process_table::Maps;
use nearfar_machine::Machine;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Instructions that fill the caches first, and those that are counted. // chosen: a thread that uses 32 MiB has them in its caches
/// after some 200 million; both take some three seconds to count
const LENGTH: Length = Length { before: 240_000_000, counted: 80_000_000 };
/// Mean time between two copies at the beginning. // chosen: programs of a second have some
const EVERY: Duration = Duration::from_millis(150);

/// Excerpts that are being taken.
pub struct Copies {
    /// They are being taken.
    pub taking: Option<Excerpts>,
    /// The space, the thread's row and the mappings of each, as they were then.
    pub from: HashMap<u64, (u32, u32, Arc<Maps>)>,
    /// Why none are.
    pub refused: Option<String>,
}

/// Whether excerpts can be taken here.
///
/// # Errors
/// Why not.
pub fn possible(machine: &Machine) -> Result<(), String> {
    let why = if !cfg!(target_arch = "x86_64") {
        "they are of x86-64 code".to_owned()
    } else if machine.nodes.len() > 1 {
        format!(
            "this host has {} nodes. Each excerpt is of a copy (a fork) of the program, and a page that the program writes \
             next is copied, maybe to another node: where its pages are would no longer be what they were. `nearfar record \
             --on MACHINE` counts there",
            machine.nodes.len()
        )
    } else {
        return Ok(());
    };
    Err(format!("--excerpts: {why}"))
}

impl Copies {
    /// None, or so many at most of the program that is process `root`.
    pub fn begin(most: Option<usize>, root: u32) -> Copies {
        let taking = most.map(|most| Excerpts::begin(root, Plan { length: LENGTH, most, every: EVERY }));
        let (taking, refused) = match taking.transpose() {
            Ok(taking) => (taking, None),
            Err(error) => (None, Some(format!("no thread to take excerpts: {error}"))),
        };
        Copies { taking, from: HashMap::new(), refused }
    }
}
