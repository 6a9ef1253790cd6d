//! The launcher's side of the hypercalls that agent/hypercall.c describes: tells the virtual
//! machine's plugin that the calling thread is the program's, before its first instruction.

/// `NF_HYPERCALL_THREAD` of agent/protocol.h.
pub(super) const THREAD: usize = 1;
/// `NF_HYPERCALL_CODE_FROM` and `NF_HYPERCALL_CODE_TO` of agent/protocol.h.
const CODE: [usize; 2] = [11, 12];
const BEGIN: usize = 512;
const COMMIT: usize = 256;

#[repr(align(4096))]
struct Page([u8; 4096]);
static PAGE: Page = Page([0; 4096]);

/// Tells where the code of this program itself is, which is not to be counted.
pub fn tell_own_code() {
    let mut range = None;
    // SAFETY: the callback gets the pointer that is passed here, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first_code), (&raw mut range).cast()) };
    if let Some(range) = range {
        let range: [u64; 2] = range;
        CODE.into_iter().zip(range).for_each(|(operation, address)| send(operation, address));
    }
}

/// The executable segment of the first object, which is the program.
unsafe extern "C" fn first_code(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    range: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library's description of an object with as many headers as it says, and the pointer of
    // `tell_own_code`.
    unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let code = headers.iter().find(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0);
        *range.cast() = code.map(|h| {
            let from = info.dlpi_addr + h.p_vaddr;
            [from, from + h.p_memsz]
        });
    }
    // Any other number than 0 ends it.
    1
}

/// Sends one message. Async-signal-safe.
pub(super) fn send(operation: usize, value: u64) {
    touch(BEGIN);
    for byte in value.to_le_bytes() {
        touch(usize::from(byte));
    }
    touch(COMMIT + operation);
}

#[inline(never)]
fn touch(offset: usize) {
    let address = &raw const PAGE.0[offset];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a no-op, and a load of one byte inside PAGE.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, 0x42, 0x44, 0x46, 0x4e, 0x8a, 0x07",
            in("rdi") address, out("al") _, options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
