//! What the agent is asked for.

use nearfar_host::target::User;

/// What the agent should record.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Allocations and mappings of at least this size are recorded one by one.
    pub min_object_bytes: u64,
    /// Of smaller allocations one per so many bytes and thread; 0 = none.
    pub small_sample_bytes: u64,
    /// Most pages of an object whose page's node is looked up at its end; 0 = none.
    pub looked_up_pages: u32,
    /// Samples per second of CPU time and thread on the signal source; 0 = off.
    pub signal_hz: u32,
    /// Send /proc/PID/maps at the start and end of each image (where perf does not tell mappings).
    pub maps: bool,
    /// Make hypercalls to the virtual machine's plugin (agent/hypercall.c).
    pub hypercall: bool,
    /// Allocations a second and process that are recorded one by one, beyond those that make more objects than ever
    /// before; 0 = all.
    pub alloc_rate: u32,
    /// How many of them may be saved up.
    pub alloc_burst: u32,
    /// Whom the program runs as; `None`: as we do.
    pub user: Option<User>,
    /// Most bytes of the shared memory, where less is wanted than the default.
    pub most_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            min_object_bytes: 64 << 10,
            small_sample_bytes: 64 << 10,
            looked_up_pages: 1024,
            signal_hz: 0,
            maps: false,
            hypercall: false,
            alloc_rate: 16384,
            alloc_burst: 1024,
            user: None,
            most_bytes: u64::MAX,
        }
    }
}
