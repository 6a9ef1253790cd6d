//! GPUs as NVIDIA's management library (NVML) sees them, where it is installed: it knows links
//! that sysfs has no word for, and often the node where sysfs says −1.
//!
//! Source: NVIDIA, NVML API Reference Guide; the driver's header nvml.h. Functions that an older
//! library lacks are as good as not supported.

use nearfar_machine::cpulist::{CpuList, IndexList, NodeList};
use nvml_wrapper_sys::bindings as nvml;
use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t, nvmlReturn_t};
use std::ffi::{CStr, c_char, c_uint, c_ulong};

/// The name that the driver installs; `libnvidia-ml.so` is only in packages for developers.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// A GPU of NVML; `None` is what it does not tell.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    /// As sysfs writes it.
    pub(super) pci: String,
    pub(super) product: Option<String>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) near_nodes: Option<NodeList>,
    pub(super) near_cpus: Option<CpuList>,
    /// What is at the other end of each active NVLink.
    pub(super) nvlinks: Option<Vec<Peer>>,
    /// PCI addresses of others, and the way there in the words of `nvidia-smi topo -m`.
    pub(super) ways: Vec<(String, &'static str)>,
}

/// The other end of an NVLink.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Peer {
    Gpu(String),
    Switch,
    Other,
}

/// All GPUs; none where no library exists or no driver, which is the usual case.
///
/// # Errors
/// If there is a driver and it refuses.
pub(super) fn gpus() -> Result<Vec<Found>, String> {
    // SAFETY: running the initialisers of NVIDIA's library is what the user installed it for; the
    // name is looked up where the system looks for libraries.
    let Ok(lib) = (unsafe { NvmlLib::new(LIBRARY) }) else { return Ok(Vec::new()) };
    let Ok(init) = lib.nvmlInit_v2.as_ref() else { return Ok(Vec::new()) };
    // SAFETY: the first call, as NVML wants; it takes nothing.
    match unsafe { init() } {
        SUCCESS => {}
        // An image that brings the library to a machine without the driver.
        nvml::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED
        | nvml::nvmlReturn_enum_NVML_ERROR_LIBRARY_NOT_FOUND => return Ok(Vec::new()),
        code => {
            return Err(format!(
                "{LIBRARY} does not start: {}; GPUs are shown as sysfs has them. nvidia-smi should say the same",
                message(&lib, code)
            ));
        }
    }
    let found = Session { lib: &lib }.gpus();
    if let Ok(shutdown) = lib.nvmlShutdown.as_ref() {
        // SAFETY: the pair of the successful init; no handle is used after it.
        unsafe { shutdown() };
    }
    Ok(found)
}

const SUCCESS: nvmlReturn_t = nvml::nvmlReturn_enum_NVML_SUCCESS;

fn message(lib: &NvmlLib, code: nvmlReturn_t) -> String {
    let text = lib.nvmlErrorString.as_ref().ok().and_then(|words| {
        // SAFETY: it takes any code, also before init; the text it returns lives as long as the library.
        let text = unsafe { words(code) };
        // SAFETY: checked not to be null; NVML ends it with a zero.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    text.unwrap_or_else(|| format!("error {code}"))
}

/// A library after init and before shutdown.
struct Session<'a> {
    lib: &'a NvmlLib,
}

/// Calls a function of the library, if it has it and if it succeeds.
macro_rules! call {
    ($session:expr, $function:ident($($argument:expr),*)) => {{
        let function = $session.lib.$function.as_ref().ok()?;
        // SAFETY: between init and shutdown, with a handle that the library gave, and with pointers to
        // locals of the types and lengths in its header, which live until it returns.
        (unsafe { function($($argument),*) } == SUCCESS).then_some(())?
    }};
}

/// More links than any GPU has (18 on Hopper): the library refuses the first that is not there.
const MOST_LINKS: c_uint = 64;
/// Words of a set of cpus or nodes: 8192, the kernel's limit.
const WORDS: usize = 8192 / c_ulong::BITS as usize;

impl Session<'_> {
    fn gpus(&self) -> Vec<Found> {
        let handles: Vec<(nvmlDevice_t, String)> = (0..self.count().unwrap_or(0))
            .filter_map(|index| {
                let handle = self.handle(index)?;
                Some((handle, self.pci(handle)?))
            })
            .collect();
        let way = |from: nvmlDevice_t, (to, pci): &(nvmlDevice_t, String)| {
            (from != *to).then(|| Some((pci.clone(), self.way(from, *to)?)))?
        };
        let found = handles.iter().map(|(handle, pci)| Found {
            pci: pci.clone(),
            product: self.name(*handle),
            memory_bytes: self.memory(*handle),
            near_nodes: self.near_nodes(*handle),
            near_cpus: self.near_cpus(*handle),
            nvlinks: self.nvlinks(*handle),
            ways: handles.iter().filter_map(|other| way(*handle, other)).collect(),
        });
        found.collect()
    }

    fn count(&self) -> Option<c_uint> {
        let mut count = 0;
        call!(self, nvmlDeviceGetCount_v2(&mut count));
        Some(count)
    }

    /// Not for a GPU that the caller may not use.
    fn handle(&self, index: c_uint) -> Option<nvmlDevice_t> {
        let mut handle = std::ptr::null_mut();
        call!(self, nvmlDeviceGetHandleByIndex_v2(index, &mut handle));
        Some(handle)
    }

    fn pci(&self, gpu: nvmlDevice_t) -> Option<String> {
        let mut info = no_address();
        call!(self, nvmlDeviceGetPciInfo_v3(gpu, &mut info));
        Some(address(&info))
    }

    fn name(&self, gpu: nvmlDevice_t) -> Option<String> {
        const ROOM: usize = nvml::NVML_DEVICE_NAME_V2_BUFFER_SIZE as usize;
        let mut text: [c_char; ROOM] = [0; ROOM];
        call!(self, nvmlDeviceGetName(gpu, text.as_mut_ptr(), ROOM as c_uint));
        let bytes: Vec<u8> = text.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|name| !name.is_empty())
    }

    fn memory(&self, gpu: nvmlDevice_t) -> Option<u64> {
        let mut memory = nvml::nvmlMemory_t { total: 0, free: 0, used: 0 };
        call!(self, nvmlDeviceGetMemoryInfo(gpu, &mut memory));
        Some(memory.total).filter(|&bytes| bytes > 0)
    }

    fn near_nodes(&self, gpu: nvmlDevice_t) -> Option<NodeList> {
        let mut set = [0; WORDS];
        let scope = nvml::NVML_AFFINITY_SCOPE_NODE;
        call!(self, nvmlDeviceGetMemoryAffinity(gpu, WORDS as c_uint, set.as_mut_ptr(), scope));
        list(&set)
    }

    fn near_cpus(&self, gpu: nvmlDevice_t) -> Option<CpuList> {
        let mut set = [0; WORDS];
        call!(self, nvmlDeviceGetCpuAffinity(gpu, WORDS as c_uint, set.as_mut_ptr()));
        list(&set)
    }

    /// `None` if the library has no word of them; GPUs without NVLink have none.
    fn nvlinks(&self, gpu: nvmlDevice_t) -> Option<Vec<Peer>> {
        self.lib.nvmlDeviceGetNvLinkState.as_ref().ok()?;
        let state = |link| {
            let mut state = 0;
            call!(self, nvmlDeviceGetNvLinkState(gpu, link, &mut state));
            Some(state == nvml::nvmlEnableState_enum_NVML_FEATURE_ENABLED)
        };
        let active =
            (0..MOST_LINKS).map_while(|link| Some((link, state(link)?))).filter(|(_, active)| *active);
        Some(active.map(|(link, _)| self.peer(gpu, link).unwrap_or(Peer::Other)).collect())
    }

    fn peer(&self, gpu: nvmlDevice_t, link: c_uint) -> Option<Peer> {
        let mut kind = nvml::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
        call!(self, nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link, &mut kind));
        match kind {
            nvml::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH => Some(Peer::Switch),
            nvml::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU => {
                let mut info = no_address();
                call!(self, nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu, link, &mut info));
                Some(Peer::Gpu(address(&info)))
            }
            _ => None,
        }
    }

    fn way(&self, from: nvmlDevice_t, to: nvmlDevice_t) -> Option<&'static str> {
        let mut level = 0;
        call!(self, nvmlDeviceGetTopologyCommonAncestor(from, to, &mut level));
        Some(match level {
            // Two GPUs on one board hang on a switch of that board.
            nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_INTERNAL | nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_SINGLE => {
                "PIX"
            }
            nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_MULTIPLE => "PXB",
            nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_HOSTBRIDGE => "PHB",
            nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_NODE => "NODE",
            nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_SYSTEM => "SYS",
            _ => return None,
        })
    }
}

fn no_address() -> nvml::nvmlPciInfo_t {
    nvml::nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: [0; 32],
    }
}

/// GPUs are function 0 of their slot.
fn address(info: &nvml::nvmlPciInfo_t) -> String {
    format!("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device)
}

/// The numbers of the bits that are set; none at all is not an answer.
fn list<T>(set: &[c_ulong]) -> Option<IndexList<T>> {
    let bits = set.iter().zip(0..).flat_map(|(word, i)| {
        (0..c_ulong::BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i * c_ulong::BITS + bit)
    });
    Some(bits.collect::<IndexList<T>>()).filter(|list| !list.is_empty())
}
