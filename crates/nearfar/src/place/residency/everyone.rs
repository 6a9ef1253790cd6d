//! All processes that the caller may look at, a line each.

use super::{Site, Way, WhereError, look_at};
use nearfar_observed::residency::{Brief, Everyone, SCHEMA_VERSION};
use std::cmp::Reverse;
use std::fs;
use std::io;

/// Looks at each; those that end meanwhile are left out.
///
/// # Errors
/// If /proc cannot be read.
pub fn look_at_all(site: &Site, way: Way) -> io::Result<Everyone> {
    let mut everyone = Everyone {
        schema: SCHEMA_VERSION,
        processes: Vec::new(),
        not_permitted: Vec::new(),
        without_memory: 0,
    };
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        match look_at(pid, site, way, 0.0, false) {
            Ok(seen) => everyone.processes.push(Brief::new(&seen)),
            Err(WhereError::NotPermitted { .. } | WhereError::NotThere { .. }) => {
                everyone.not_permitted.push(pid)
            }
            Err(WhereError::NoMemory { .. } | WhereError::Ended { .. }) => everyone.without_memory += 1,
            Err(WhereError::NoProcess { .. } | WhereError::Thread { .. }) => {}
        }
    }
    everyone.processes.sort_by_key(|p| (Reverse(p.bytes()), p.pid));
    everyone.not_permitted.sort_unstable();
    Ok(everyone)
}
