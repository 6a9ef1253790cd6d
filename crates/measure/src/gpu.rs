//! Copies between a GPU and pinned memory of each node, through the driver's library where it is
//! found at run time. Nothing of CUDA is needed to build or run.

use super::bench::{Bench, Effort, PageNode, aside, pin, spread};
use super::memory::Memory;
use libloading::Library;
use nearfar_machine::NodeId;
use nearfar_observed::measured::{GpuCopy, Measured, Pages, Spread};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::time::Instant;

/// Bytes of one copy: far beyond the caches on both sides.
const BYTES: usize = 256 << 20;

/// Every GPU against every node with memory and cpus.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let driver = match Driver::load() {
        Ok(Some(driver)) => driver,
        // No driver, no GPU: nothing to say, unless this is what was asked for.
        Ok(None) => {
            if !bench.all {
                measured.caveats.push("no GPU was measured: libcuda.so.1 is not here".into());
            }
            return;
        }
        Err(why) => {
            measured.caveats.push(format!("no GPU was measured: {why}"));
            return;
        }
    };
    let nodes = bench.nodes();
    let effort = bench.effort(20.0, 1.0, 2 * nodes.len() * driver.devices.len());
    for (gpu, (device, name)) in driver.devices.iter().enumerate() {
        for (node, cpus) in &nodes {
            bench.say(&format!("copies between GPU {gpu} and node {node}"));
            let page_node = bench.page_node(*node);
            let room = bench.room(*node, BYTES as u64);
            let both = room.and_then(|()| aside(|| copies(&driver, *device, cpus[0], &page_node, &effort)));
            let (to, from) = match both {
                Ok((to, from)) => (Ok(to), Ok(from)),
                Err(why) => (Err(why.clone()), Err(why)),
            };
            measured.gpu.push(GpuCopy {
                gpu: gpu as u32,
                name: name.clone(),
                node: *node as NodeId,
                bytes: BYTES as u64,
                to_gbs: to.into(),
                from_gbs: from.into(),
            });
        }
    }
}

/// GB/s to the device and back, by one thread on `cpu` with memory at `page_node`.
fn copies(
    driver: &Driver,
    device: c_int,
    cpu: u32,
    page_node: &PageNode,
    effort: &Effort,
) -> Result<(Spread, Spread), String> {
    pin(cpu)?;
    let memory = Memory::new(BYTES, page_node, Pages::Huge)?;
    let words = memory.at(0).cast::<u64>();
    let write = |of: &dyn Fn(usize) -> u64| {
        // SAFETY: the memory is this function's own, and aligned.
        (0..BYTES / 8).for_each(|i| unsafe { words.add(i).write(of(i)) });
    };
    let context = Context::new(driver, device)?;
    let pinned = Pinned::new(&context, &memory)?;
    let there = OnDevice::new(&context)?;
    let repeat = |one: &dyn Fn() -> Result<(), String>| -> Result<Spread, String> {
        one()?;
        let begin = Instant::now();
        one()?;
        let times = ((effort.seconds / begin.elapsed().as_secs_f64()) as usize).max(1);
        let mut values = Vec::new();
        for _ in 0..effort.runs {
            let begin = Instant::now();
            (0..times).try_for_each(|_| one())?;
            values.push((times * BYTES) as f64 / begin.elapsed().as_secs_f64() / 1e9);
        }
        spread(&values)
    };
    write(&|i| i as u64);
    // SAFETY: the signature is that of cuda.h; both sides have BYTES bytes.
    let to = repeat(&|| unsafe { driver.check("cuMemcpyHtoD_v2", (driver.to)(there.at, pinned.at, BYTES)) })?;
    write(&|_| 0);
    // SAFETY: as above.
    let from =
        repeat(&|| unsafe { driver.check("cuMemcpyDtoH_v2", (driver.from)(pinned.at, there.at, BYTES)) })?;
    // SAFETY: as above; the driver has written through its own pointer, so each word is loaded.
    let wrong = (0..BYTES / 8).find(|&i| unsafe { words.add(i).read_volatile() } != i as u64);
    match wrong {
        None => Ok((to, from)),
        Some(word) => Err(format!("what came back from the device is wrong at byte {}", word * 8)),
    }
}

type Result0 = c_int;

/// The functions of libcuda that are used, with the signatures of cuda.h (driver API, version 2 of
/// those that have one).
struct Driver {
    devices: Vec<(c_int, String)>,
    retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> Result0,
    release: unsafe extern "C" fn(c_int) -> Result0,
    current: unsafe extern "C" fn(*mut c_void) -> Result0,
    allocate: unsafe extern "C" fn(*mut u64, usize) -> Result0,
    free: unsafe extern "C" fn(u64) -> Result0,
    register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> Result0,
    unregister: unsafe extern "C" fn(*mut c_void) -> Result0,
    to: unsafe extern "C" fn(u64, *const c_void, usize) -> Result0,
    from: unsafe extern "C" fn(*mut c_void, u64, usize) -> Result0,
    describe: unsafe extern "C" fn(Result0, *mut *const c_char) -> Result0,
    // Last, so that it is unloaded after all that points into it.
    _library: Library,
}

impl Driver {
    /// `None` if no such library exists.
    fn load() -> Result<Option<Driver>, String> {
        // SAFETY: the driver's initialisers run, as in every program that uses a GPU.
        let Ok(library) = (unsafe { Library::new("libcuda.so.1") }) else { return Ok(None) };
        macro_rules! find {
            ($name:literal) => {
                // SAFETY: cuda.h declares it with the type that it is used with here.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }
                    .map_err(|_| concat!("libcuda.so.1 has no ", $name).to_owned())?
            };
        }
        let init: unsafe extern "C" fn(c_uint) -> Result0 = find!("cuInit");
        let count: unsafe extern "C" fn(*mut c_int) -> Result0 = find!("cuDeviceGetCount");
        let get: unsafe extern "C" fn(*mut c_int, c_int) -> Result0 = find!("cuDeviceGet");
        let name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Result0 = find!("cuDeviceGetName");
        let mut driver = Driver {
            devices: Vec::new(),
            retain: find!("cuDevicePrimaryCtxRetain"),
            release: find!("cuDevicePrimaryCtxRelease_v2"),
            current: find!("cuCtxSetCurrent"),
            allocate: find!("cuMemAlloc_v2"),
            free: find!("cuMemFree_v2"),
            register: find!("cuMemHostRegister_v2"),
            unregister: find!("cuMemHostUnregister"),
            to: find!("cuMemcpyHtoD_v2"),
            from: find!("cuMemcpyDtoH_v2"),
            describe: find!("cuGetErrorString"),
            _library: library,
        };
        // SAFETY: in the order that the driver asks for, each pointer to a value of its type.
        unsafe {
            driver.check("cuInit", init(0))?;
            let mut devices = 0;
            driver.check("cuDeviceGetCount", count(&mut devices))?;
            for i in 0..devices {
                let (mut device, mut text) = (0, [0 as c_char; 128]);
                driver.check("cuDeviceGet", get(&mut device, i))?;
                driver.check("cuDeviceGetName", name(text.as_mut_ptr(), text.len() as c_int - 1, device))?;
                let text = CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned();
                driver.devices.push((device, text));
            }
        }
        Ok(Some(driver))
    }

    fn check(&self, what: &str, result: Result0) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: the pointer is to static text of the driver, or stays null.
        let words = unsafe {
            (self.describe)(result, &mut text);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Err(format!("{what}: {}", words.unwrap_or_else(|| format!("error {result}"))))
    }
}

/// The device's own context, current on this thread.
struct Context<'a> {
    driver: &'a Driver,
    device: c_int,
}

impl Context<'_> {
    fn new(driver: &Driver, device: c_int) -> Result<Context<'_>, String> {
        let mut context = std::ptr::null_mut();
        // SAFETY: a pointer to a pointer, as cuda.h says.
        driver.check("cuDevicePrimaryCtxRetain", unsafe { (driver.retain)(&mut context, device) })?;
        let this = Context { driver, device };
        // SAFETY: the context that was just retained.
        driver.check("cuCtxSetCurrent", unsafe { (driver.current)(context) })?;
        Ok(this)
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: retained once in `new`.
        unsafe { (self.driver.release)(self.device) };
    }
}

/// Memory that the device reads and writes by itself.
struct Pinned<'a> {
    context: &'a Context<'a>,
    at: *mut c_void,
}

impl<'a> Pinned<'a> {
    fn new(context: &'a Context, memory: &Memory) -> Result<Pinned<'a>, String> {
        let at = memory.at(0).cast();
        // SAFETY: the range is mapped, and unregistered in `drop`, before its owner unmaps it.
        let result = unsafe { (context.driver.register)(at, BYTES, 0) };
        context.driver.check("cuMemHostRegister_v2", result)?;
        Ok(Pinned { context, at })
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // SAFETY: registered in `new`.
        unsafe { (self.context.driver.unregister)(self.at) };
    }
}

/// Memory of the device.
struct OnDevice<'a> {
    context: &'a Context<'a>,
    at: u64,
}

impl<'a> OnDevice<'a> {
    fn new(context: &'a Context) -> Result<OnDevice<'a>, String> {
        let mut at = 0;
        // SAFETY: a pointer to a device address, as cuda.h says.
        context.driver.check("cuMemAlloc_v2", unsafe { (context.driver.allocate)(&mut at, BYTES) })?;
        Ok(OnDevice { context, at })
    }
}

impl Drop for OnDevice<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`.
        unsafe { (self.context.driver.free)(self.at) };
    }
}
