//! Runs a copy under translation, and counts.

use super::calls::{Fate, fate};
use super::copy::Copy;
use super::count::{Counted, Counting, Known, Length, Ran};
use super::trace::{self, Registers, Stop};
use nearfar_decode::translate::{self, Block, TABLE, To, words};
use nearfar_host::proc;
use nearfar_simulate::ladder::Ladder;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// How our own library's file is called.
const AGENT: &str = "/nearfar-agent.so";
/// Room for translations, bytes. // chosen: the largest program tried (a browser's engine) took 9 MB
const CODE: u64 = 64 << 20;
/// Words that are written down before they are looked at. // chosen: 8 MB
const BUFFER: u64 = 1 << 20;
/// Blocks that are translated ahead of their first execution. // chosen: a stop for each block costs more
const AHEAD: usize = 64;
/// A page of x86-64.
const PAGE: u64 = 4096;
/// Bytes of code that are read for one block.
const BLOCK_BYTES: u64 = 1024;
/// Times that a thread lets others run in an excerpt before it is taken to wait for them. // chosen
const YIELDS: u32 = 1000;
/// System calls of an excerpt: each stops it twice, for some 50 µs. // chosen: a second in all
const CALLS: u32 = 20_000;
/// Of a thousand instructions, those named `pause` from which on a thread does nothing but wait. // chosen
const WAITS: u64 = 5;

/// Addresses in the copy.
struct Places {
    code: u64,
    words: u64,
    table: u64,
    buffer: u64,
    end: u64,
}

struct Running<'a> {
    copy: &'a mut Copy,
    stop: &'a AtomicBool,
    length: Length,
    places: Places,
    /// Next free byte for code.
    free: u64,
    translations: HashMap<u64, u64>,
    exits: HashMap<u64, To>,
    /// Addresses of jumps that are patched, by the exit's address.
    patches: HashMap<u64, u64>,
    pages: HashMap<u64, Option<Box<[u8; PAGE as usize]>>>,
    /// Mappings that the copy shares with others.
    shared: Vec<(u64, u64)>,
    /// These and devices: the copy gets no right to write to them.
    guarded: Vec<(u64, u64)>,
    /// Calls so far, and how many of them let others run.
    system_calls: u32,
    yields: u32,
    /// Code of our own library.
    agent: Vec<(u64, u64)>,
    counting: Counting,
}

/// Runs `copy` for so many instructions, or until it would do what others notice, or `stop` is set.
pub(super) fn run(copy: &mut Copy, length: Length, stop: &AtomicBool) -> Ran {
    match Running::begin(copy, length, stop) {
        Ok(mut running) => {
            let ended = match running.all() {
                Ok(ended) => ended,
                Err(error) => Some(format!("ptrace: {error}")),
            };
            running.result(ended)
        }
        Err(error) => Ran { ended: Some(format!("no room for its translation: {error}")), ..Ran::default() },
    }
}

impl Running<'_> {
    fn begin<'a>(copy: &'a mut Copy, length: Length, stop: &'a AtomicBool) -> io::Result<Running<'a>> {
        let map = |bytes: u64, rights: i32| -> io::Result<u64> {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let arguments = [0, bytes, rights as u64, flags as u64, u64::MAX, 0];
            result(step_call(copy, copy.syscall, libc::SYS_mmap, arguments)?)
        };
        let code = map(CODE, libc::PROT_READ | libc::PROT_EXEC)?;
        let table_bytes = TABLE as u64 * 16;
        let data_bytes = PAGE + table_bytes + BUFFER * 8 + PAGE;
        let data = map(data_bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        let places = Places {
            code,
            words: data,
            table: data + PAGE,
            buffer: data + PAGE + table_bytes,
            end: data + data_bytes - PAGE,
        };
        let guard = [places.end, PAGE, libc::PROT_NONE as u64, 0, 0, 0];
        result(step_call(copy, copy.syscall, libc::SYS_mprotect, guard)?)?;
        copy.memory.write_all_at(&places.buffer.to_le_bytes(), places.words + u64::from(words::NEXT))?;
        // For system calls: the instruction, and a breakpoint behind it.
        copy.memory.write_all_at(&[0x0f, 0x05, 0xcc], code)?;
        let threads = copy.threads;
        let (mut shared, mut guarded, mut agent) = (Vec::new(), Vec::new(), Vec::new());
        for map in proc::maps(copy.pid) {
            if map.name.ends_with(AGENT) {
                agent.push((map.start, map.end));
            }
            // Writable and shared: bits as of the kernel, and 8.
            if map.flags & 8 == 0 || map.flags & libc::PROT_WRITE as u8 == 0 {
                continue;
            }
            let device = map.name.starts_with("/dev/")
                && !map.name.starts_with("/dev/shm/")
                && !map.name.starts_with("/dev/zero");
            let rights = if device { libc::PROT_NONE } else { libc::PROT_READ };
            let arguments = [map.start, map.end - map.start, rights as u64, 0, 0, 0];
            result(step_call(copy, copy.syscall, libc::SYS_mprotect, arguments)?)?;
            guarded.push((map.start, map.end));
            if !device {
                shared.push((map.start, map.end));
            }
        }
        Ok(Running {
            stop,
            length,
            free: code + 16,
            places,
            translations: HashMap::new(),
            exits: HashMap::new(),
            patches: HashMap::new(),
            counting: Counting::new(
                Ladder::new(threads > 1 || !shared.is_empty()),
                length.before,
                copy.registers.fs_base,
            ),
            system_calls: 0,
            yields: 0,
            shared,
            guarded,
            agent,
            copy,
            pages: HashMap::new(),
        })
    }

    /// Until its end; why, if that is early.
    fn all(&mut self) -> io::Result<Option<String>> {
        let mut registers = self.copy.registers;
        registers.gs_base = self.places.words;
        registers.orig_rax = u64::MAX;
        let Some(first) = self.translated(registers.rip)? else {
            return Ok(Some("its code cannot be read".into()));
        };
        registers.rip = first;
        trace::set_registers(self.copy.pid, &registers)?;
        loop {
            trace::go_on(self.copy.pid)?;
            let stop = trace::wait(self.copy.pid)?;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Some("the program ended".into()));
            }
            let ended = match stop {
                Stop::Ended => return Ok(Some("it was ended".into())),
                Stop::Signal(libc::SIGTRAP) => self.breakpoint()?,
                Stop::Signal(libc::SIGSEGV) => self.fault()?,
                Stop::Signal(signal @ (libc::SIGBUS | libc::SIGFPE | libc::SIGILL)) => {
                    Some(format!("signal {signal}"))
                }
                // Of a terminal, or of a timer: it is for the program.
                Stop::Signal(_) | Stop::Event(_) => None,
            };
            if let Some(ended) = ended {
                let registers = trace::registers(self.copy.pid)?;
                let next = registers.rcx;
                // What was written down last counts, too.
                if !(self.places.buffer..=self.places.end).contains(&next) {
                    self.rest()?;
                }
                return Ok(Some(ended).filter(|ended| !ended.is_empty()));
            }
        }
    }

    /// A block without a translation, a system call, or what cannot be translated.
    fn breakpoint(&mut self) -> io::Result<Option<String>> {
        let pid = self.copy.pid;
        let mut registers = trace::registers(pid)?;
        let at = registers.rip - 1;
        let Some(&exit) = self.exits.get(&at) else {
            return Ok(Some("a breakpoint of its own".into()));
        };
        let target = match exit {
            To::Block { target, .. } => target,
            To::Computed => self.word(words::TARGET)?,
            To::Unknown(ip) => return Ok(Some(format!("an instruction that is not translated, at {ip:#x}"))),
            To::Call(next) => {
                if let Some(ended) = self.call(&mut registers, next)? {
                    return Ok(Some(ended));
                }
                registers.rcx = next;
                next
            }
        };
        let Some(translation) = self.translated(target)? else {
            return Ok(Some(format!("no code at {target:#x}")));
        };
        match exit {
            To::Block { .. } => {
                let patch = self.patches[&at];
                self.copy.memory.write_all_at(&distance(patch, translation), patch)?;
            }
            To::Computed => self.entered(target, translation)?,
            _ => {}
        }
        registers.rip = translation;
        trace::set_registers(pid, &registers)?;
        Ok(None)
    }

    /// The buffer is full, or memory that it shares is written, or the program itself went wrong.
    fn fault(&mut self) -> io::Result<Option<String>> {
        let pid = self.copy.pid;
        let at = trace::fault_address(pid)?;
        if (self.places.end..self.places.end + PAGE).contains(&at) {
            let mut registers = trace::registers(pid)?;
            let ended = self.take(registers.rcx)?;
            registers.rcx = self.places.buffer;
            trace::set_registers(pid, &registers)?;
            return Ok(ended);
        }
        if !self.shared.iter().any(|&(start, end)| (start..end).contains(&at)) {
            return Ok(Some("an access to memory that is not there".into()));
        }
        let page = at & !(PAGE - 1);
        let mut content = [0; PAGE as usize];
        self.copy.memory.read_exact_at(&mut content, page)?;
        let registers = trace::registers(pid)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        result(self.made(
            &registers,
            libc::SYS_mmap,
            [page, PAGE, rights as u64, flags as u64, u64::MAX, 0],
        )?)?;
        self.copy.memory.write_all_at(&content, page)?;
        trace::set_registers(pid, &registers)?;
        Ok(None)
    }

    /// A system call, in front of the instruction at `next`; why it ends the excerpt.
    fn call(&mut self, registers: &mut Registers, next: u64) -> io::Result<Option<String>> {
        let &mut Registers { rax, rdi, rsi, rdx, r10, r8, r9, .. } = registers;
        self.system_calls += 1;
        self.yields += u32::from(rax as libc::c_long == libc::SYS_sched_yield);
        if self.yields > YIELDS {
            return Ok(Some("it waits for another thread".into()));
        }
        if self.system_calls > CALLS {
            return Ok(Some("it makes too many system calls".into()));
        }
        let guarded =
            || self.guarded.iter().any(|&(start, end)| rdi < end && start < rdi.saturating_add(rsi));
        if rax as libc::c_long == libc::SYS_mprotect && guarded() {
            return Ok(Some("it changes rights to memory that it shares".into()));
        }
        let result = match fate(registers, &mut self.copy.files) {
            Fate::Made => self.made(registers, rax as libc::c_long, [rdi, rsi, rdx, r10, r8, r9])?,
            Fate::Result(result) => result,
            Fate::Put { bytes, to, result } => match self.copy.memory.write_all_at(&bytes, to) {
                Ok(()) => result,
                Err(_) => return Ok(Some("a read to memory that is not there".into())),
            },
            // It finds itself in another process, and is refused what it does then: it goes quiet.
            Fate::End if self.agent.iter().any(|&(start, end)| (start..end).contains(&next)) => {
                -i64::from(libc::EPERM)
            }
            Fate::End => return Ok(Some(format!("system call {rax}"))),
        };
        registers.rax = result as u64;
        Ok(None)
    }

    /// Lets the copy make a system call.
    fn made(&self, registers: &Registers, number: libc::c_long, arguments: [u64; 6]) -> io::Result<i64> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let rip = self.places.code;
        let call = Registers {
            rip,
            rax: number as u64,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..*registers
        };
        trace::set_registers(self.copy.pid, &call)?;
        loop {
            trace::go_on(self.copy.pid)?;
            match trace::wait(self.copy.pid)? {
                Stop::Signal(libc::SIGTRAP) => break,
                Stop::Ended => return Err(io::Error::other("it was ended")),
                _ => {}
            }
        }
        Ok(trace::registers(self.copy.pid)?.rax as i64)
    }

    fn word(&self, word: u32) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.copy.memory.read_exact_at(&mut bytes, self.places.words + u64::from(word))?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Enters a block in the table for jumps to computed addresses.
    fn entered(&self, target: u64, translation: u64) -> io::Result<()> {
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&target.wrapping_neg().to_le_bytes());
        entry[8..].copy_from_slice(&translation.to_le_bytes());
        self.copy.memory.write_all_at(&entry, self.places.table + (target & (TABLE as u64 - 1)) * 16)
    }

    /// Where the translation of a block is; blocks that it leads to are translated as well.
    fn translated(&mut self, target: u64) -> io::Result<Option<u64>> {
        if let Some(&at) = self.translations.get(&target) {
            return Ok(Some(at));
        }
        let mut wanted = std::collections::VecDeque::from([target]);
        let mut fresh: Vec<(u64, Block)> = Vec::new();
        let mut returns = Vec::new();
        let begin = self.free;
        while let Some(start) = wanted.pop_front() {
            if fresh.len() == AHEAD || self.translations.contains_key(&start) {
                continue;
            }
            let code = self.code_at(start);
            let Some(block) = translate::block(
                &code,
                start,
                self.free,
                self.counting.blocks.len() as u32,
                self.places.table,
            ) else {
                continue;
            };
            if self.free + block.code.len() as u64 > self.places.code + CODE {
                break;
            }
            let targets = block.exits.iter().filter_map(|exit| match exit.to {
                To::Block { target, .. } => Some(target),
                _ => None,
            });
            wanted.extend(targets);
            wanted.extend(block.returns_to);
            returns.extend(block.returns_to);
            self.translations.insert(start, self.free);
            self.counting.code_pages.extend(start / PAGE..=block.end.saturating_sub(1) / PAGE);
            self.counting.blocks.push(Known {
                start,
                instructions: block.instructions,
                words: block.words.clone(),
                elements: block.elements,
                pauses: block.pauses,
                counted: Counted::default(),
            });
            let at = self.free;
            self.free += block.code.len() as u64;
            fresh.push((at, block));
        }
        let mut code = vec![0; (self.free - begin) as usize];
        for (at, block) in &fresh {
            let offset = (at - begin) as usize;
            code[offset..][..block.code.len()].copy_from_slice(&block.code);
            for exit in &block.exits {
                self.exits.insert(at + u64::from(exit.at), exit.to);
                if let To::Block { target, patch } = exit.to {
                    let patch_at = at + u64::from(patch);
                    self.patches.insert(at + u64::from(exit.at), patch_at);
                    if let Some(&translation) = self.translations.get(&target) {
                        code[offset + patch as usize..][..4]
                            .copy_from_slice(&distance(patch_at, translation));
                    }
                }
            }
        }
        self.copy.memory.write_all_at(&code, begin)?;
        for target in returns {
            if let Some(&translation) = self.translations.get(&target) {
                self.entered(target, translation)?;
            }
        }
        Ok(self.translations.get(&target).copied())
    }

    /// The program's code at an address, as far as it can be read and as a block may be long.
    fn code_at(&mut self, start: u64) -> Vec<u8> {
        let mut code = Vec::with_capacity(BLOCK_BYTES as usize);
        let mut at = start;
        while at < start.saturating_add(BLOCK_BYTES) {
            let page = at & !(PAGE - 1);
            let memory = &self.copy.memory;
            let content = self.pages.entry(page).or_insert_with(|| {
                let mut content = Box::new([0; PAGE as usize]);
                memory.read_exact_at(&mut content[..], page).is_ok().then_some(content)
            });
            let Some(content) = content else {
                break;
            };
            let upto = (page + PAGE).min(start + BLOCK_BYTES);
            code.extend_from_slice(&content[(at - page) as usize..(upto - page) as usize]);
            at = upto;
        }
        code
    }

    /// What was written down since the buffer was emptied last.
    fn rest(&mut self) -> io::Result<()> {
        let next = self.word(words::NEXT)?;
        self.take(next).map(drop)
    }

    /// Looks at what is written down before `next`. Why the excerpt ends then; nothing in it: it has its length.
    fn take(&mut self, next: u64) -> io::Result<Option<String>> {
        let length = next.saturating_sub(self.places.buffer).min(BUFFER * 8) as usize;
        let mut bytes = vec![0; length];
        self.copy.memory.read_exact_at(&mut bytes, self.places.buffer)?;
        let counting = &mut self.counting;
        let (instructions, pauses) = (counting.instructions, counting.pauses);
        for word in bytes.chunks_exact(8) {
            counting.one(u64::from_le_bytes(word.try_into().expect("chunks of eight bytes")));
        }
        let done = counting.instructions - instructions;
        Ok(if counting.instructions >= self.length.before + self.length.counted {
            Some(String::new())
        } else if (counting.pauses - pauses) * 1000 > done * WAITS {
            Some("it waits for another thread".into())
        } else if counting.wrote_code {
            Some("it writes code".into())
        } else {
            None
        })
    }

    fn result(self, ended: Option<String>) -> Ran {
        let counting = self.counting;
        let blocks = counting.blocks.into_iter().filter(|block| block.counted.instructions > 0);
        let blocks: Vec<_> = blocks.map(|block| (block.start, block.counted)).collect();
        Ran {
            instructions: counting.instructions,
            ended,
            counted: blocks.iter().map(|(_, counted)| counted.instructions).sum(),
            uses: counting.ladder.uses(),
            shared: self.shared.iter().map(|(start, end)| (start >> 6, end >> 6)).collect(),
            blocks,
        }
    }
}

/// The four bytes at `patch` of a jump to `target`.
fn distance(patch: u64, target: u64) -> [u8; 4] {
    (target.wrapping_sub(patch + 4) as u32).to_le_bytes()
}

/// A system call by the instruction at `syscall`, before the copy has code of ours.
fn step_call(copy: &Copy, syscall: u64, number: libc::c_long, arguments: [u64; 6]) -> io::Result<i64> {
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    let call = Registers {
        rip: syscall,
        rax: number as u64,
        orig_rax: u64::MAX,
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        ..copy.registers
    };
    trace::set_registers(copy.pid, &call)?;
    trace::step(copy.pid)?;
    match trace::wait(copy.pid)? {
        Stop::Ended => Err(io::Error::other("it was ended")),
        _ => Ok(trace::registers(copy.pid)?.rax as i64),
    }
}

fn result(value: i64) -> io::Result<u64> {
    match value {
        -4095..=-1 => Err(io::Error::from_raw_os_error(-value as i32)),
        value => Ok(value as u64),
    }
}
