//! The plugin's beginning and end.

use crate::api::{self, Info, PluginId};
use crate::arguments::{self, Mode};
use crate::callbacks::{self, MOST_VCPUS};
use crate::guard::panic_text;
use crate::log;
use crate::output::Output;
use crate::plugin_state::{PluginState, plugin, share};
use crate::translate::translate;
use crate::vcpu::Vcpu;
use libc::{c_char, c_int, c_void};
use nearfar_machine::Machine;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How often rows go to the file. A run that is killed loses what came after.
const FLUSH: Duration = Duration::from_millis(500);
/// When traffic by page does for the first time; then after twice as long, and so on: a program with a
/// million pages has a million rows each time. A run that is killed loses what its pages moved since: at
/// most in the later half of its time, or all if it was shorter than this.
const FLUSH_PAGES: Duration = Duration::from_secs(10);

/// QEMU loads the plugin.
///
/// # Safety
/// `info` and `argv` are as QEMU's documentation says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: QEMU gives a valid description of itself.
        let info = unsafe { &*info };
        // SAFETY: QEMU gives `argc` strings that end with a zero.
        let arguments: Vec<String> = (0..argc as usize)
            .map(|i| unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned())
            .collect();
        install(id, info, &arguments)
    }));
    let error = match result {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(panic) => panic_text(&*panic),
    };
    eprintln!("nearfar plugin: {error}");
    log::line(format_args!("{error}"));
    1
}

fn install(id: PluginId, info: &Info, arguments: &[String]) -> Result<(), String> {
    let arguments = arguments::parse(arguments.iter().map(String::as_str)).map_err(|e| e.to_string())?;
    log::open(&arguments.out).map_err(|e| format!("{}: {e}", arguments.out.display()))?;
    std::panic::set_hook(Box::new(|panic| log::line(format_args!("{panic}"))));
    if !(info.version_min..=info.version_current).contains(&api::VERSION) {
        let (min, now) = (info.version_min, info.version_current);
        let needed = api::VERSION;
        return Err(format!(
            "this QEMU serves plugins of versions {min} to {now}, this one is of version {needed}; QEMU 7.2 was tested"
        ));
    }
    if !info.system_emulation {
        return Err("QEMU emulates a program, not a machine; use qemu-system-x86_64".into());
    }
    let api = api::load().map_err(|name| format!("this QEMU has no function {name}; QEMU 7.2 was tested"))?;
    if !api::access_layout_is_known(api) {
        return Err("this QEMU describes accesses in an unknown way; QEMU 7.2 was tested".into());
    }
    let vcpus = info.max_vcpus.max(0) as usize;
    if vcpus > MOST_VCPUS || vcpus < arguments.cpus {
        return Err(format!("{vcpus} vCPUs, but {} to {MOST_VCPUS} are expected", arguments.cpus));
    }
    let machine = machine(&arguments)?;
    let output = Output::create(&arguments.out)
        .map_err(|e| format!("{}/simulated.journal: {e}", arguments.out.display()))?;
    let plugin = PluginState::new(arguments, &machine, output).map_err(|e| e.to_string())?;
    let cpus = plugin.hierarchy.cpus();
    if cpus != plugin.arguments.cpus {
        return Err(format!("cpus={}, but {} has {cpus}", plugin.arguments.cpus, machine.name));
    }
    let plugin = share(plugin);
    for index in 0..vcpus {
        callbacks::seat(index, Vcpu::new(plugin, index));
    }
    // SAFETY: the callbacks have the types that QEMU documents, and everything they use is there.
    unsafe {
        (api.on_translate)(id, translate);
        (api.on_exit)(id, at_exit, std::ptr::null_mut());
    }
    start_flusher().map_err(|e| format!("no thread for the journal: {e}"))
}

fn machine(arguments: &arguments::Arguments) -> Result<Machine, String> {
    let path = arguments.machine.display();
    let text = std::fs::read_to_string(&arguments.machine).map_err(|e| format!("{path}: {e}"))?;
    Machine::from_toml(&text).map_err(|e| format!("{path}: {e}"))
}

/// A thread of our own: vCPUs sleep, and then no callback would notice the time.
fn start_flusher() -> std::io::Result<()> {
    // QEMU's signals are for its own threads. A thread inherits the mask it is started with.
    // SAFETY: an all-zero sigset_t is a value, and both sets live through the calls.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = std::thread::Builder::new().name("nearfar".into()).spawn(flusher);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started.map(drop)
    }
}

fn flusher() {
    let start = Instant::now();
    let mut pages_at = FLUSH_PAGES;
    loop {
        std::thread::sleep(FLUSH);
        if start.elapsed() >= pages_at {
            plugin().take_pages();
            pages_at = 2 * start.elapsed();
        }
        plugin().output.flush();
    }
}

/// QEMU ends. vCPUs have stopped by then, unless the guest itself ended QEMU by a debug device.
extern "C" fn at_exit(_id: PluginId, _data: *mut c_void) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(finish)) {
        plugin().fail(&panic_text(&*panic));
        plugin().output.flush();
    }
}

fn finish() {
    let plugin = plugin();
    let failed = plugin.stop();
    let (mut empty, mut without_node) = (0, 0);
    let mut counts: Vec<_> = Vec::new();
    for vcpu in callbacks::all() {
        // SAFETY: at exit QEMU has paused all vCPUs, so nothing else uses this one.
        let vcpu = unsafe { &mut *vcpu };
        vcpu.finish();
        empty += vcpu.empty;
        without_node += vcpu.without_node;
        counts.extend(vcpu.seat.as_ref().map(|seat| (seat.core.counts(), seat.core.traffic().to_vec())));
    }
    plugin.take_pages();
    if without_node > 0 {
        let why = "QEMU knew no place in RAM for them";
        plugin.output.lost(plugin.time.now(), "simulated accesses", without_node, why);
    }
    plugin.output.flush();
    if plugin.arguments.mode == Mode::Empty {
        log::line(format_args!("accesses {empty}"));
        return;
    }
    for (cpu, (c, traffic)) in counts.iter().enumerate() {
        log::line(format_args!(
            "cpu {cpu}: instructions {} accesses {} l1 {} l2 {} l3 {} transfers {} dram {} streams {} outside {} \
             tlb {} huge-tlb {} dependent {} busy-ms {:.3}",
            c.instructions,
            c.accesses,
            c.l1_hits,
            c.l2_hits,
            c.l3_hits,
            c.cache_transfers,
            c.dram_lines,
            c.stream_stores,
            c.outside,
            c.tlb_misses,
            c.huge_tlb_misses,
            c.dependent_lines,
            c.busy_ns / 1e6,
        ));
        for (node, t) in traffic.iter().enumerate() {
            log::line(format_args!(
                "cpu {cpu} page_node {}: read {} prefetched {} written {} streamed {} transferred {} walks {}",
                plugin.node(node),
                t.read_lines,
                t.prefetch_lines,
                t.write_lines,
                t.stream_lines,
                t.transfer_lines,
                t.walks,
            ));
        }
    }
    log::line(format_args!("accesses without a place in RAM {without_node}"));
    log::line(format_args!("{}", if failed { "incomplete" } else { "complete" }));
}
