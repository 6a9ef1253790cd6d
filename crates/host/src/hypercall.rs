//! The launcher's side of the hypercalls that agent/hypercall.c describes: tells the virtual
//! machine's plugin that the calling thread is the program's, before its first instruction.

/// `NF_HYPERCALL_THREAD` of agent/protocol.h.
pub(super) const THREAD: usize = 1;
const BEGIN: usize = 512;
const COMMIT: usize = 256;

#[repr(align(4096))]
struct Page([u8; 4096]);
static PAGE: Page = Page([0; 4096]);

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
