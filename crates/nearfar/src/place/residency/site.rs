//! What is asked once of the machine, and how pages are looked at.

use nearfar_host::discover;
use nearfar_host::proc;
use nearfar_host::symbols::{Module, StaticVariable};
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Files that were read, with their large variables, by path.
pub(super) type Files = Mutex<HashMap<String, Arc<(Module, Vec<StaticVariable>)>>>;

/// What is asked once and not at each look.
pub struct Site {
    /// The machine.
    pub machine: Machine,
    /// The cpus of each last-level cache, by the first one.
    pub(super) l3: Vec<CpuList>,
    /// Cpus that run.
    pub(super) online: CpuList,
    /// Size of a page, bytes.
    pub(super) page_bytes: u64,
    /// Files that were read for their static variables, by path.
    pub(super) files: Files,
}

impl Site {
    /// This machine.
    ///
    /// # Errors
    /// If it has no list of cpus.
    pub fn here() -> anyhow::Result<Site> {
        let root = Path::new("/");
        let found = discover::discover(root)?;
        Ok(Site {
            l3: discover::last_level_caches(root, &found.kernel.online),
            online: found.kernel.online,
            machine: found.machine,
            page_bytes: proc::page_bytes(),
            files: Default::default(),
        })
    }
}

/// How to look at pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Small processes page by page, others by random pages.
    Auto,
    /// Page by page, however long that takes.
    Exact,
    /// Random pages.
    Sample,
}
