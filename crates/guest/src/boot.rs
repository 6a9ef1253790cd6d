//! Boots a machine once and keeps it as a snapshot.

use super::channel::{VERSION, from};
use super::error::GuestError;
use super::initramfs;
use super::kernel::Kernel;
use super::memory_file::{in_memory, path_of, zeros};
use super::process::{Vm, is_panic};
use super::qemu::{self, Exports, Qemu, Threads};
use super::shape::{Memory, Shape, memory_name};
use super::signals::Relay;
use super::snapshot::{self, About};
use super::{Progress, cache, host, vmlinux};
use nearfar_host::input;
use nearfar_machine::cpulist::{CpuList, NodeList};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether a kernel is unpacked: for this boot, or for an earlier one.
#[derive(Clone, Copy, PartialEq)]
enum Unpacked {
    Not,
    Now,
    Kept,
}

/// What every virtual machine of this host is made of.
#[derive(Clone)]
pub struct Setup {
    pub(super) parts: Arc<Parts>,
}

pub(super) struct Parts {
    pub qemu: Qemu,
    pub kernel: Kernel,
    cache: PathBuf,
    initramfs: Vec<u8>,
}

/// A booted machine that can be resumed any number of times, also at the same time.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) setup: Setup,
    pub(super) shape: Shape,
    pub(super) path: PathBuf,
    about: About,
}

impl Setup {
    /// Finds QEMU and a kernel; fetches the kernel if it must.
    ///
    /// # Errors
    /// If one of them cannot be had.
    pub fn find(progress: &mut dyn FnMut(Progress)) -> Result<Setup, GuestError> {
        let qemu = Qemu::find()?;
        let kernel = Kernel::find(progress)?;
        let cache = cache::directory()?;
        let initramfs = initramfs::build(&kernel.modules);
        Ok(Setup { parts: Arc::new(Parts { qemu, kernel, cache, initramfs }) })
    }

    /// The emulator.
    pub fn qemu(&self) -> &Qemu {
        &self.parts.qemu
    }

    /// The guest's kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.parts.kernel
    }

    /// The snapshot of a machine of this shape; boots one if there is none. Runs that ask at
    /// the same time wait for the one that boots.
    ///
    /// # Errors
    /// If the machine cannot be booted here, or Ctrl-C arrives.
    pub fn ensure_snapshot(
        &self,
        shape: &Shape,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Snapshot, GuestError> {
        host::check_memory(shape)?;
        let path = self.parts.cache.join(format!("{:016x}.snapshot", self.key(shape)));
        let found =
            |about: About| Snapshot { setup: self.clone(), shape: shape.clone(), path: path.clone(), about };
        if let Some(about) = snapshot::about(&path) {
            return Ok(found(about));
        }
        let relay = Relay::install().map_err(GuestError::host("cannot catch signals"))?;
        let mut told = false;
        let _alone = cache::Lock::take(&self.parts.cache, "boot.lock", &mut || {
            if !std::mem::replace(&mut told, true) {
                progress(Progress::Waiting);
            }
            relay.ending().map_or(Ok(()), |signal| Err(GuestError::Interrupted { signal }))
        })?;
        if let Some(about) = snapshot::about(&path) {
            return Ok(found(about));
        }
        progress(Progress::Booting { nodes: shape.nodes.len(), cpus: shape.cpus.len() });
        let about = self.boot(shape, &path, &relay, progress)?;
        snapshot::prune(&self.parts.cache, snapshot::KEPT_BYTES);
        Ok(found(about))
    }

    /// Everything that the memory of a booted machine depends on.
    fn key(&self, shape: &Shape) -> u64 {
        let parts = &*self.parts;
        let arguments = boot_arguments(shape, &Memory::default(), Path::new(""));
        let files = (identity(&parts.qemu.program), identity(&parts.kernel.image));
        // The guest's kernel measured how fast the host's counter of time is.
        let host = nearfar_host::proc::processor();
        let host = (host.vendor, host.family, host.model);
        hash(&(arguments, &parts.qemu.version, files, &parts.kernel.release, &parts.initramfs, host, VERSION))
    }

    fn boot(
        &self,
        shape: &Shape,
        path: &Path,
        relay: &Relay,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<About, GuestError> {
        let parts = &*self.parts;
        let begun = Instant::now();
        let kept =
            vmlinux::Kept::of(&parts.cache, &parts.kernel.release, hash(&identity(&parts.kernel.image)));
        let (kernel, unpacked) = match kept.open() {
            Some(kernel) => (kernel, Unpacked::Kept),
            None => self.kernel_file()?,
        };
        let initrd = in_memory(&parts.initramfs)?;
        let memory: Vec<OwnedFd> =
            shape.nodes.iter().map(|node| zeros(node.memory_bytes)).collect::<Result<_, _>>().map_err(
                GuestError::host("cannot make files in memory for the memory of the virtual machine"),
            )?;
        let files: Vec<PathBuf> = memory.iter().map(path_of).collect();
        let shared = Memory { files: &files, shared: true };
        let mut arguments = boot_arguments(shape, &shared, &path_of(&kernel));
        arguments.extend(["-initrd".into(), path_of(&initrd).into()]);
        let inherited: Vec<&OwnedFd> = [&initrd, &kernel].into_iter().chain(&memory).collect();
        let mut vm = Vm::start(&parts.qemu.program, &arguments, &inherited, &[])?;
        drop(initrd);
        let hello = wait_for_hello(&mut vm, shape, relay)?;
        check(shape, &hello)?;
        let address = |name: &str| {
            let text = hello.get(&format!("symbol.{name}"));
            let address = text.and_then(|t| u64::from_str_radix(t, 16).ok()).filter(|&a| a != 0);
            let missing = || GuestError::Unlike(format!("its kernel shows no {name} in /proc/kallsyms"));
            address.ok_or_else(missing)
        };
        let function = |name: &str| Ok::<_, GuestError>((address(name)?, address(&format!("{name}.end"))?));
        let switch = address("__switch_to_asm")?;
        let (wake, start) = (function("try_to_wake_up")?, function("wake_up_new_task")?);
        let call = function("smp_call_function_many_cond").ok();
        let huge = address("clear_huge_page").ok();
        let boot = begun.elapsed();

        progress(Progress::Saving { directory: parts.cache.clone() });
        vm.qmp.greet()?;
        // Not stopped before: it would resume as a stopped one. It is idle, so nothing changes.
        let ram_ends = self.ram_ends(&mut vm, shape, &hello)?;
        let failed = || GuestError::host(format!("cannot write the snapshot {}", path.display()));
        let made = cache::Scratch::new(&parts.cache, "machine")?;
        let machine = snapshot::new_machine(made.path()).map_err(failed())?;
        save(&mut vm, &machine, relay)?;
        vm.quit(Duration::from_secs(30), &mut || false)?;
        for (node, memory) in memory.iter().enumerate() {
            snapshot::keep_memory(made.path(), node, memory).map_err(failed())?;
        }
        let saving = begun.elapsed() - boot;
        let memory_bytes = shape.nodes.iter().map(|node| node.memory_bytes).collect();
        let about = About {
            file_bytes: 0,
            memory_bytes,
            pvh: unpacked != Unpacked::Not,
            switch,
            wake,
            start,
            call,
            huge,
            ram_ends,
            hello,
            boot,
            saving,
        };
        snapshot::publish(made.path(), path, about.clone()).map_err(failed())?;
        if unpacked == Unpacked::Now {
            // Without room for it on the disk, the next machine unpacks it again.
            let _ = kept.keep(kernel);
        }
        Ok(about)
    }

    /// The kernel as QEMU starts it fastest.
    fn kernel_file(&self) -> Result<(OwnedFd, Unpacked), GuestError> {
        let image = &self.parts.kernel.image;
        let image = input::read(image, input::MOST_MADE)
            .map_err(GuestError::host(format!("cannot read {}", image.display())))?;
        Ok(match vmlinux::unpack(&image) {
            Some(unpacked) => (in_memory(&unpacked)?, Unpacked::Now),
            None => (in_memory(&image)?, Unpacked::Not),
        })
    }

    fn ram_ends(
        &self,
        vm: &mut Vm,
        shape: &Shape,
        hello: &BTreeMap<String, String>,
    ) -> Result<Vec<u64>, GuestError> {
        let unlike = |why: &str| GuestError::Unlike(why.to_owned());
        if self.parts.qemu.plugin_sees_guest_physical() {
            // The last section of a node may have pages less: taken by the firmware.
            let end = |node: u32| -> Option<u64> {
                let pages: u64 = hello.get(&format!("node{node}.end_pfn"))?.parse().ok()?;
                Some((pages << 12).next_multiple_of(2 << 20))
            };
            let ends = shape.nodes.iter().map(|node| end(node.number));
            return ends.map(|end| end.ok_or_else(|| unlike("its /proc/zoneinfo lacks a node"))).collect();
        }
        let command = json!({ "command-line": "info ramblock" });
        let answer = vm.qmp.command("human-monitor-command", command)?;
        let table = answer.as_str().unwrap_or_default();
        let mut ends: Vec<u64> = Vec::new();
        let mut below = 0;
        for (at, node) in shape.nodes.iter().enumerate() {
            let offset = block_offset(table, &memory_name(at))
                .ok_or_else(|| unlike("QEMU's `info ramblock` lacks a node's memory"))?;
            // qemu_plugin_hwaddr_phys_addr adds the block's offset in QEMU's RAM and its region's
            // address within all of the machine's memory; the second is what is below.
            let start = offset + below;
            if ends.last().is_some_and(|&end| start < end) {
                return Err(unlike("QEMU's memory blocks are not in the order of the nodes"));
            }
            ends.push(start + node.memory_bytes);
            below += node.memory_bytes;
        }
        Ok(ends)
    }
}

impl Snapshot {
    /// What is known of the machine.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// What it runs with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}

fn boot_arguments(shape: &Shape, memory: &Memory, kernel: &Path) -> Vec<OsString> {
    qemu::arguments(Threads::One, shape, memory, kernel, &Exports::none())
}

/// A machine of 8 cpus needs 3 s, one of 44 cpus 6 s, one of 64 cpus at most 10 s, and one of 128 cpus 27 s, on two quiet cores.
fn boot_patience(shape: &Shape) -> Duration {
    Duration::from_secs(180 + 10 * shape.cpus.len() as u64)
}

fn wait_for_hello(vm: &mut Vm, shape: &Shape, relay: &Relay) -> Result<BTreeMap<String, String>, GuestError> {
    let patience = boot_patience(shape);
    let deadline = Instant::now() + patience;
    loop {
        if let Some(signal) = relay.ending() {
            return Err(GuestError::Interrupted { signal });
        }
        vm.channel.fill(1 << 16);
        let frame = vm.channel.next();
        let boot = |vm: &Vm, why: String| GuestError::Boot { why, console: vm.last_words() };
        match frame {
            Ok(Some(frame)) if frame.kind == from::HELLO => {
                let text = String::from_utf8_lossy(&frame.bytes).into_owned();
                let pairs = text.lines().filter_map(|line| line.split_once('='));
                return Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
            }
            Ok(_) => {}
            Err(error) => return Err(boot(vm, error.to_string())),
        }
        if let Some(status) = vm.ended() {
            return Err(match vm.died(status) {
                GuestError::Died { how, said } if !status.success() => GuestError::Died { how, said },
                GuestError::Died { .. } => boot(vm, "it switched itself off".into()),
                other => other,
            });
        }
        if is_panic(&vm.console()) {
            return Err(GuestError::Panic { console: vm.console() });
        }
        if Instant::now() > deadline {
            return Err(boot(vm, format!("nothing was heard of it for {} s", patience.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The guest's kernel must see the nodes, cpus and distances that were asked for.
fn check(shape: &Shape, hello: &BTreeMap<String, String>) -> Result<(), GuestError> {
    let get = |name: &str| hello.get(name).map_or("nothing", String::as_str);
    if get("version") != VERSION.to_string() {
        return Err(GuestError::Unlike(format!("its init speaks version {}", get("version"))));
    }
    let online: Option<NodeList> = get("nodes").parse().ok();
    let numbers: NodeList = shape.nodes.iter().map(|n| n.number).collect();
    if online.as_ref() != Some(&numbers) {
        return Err(GuestError::Unlike(format!("its nodes are `{}`, not {numbers}", get("nodes"))));
    }
    for (at, (node, row)) in shape.nodes.iter().zip(&shape.distances).enumerate() {
        let node = node.number;
        let cpus = get(&format!("node{node}.cpus"));
        let seen: Option<CpuList> = cpus.parse().ok();
        let wanted = shape.guest_cpus(at);
        if seen.as_ref().map(CpuList::as_slice) != Some(&wanted) {
            return Err(GuestError::Unlike(format!("its node {node} has the cpus `{cpus}`, not {wanted:?}")));
        }
        let distances = get(&format!("node{node}.distances"));
        let seen: Vec<u32> = distances.split_whitespace().filter_map(|d| d.parse().ok()).collect();
        if &seen != row {
            return Err(GuestError::Unlike(format!(
                "its node {node} has the distances `{distances}`, not {row:?}"
            )));
        }
    }
    Ok(())
}

fn save(vm: &mut Vm, file: &OwnedFd, relay: &Relay) -> Result<(), GuestError> {
    vm.without_memory()?;
    // Not throttled as for a network: 0 would be no limit only in later versions.
    vm.qmp.command("migrate-set-parameters", json!({ "max-bandwidth": 1_u64 << 40 }))?;
    vm.qmp.command_with("getfd", json!({ "fdname": "snapshot" }), Some(file.as_fd()))?;
    vm.qmp.command("migrate", json!({ "uri": "fd:snapshot" }))?;
    loop {
        let answer = vm.qmp.command("query-migrate", json!({}))?;
        let why = answer["error-desc"].as_str().unwrap_or("no reason given").to_owned();
        match answer["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => return Err(GuestError::Qmp { command: "migrate".into(), why }),
            _ => {}
        }
        if let Some(signal) = relay.ending() {
            return Err(GuestError::Interrupted { signal });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Offset of a block in `info ramblock`: name, page size, offset, used, total, in columns.
fn block_offset(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    let offset = line.split_whitespace().find_map(|word| word.strip_prefix("0x"))?;
    u64::from_str_radix(offset, 16).ok()
}

/// Changes with a file. Not its content: of 25 MB, that would take as long as the resume.
fn identity(file: &Path) -> Option<impl Hash + use<>> {
    let about = std::fs::metadata(file).ok()?;
    Some((about.len(), about.modified().ok()?, about.ino(), about.dev()))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{Memory, Path, Shape, block_offset, boot_arguments};
    use crate::shape::GuestOptions;
    use nearfar_machine::Machine;

    /// With a thread for each cpu, boots hang too seldom for a test that boots.
    #[test]
    fn a_machine_boots_in_one_thread_of_the_emulator() {
        for machine in ["2x4", "2x32", "2x64"] {
            let shape = Machine::from_shape(machine).unwrap();
            let shape = Shape::from_machine(&shape, &GuestOptions::default()).unwrap();
            let arguments = boot_arguments(&shape, &Memory::default(), Path::new(""));
            let at = arguments.iter().position(|argument| argument == "-accel").unwrap();
            assert_eq!(arguments[at + 1], *"tcg,thread=single", "{machine}");
        }
    }

    /// As QEMU 7.2 prints it.
    #[test]
    fn offsets_of_blocks_are_found() {
        let table = "              Block Name    PSize              Offset               Used              Total\n\
                     \x20                 node0    4 KiB  0x0000000000000000 0x0000000040000000 0x0000000040000000\n\
                     \x20                 node1    4 KiB  0x0000000040000000 0x0000000040000000 0x0000000040000000\n\
                     \x20                node10    4 KiB  0x0000000080000000 0x0000000040000000 0x0000000040000000\n";
        assert_eq!(block_offset(table, "node0"), Some(0));
        assert_eq!(block_offset(table, "node1"), Some(1 << 30));
        assert_eq!(block_offset(table, "node10"), Some(2 << 30));
        assert_eq!(block_offset(table, "node2"), None);
    }
}
