//! The code around an address: of a file, or read from the process that made it.

use super::{Loaded, ProcessTable};
use nearfar_decode::{Decoder, FunctionCode, Registers};
use nearfar_host::symbols::{Module, Waits, may_wait_by_name, waits};
use std::io::{Read, Seek, SeekFrom};
use std::ops::RangeInclusive;

impl ProcessTable {
    pub(super) fn is_wait_loop(&mut self, space: u32, address: u64) -> bool {
        match self.waits_by_name(space, address) {
            Waits::Always => true,
            Waits::UnlessItWrites => !self.loop_code(space, address, Decoder::writes_along),
            Waits::Unknown => self.loop_code(space, address, |decoder, space, ip| {
                decoder.loop_around(space, ip).is_some_and(|code| code.pauses_at(ip))
            }),
        }
    }

    /// What the names of the file and of the function say.
    fn waits_by_name(&self, space: u32, address: u64) -> Waits {
        let Some((start, map)) = self.spaces[space as usize].map_at(address) else {
            return Waits::Unknown;
        };
        let Some(Loaded { file: Some(file), .. }) = self.modules.get(map.module as usize) else {
            return Waits::Unknown;
        };
        let path = file.path().to_string_lossy();
        if !may_wait_by_name(&path) && !file.is_static_executable() {
            return Waits::Unknown;
        }
        let function =
            file.vaddr_of_file_offset(map.offset + (address - start)).and_then(|v| file.function(v));
        waits(&path, function.as_deref())
    }

    /// Asks the decoder about the code around `ip`.
    fn loop_code(&mut self, space: u32, ip: u64, ask: impl FnOnce(&mut Decoder, u32, u64) -> bool) -> bool {
        self.with_code(space, ip, |decoder, code| {
            decoder.resolve(space, &Registers { ip, ..Registers::default() }, |_| code);
            ask(decoder, space, ip)
        })
    }

    /// Runs `use_code` with the code around `ip`, if there is any.
    pub fn with_code<T>(
        &mut self,
        space: u32,
        ip: u64,
        use_code: impl FnOnce(&mut Decoder, Option<FunctionCode<'_>>) -> T,
    ) -> T {
        self.with_code_of(space, ip, JIT_WINDOW..=JIT_WINDOW, file_code, use_code)
    }

    /// Runs `use_code` with the code that begins at `ip`, as long as one instruction can be: a page fault's address is
    /// exact, so the function around it is not needed.
    pub(super) fn with_instruction<T>(
        &mut self,
        space: u32,
        ip: u64,
        use_code: impl FnOnce(&mut Decoder, Option<FunctionCode<'_>>) -> T,
    ) -> T {
        let use_code = |decoder: &mut Decoder, code: Option<FunctionCode<'_>>| {
            use_code(decoder, code.map(|code| FunctionCode { synced: true, ..code }))
        };
        self.with_code_of(space, ip, 0..=LONGEST_INSTRUCTION, file_instruction, use_code)
    }

    /// Runs `use_code` with code at `ip`: of a file what `in_file` finds, of generated code as many bytes before and
    /// behind `ip` as `window` says, read from the process while it lives.
    fn with_code_of<T>(
        &mut self,
        space: u32,
        ip: u64,
        window: RangeInclusive<u64>,
        in_file: for<'a> fn(&'a Module, u64, u64) -> Option<FunctionCode<'a>>,
        use_code: impl FnOnce(&mut Decoder, Option<FunctionCode<'_>>) -> T,
    ) -> T {
        let ProcessTable { spaces, modules, decoder, imported, .. } = self;
        let s = &spaces[space as usize];
        let mut buffer = Vec::new();
        let code = s.map_at(ip).and_then(|(start, map)| match modules.get(map.module as usize) {
            Some(loaded) => {
                let file = loaded.file.as_ref()?;
                in_file(file, file.vaddr_of_file_offset(map.offset + (ip - start))?, ip)
            }
            None if *imported => None,
            None => {
                let from = ip.saturating_sub(*window.start()).max(start);
                let to = ip.saturating_add(*window.end()).min(map.end);
                read_memory(s.pid, from, to - from, &mut buffer)?;
                Some(FunctionCode { start: from, bytes: &buffer, synced: false })
            }
        });
        use_code(decoder, code)
    }
}

/// Bytes of an x86 instruction at most (Intel SDM, volume 2, section 2.3.11).
const LONGEST_INSTRUCTION: u64 = 15;

/// Bytes before and behind an instruction that are looked at where no symbol bounds its function: loops that a compiler has unrolled
/// sixteen times are half as long. // chosen
const JIT_WINDOW: u64 = 2048;
/// The same where a file's segment does not go so far.
const SHORT_WINDOW: u64 = 96;

/// The instruction at an address of a file that is mapped so that it is at `ip`.
fn file_instruction(file: &Module, vaddr: u64, ip: u64) -> Option<FunctionCode<'_>> {
    // A segment may end with it.
    let bytes = (1..=LONGEST_INSTRUCTION).rev().find_map(|n| file.code(vaddr..vaddr.checked_add(n)?))?;
    Some(FunctionCode { start: ip, bytes, synced: true })
}

/// The function around an address of a file that is mapped so that it is at `ip`, or else the bytes around it.
fn file_code(file: &Module, vaddr: u64, ip: u64) -> Option<FunctionCode<'_>> {
    let bias = ip.wrapping_sub(vaddr);
    if let Some(range) = file.code_range(vaddr) {
        let start = range.start;
        return Some(FunctionCode {
            start: start.wrapping_add(bias),
            bytes: file.code(range)?,
            synced: true,
        });
    }
    let windows = [(JIT_WINDOW, JIT_WINDOW), (SHORT_WINDOW, SHORT_WINDOW), (0, 16)];
    let (from, bytes) = windows.into_iter().find_map(|(before, behind)| {
        let from = vaddr.saturating_sub(before);
        Some((from, file.code(from..vaddr.checked_add(behind)?)?))
    })?;
    Some(FunctionCode { start: from.wrapping_add(bias), bytes, synced: false })
}

/// Reads memory of a process of ours into `buffer`.
fn read_memory(pid: u32, address: u64, bytes: u64, buffer: &mut Vec<u8>) -> Option<()> {
    let mut file = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    file.seek(SeekFrom::Start(address)).ok()?;
    buffer.resize(bytes as usize, 0);
    file.read_exact(buffer).ok()
}
