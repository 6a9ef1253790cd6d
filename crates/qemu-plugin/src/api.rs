//! QEMU's plugin interface, version 1 (QEMU 4.2 to 8.2), as its documentation gives it.
//!
//! The functions are looked up by name when the plugin is installed. So the plugin
//! has no unresolved symbols: it can be preloaded into any process (see `fma`), its
//! tests link without QEMU, and a QEMU built without plugins is named as such.

use libc::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;
use std::sync::OnceLock;

/// The interface's version that we were written for.
pub const VERSION: c_int = 1;

/// `QEMU_PLUGIN_CB_NO_REGS`: a callback that neither reads nor writes registers.
pub const NO_REGISTERS: c_int = 0;

/// `QEMU_PLUGIN_MEM_RW`. Reads or writes alone cannot be asked for in 7.2: the filter is broken.
pub const READ_AND_WRITE: c_int = 3;

/// What QEMU calls this plugin.
pub type PluginId = u64;

/// A translation block while it is translated.
#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}

/// An instruction of it.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// Where an access went.
#[repr(C)]
pub struct HardwareAddress {
    _opaque: [u8; 0],
}

/// What QEMU says about itself (`qemu_info_t`).
#[repr(C)]
pub struct Info {
    /// Name of the emulated architecture.
    pub target_name: *const c_char,
    /// Oldest version of the interface that it serves.
    pub version_min: c_int,
    /// Its version of the interface.
    pub version_current: c_int,
    /// Whether a whole machine is emulated.
    pub system_emulation: bool,
    /// vCPUs at the start.
    pub smp_vcpus: c_int,
    /// Most vCPUs that there can be.
    pub max_vcpus: c_int,
}

/// Called for each block that is translated.
pub type TranslateCallback = extern "C" fn(PluginId, *mut Block);
/// Called when a block or instruction executes.
pub type ExecuteCallback = extern "C" fn(c_uint, *mut c_void);
/// Called for each access, after it.
pub type MemoryCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Called at exit.
pub type ExitCallback = extern "C" fn(PluginId, *mut c_void);

macro_rules! functions {
    ($( $(#[$doc:meta])+ $field:ident = $symbol:literal : fn($($argument:ty),*) $(-> $result:ty)? ),+ $(,)?) => {
        /// QEMU's functions.
        pub struct Api { $( $(#[$doc])+ pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?, )+ }

        impl Api {
            /// Looks all functions up in this process; `Err` names the one that is missing.
            fn find() -> Result<Api, &'static str> {
                Ok(Api { $( $field: {
                    let address = symbol(concat!($symbol, "\0")).ok_or($symbol)?;
                    // SAFETY: QEMU documents this function with these types for version 1 of the interface,
                    // and `qemu_plugin_install` has checked that it serves that version.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address) }
                }, )+ })
            }
        }
    };
}

functions! {
    /// Asks for a call for each block translated.
    on_translate = "qemu_plugin_register_vcpu_tb_trans_cb": fn(PluginId, TranslateCallback),
    /// Asks for a call when the block executes.
    on_block = "qemu_plugin_register_vcpu_tb_exec_cb": fn(*mut Block, ExecuteCallback, c_int, *mut c_void),
    /// Asks for a call when the instruction executes, before it.
    on_instruction = "qemu_plugin_register_vcpu_insn_exec_cb": fn(*mut Instruction, ExecuteCallback, c_int, *mut c_void),
    /// Asks for a call for each access of the instruction.
    on_memory = "qemu_plugin_register_vcpu_mem_cb": fn(*mut Instruction, MemoryCallback, c_int, c_int, *mut c_void),
    /// Asks for a call at exit.
    on_exit = "qemu_plugin_register_atexit_cb": fn(PluginId, ExitCallback, *mut c_void),
    /// Number of instructions in a block.
    block_length = "qemu_plugin_tb_n_insns": fn(*const Block) -> usize,
    /// An instruction of a block.
    block_instruction = "qemu_plugin_tb_get_insn": fn(*const Block, usize) -> *mut Instruction,
    /// Its bytes.
    instruction_data = "qemu_plugin_insn_data": fn(*const Instruction) -> *const c_void,
    /// How many bytes it has.
    instruction_size = "qemu_plugin_insn_size": fn(*const Instruction) -> usize,
    /// Its virtual address.
    instruction_address = "qemu_plugin_insn_vaddr": fn(*const Instruction) -> u64,
    /// Whether an access is a store.
    is_store = "qemu_plugin_mem_is_store": fn(u32) -> bool,
    /// log2 of an access's bytes.
    size_shift = "qemu_plugin_mem_size_shift": fn(u32) -> c_uint,
    /// Where an access went; null if QEMU does not know. Valid until the next call on this thread.
    hardware_address = "qemu_plugin_get_hwaddr": fn(u32, u64) -> *mut HardwareAddress,
    /// Whether that is a device.
    is_device = "qemu_plugin_hwaddr_is_io": fn(*const HardwareAddress) -> bool,
    /// Offset in QEMU's RAM, not a guest-physical address.
    ram_offset = "qemu_plugin_hwaddr_phys_addr": fn(*const HardwareAddress) -> u64,
}

/// Address of a symbol, by its name with a zero at the end.
pub fn symbol(name: &'static str) -> Option<*mut c_void> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    // SAFETY: the name ends with a zero; dlsym has no other condition.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

static API: OnceLock<Api> = OnceLock::new();

/// Finds QEMU's functions; before any other use.
///
/// # Errors
/// The name of a function that this process does not have.
pub fn load() -> Result<&'static Api, &'static str> {
    if API.get().is_none() {
        let _ = API.set(Api::find()?);
    }
    Ok(api())
}

/// QEMU's functions; [`load`] comes first.
pub fn api() -> &'static Api {
    API.get().expect("load() was called when the plugin was installed")
}

/// Where size and direction are in the number that describes an access.
///
/// The number is QEMU's secret, but a call for each access to ask for two bits of it costs a tenth of
/// the whole callback. So what they are in 7.2 is asked of QEMU once, and if it does otherwise, so do we.
pub const STORE_BIT: u32 = 1 << 17;
/// Lowest bit of log2 of the size.
pub const SIZE_AT: u32 = 4;
/// Bits of it.
pub const SIZE_MASK: u32 = 7;

/// Whether this QEMU describes accesses as we read them.
pub fn access_layout_is_known(api: &Api) -> bool {
    (0..8u32).all(|shift| {
        [1u32, 2].into_iter().all(|direction| {
            let info = shift << SIZE_AT | direction << 16 | 1;
            // SAFETY: both functions only take the number apart.
            let (store, size) = unsafe { ((api.is_store)(info), (api.size_shift)(info)) };
            store == (info & STORE_BIT != 0) && size == shift
        })
    })
}
