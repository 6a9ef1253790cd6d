//! What QEMU calls when the guest's code runs. A few instructions each where it matters.

use crate::api::STORE_BIT;
use crate::userdata::Site;
use crate::vcpu::{Vcpu, guarded};
use libc::{c_uint, c_void};
use nearfar_simulate::Kind;
use std::sync::atomic::{AtomicPtr, Ordering};

/// More vCPUs than any of QEMU's x86 machines can have.
pub const MOST_VCPUS: usize = 4096;

/// The vCPUs by their index; null where there is none.
static VCPUS: [AtomicPtr<Vcpu>; MOST_VCPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_VCPUS];

/// Makes a vCPU known.
pub fn seat(index: usize, vcpu: Vcpu) {
    VCPUS[index].store(Box::into_raw(Box::new(vcpu)), Ordering::Release);
}

/// All vCPUs.
pub fn all() -> impl Iterator<Item = *mut Vcpu> {
    VCPUS.iter().map(|v| v.load(Ordering::Acquire)).take_while(|v| !v.is_null())
}

/// The vCPU that calls.
///
/// # Safety
/// Only in a callback from QEMU with that vCPU's index, and once at a time.
#[inline(always)]
unsafe fn caller<'a>(index: c_uint) -> &'a mut Vcpu {
    // SAFETY: `install` has checked that all indexes are below MOST_VCPUS and has made all vCPUs before it
    // asked for callbacks. QEMU calls for a vCPU on that vCPU's thread only, so nothing else has a reference.
    unsafe { &mut *VCPUS.get_unchecked(index as usize).load(Ordering::Relaxed) }
}

macro_rules! callback {
    ($(#[$doc:meta])* $name:ident($vcpu:ident, $data:ident) $body:block) => {
        $(#[$doc])*
        pub extern "C" fn $name(index: c_uint, $data: *mut c_void) {
            // SAFETY: this is QEMU's callback for that vCPU.
            let $vcpu = unsafe { caller(index) };
            $body
        }
    };
}

/// A program's access.
pub extern "C" fn access(index: c_uint, info: u32, address: u64, data: *mut c_void) {
    let kind = if info & STORE_BIT != 0 { Kind::Store } else { Kind::Load };
    // SAFETY: this is QEMU's callback for that vCPU.
    unsafe { caller(index) }.access(info, address, Site::from_pointer(data), kind);
}

/// The same of an instruction that stores past the caches.
pub extern "C" fn stream(index: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: this is QEMU's callback for that vCPU.
    unsafe { caller(index) }.access(info, address, Site::from_pointer(data), Kind::StreamStore);
}

/// The same of an instruction that locks the line. QEMU may tell of its read and of its write, or of both at once.
pub extern "C" fn locked(index: c_uint, info: u32, address: u64, data: *mut c_void) {
    let kind = if info & STORE_BIT != 0 { Kind::Atomic } else { Kind::Store };
    // SAFETY: this is QEMU's callback for that vCPU.
    unsafe { caller(index) }.access(info, address, Site::from_pointer(data), kind);
}

/// A program's access where accesses and time are sampled.
pub extern "C" fn sampled_access(index: c_uint, info: u32, address: u64, data: *mut c_void) {
    let kind = if info & STORE_BIT != 0 { Kind::Store } else { Kind::Load };
    // SAFETY: this is QEMU's callback for that vCPU.
    unsafe { caller(index) }.sampled_access(info, address, Site::from_pointer(data), kind);
}

/// The same of an instruction that stores past the caches.
pub extern "C" fn sampled_stream(index: c_uint, info: u32, address: u64, data: *mut c_void) {
    let site = Site::from_pointer(data);
    // SAFETY: this is QEMU's callback for that vCPU.
    unsafe { caller(index) }.sampled_access(info, address, site, Kind::StreamStore);
}

/// The same when nothing should be known but how many.
pub extern "C" fn empty(index: c_uint, _info: u32, _address: u64, _data: *mut c_void) {
    // SAFETY: this is QEMU's callback for that vCPU.
    unsafe { caller(index) }.empty += 1;
}

/// A marked load.
pub extern "C" fn hypercall(index: c_uint, _info: u32, address: u64, _data: *mut c_void) {
    // SAFETY: this is QEMU's callback for that vCPU.
    guarded(unsafe { caller(index) }, |vcpu| vcpu.hypercall(address));
}

/// The kernel reads where the next task's stack is, `data` bytes into that task's `task_struct`.
pub extern "C" fn next_task(index: c_uint, _info: u32, address: u64, data: *mut c_void) {
    // SAFETY: this is QEMU's callback for that vCPU.
    guarded(unsafe { caller(index) }, |vcpu| vcpu.will_run(address, data as u64));
}

/// The kernel wakes a task, and this is one of the accesses that it makes for that.
pub extern "C" fn wake(index: c_uint, _info: u32, address: u64, _data: *mut c_void) {
    // SAFETY: this is QEMU's callback for that vCPU.
    guarded(unsafe { caller(index) }, |vcpu| vcpu.wakes(address, false));
}

/// The same for a new task.
pub extern "C" fn start(index: c_uint, _info: u32, address: u64, _data: *mut c_void) {
    // SAFETY: this is QEMU's callback for that vCPU.
    guarded(unsafe { caller(index) }, |vcpu| vcpu.wakes(address, true));
}

/// The kernel's first touch of the stack that it switched to.
pub extern "C" fn stack(index: c_uint, _info: u32, address: u64, _data: *mut c_void) {
    // SAFETY: this is QEMU's callback for that vCPU.
    guarded(unsafe { caller(index) }, |vcpu| vcpu.switched(address));
}

callback! {
    /// A program's block of which no access tells the instructions.
    block(vcpu, data) { vcpu.ran(data as u16); }
}

callback! {
    /// A program's system call.
    call(vcpu, _data) { guarded(vcpu, Vcpu::calls); }
}

callback! {
    /// The kernel was entered from a program, or will be left for one.
    swap_gs(vcpu, _data) { vcpu.swapped_gs(); }
}

callback! {
    /// The kernel handles a page fault.
    page_fault(vcpu, _data) { vcpu.page_faults(); }
}

callback! {
    /// The kernel clears a huge page.
    clear_huge(vcpu, _data) { vcpu.clears_huge(); }
}

/// The kernel waits for another vCPU, which may itself wait for a processor of the host: it should have this one. Each turn of
/// such a loop leaves QEMU's translated code, and on two processors nine vCPUs made a million of them in two seconds.
pub extern "C" fn pause(_index: c_uint, _data: *mut c_void) {
    std::thread::yield_now();
}

callback! {
    /// The kernel waits until all vCPUs have answered it.
    await_all(vcpu, _data) {
        vcpu.plugin.wake_all();
        std::thread::yield_now();
    }
}

callback! {
    /// The kernel makes translations invalid.
    flush(vcpu, _data) { guarded(vcpu, Vcpu::flush_translations); }
}
