//! The memory that the kernel writes perf records into.

use perf_event_open_sys::bindings::perf_event_mmap_page;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// One mapped ring.
pub struct Ring {
    base: *mut u8,
    page: usize,
    bytes: usize,
    fd: RawFd,
    /// A record that wraps around the ring's end is put together here.
    scratch: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone and is reached through `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event; `bytes` is a power of two.
    ///
    /// # Errors
    /// If the kernel does not let us lock so much memory.
    pub fn map(fd: &OwnedFd, bytes: usize) -> io::Result<Ring> {
        let page = nearfar_host::proc::page_bytes() as usize;
        // SAFETY: a new mapping of a descriptor that we own, at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { base: base.cast(), page, bytes, fd: fd.as_raw_fd(), scratch: Vec::new() })
    }

    /// The event's descriptor, for poll. Valid as long as the event is open.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Calls `each` with every waiting record, header included, and frees its space.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let header = self.base.cast::<perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is a perf_event_mmap_page. The
        // kernel moves data_head; only we move data_tail; both are aligned u64
        // that the kernel and we access atomically (linux/perf_event.h, "data_head").
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(std::ptr::addr_of_mut!((*header).data_head)),
                AtomicU64::from_ptr(std::ptr::addr_of_mut!((*header).data_tail)),
            )
        };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while at < end {
            let start = at as usize & (self.bytes - 1);
            // SAFETY: records are 8-byte aligned, so a header never wraps.
            let size = unsafe { self.data().add(start + 6).cast::<u16>().read() } as usize;
            if size < 8 {
                break; // never written by a kernel; do not loop on it
            }
            if start + size <= self.bytes {
                // SAFETY: the kernel finished these bytes before it moved data_head past
                // them and will not reuse them before data_tail moves.
                each(unsafe { std::slice::from_raw_parts(self.data().add(start), size) });
            } else {
                self.scratch.clear();
                let first = self.bytes - start;
                // SAFETY: as above, for the two parts of a record that wraps.
                unsafe {
                    self.scratch.extend_from_slice(std::slice::from_raw_parts(self.data().add(start), first));
                    self.scratch.extend_from_slice(std::slice::from_raw_parts(self.data(), size - first));
                }
                each(&self.scratch);
            }
            at += size as u64;
            tail.store(at, Ordering::Release);
        }
    }

    fn data(&self) -> *const u8 {
        // SAFETY: the data area follows the header page within one mapping.
        unsafe { self.base.add(self.page) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got.
        unsafe { libc::munmap(self.base.cast(), self.page + self.bytes) };
    }
}
