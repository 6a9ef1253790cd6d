//! The kernel as QEMU starts it fastest. Emulated, the kernel's own unpacking takes 40 % of the
//! boot (24 of 59 CPU-seconds in three pairs of boots of 9 vCPUs), so the host unpacks it and
//! QEMU starts the ELF file by its PVH entry (xen/include/public/elfnote.h, type 18).

use super::cache::Scratch;
use super::error::GuestError;
use super::memory_file::in_memory;
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// XEN_ELFNOTE_PHYS32_ENTRY: where to start, in 32-bit mode without paging.
const PHYS32_ENTRY: u32 = 18;

/// First bytes of what Linux packs itself with, and the host's tool for each.
const PACKERS: [(&[u8], &str); 5] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x02\x21\x4c\x18", "lz4"),
];

/// The ELF file in a bzImage; `None` if the host cannot unpack it or it has no PVH entry: QEMU
/// then starts the bzImage.
pub(super) fn unpack(bz_image: &[u8]) -> Option<Vec<u8>> {
    let payload = payload(bz_image)?;
    let (_, tool) = PACKERS.iter().find(|(magic, _)| payload.starts_with(magic))?;
    let mut command = Command::new(tool);
    command.args(["-d", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut into = child.stdin.take()?;
    let output = std::thread::scope(|scope| {
        // The tool complains about the length behind the packed data, after it has unpacked it.
        scope.spawn(move || into.write_all(payload));
        child.wait_with_output().ok()
    })?;
    has_pvh_entry(&output.stdout).then_some(output.stdout)
}

/// Where an unpacked kernel is kept for the next boots: unpacking takes a sixth of the processor time of a machine's first run. It is
/// opened and kept under the lock of booting.
pub(super) struct Kept {
    cache: PathBuf,
    directory: PathBuf,
}

impl Kept {
    /// The place in `cache` of the kernel of this release that is packed in a file that has this identity.
    pub fn of(cache: &Path, release: &str, identity: u64) -> Kept {
        let directory = cache.join("kernels").join(format!("{release}{UNPACKED}{identity:016x}"));
        Kept { cache: cache.to_owned(), directory }
    }

    /// The ELF file, if it is kept: whole, because it got its name when it was.
    pub fn open(&self) -> Option<OwnedFd> {
        Some(File::open(self.directory.join(VMLINUX)).ok()?.into())
    }

    /// Keeps a file from its beginning, and removes others: kernels change with updates of the system.
    pub fn keep(&self, elf: OwnedFd) -> Result<(), GuestError> {
        let failed = || GuestError::host(format!("cannot keep {}", self.directory.display()));
        let made = Scratch::new(&self.cache, "kernel")?;
        let mut file = File::create(made.path().join(VMLINUX)).map_err(failed())?;
        let mut elf = File::from(elf);
        elf.rewind().and_then(|()| io::copy(&mut elf, &mut file)).map_err(failed())?;
        let kernels = self.cache.join("kernels");
        fs::create_dir_all(&kernels).map_err(failed())?;
        for entry in fs::read_dir(&kernels).map_err(failed())?.flatten() {
            if entry.file_name().to_string_lossy().contains(UNPACKED) {
                fs::remove_dir_all(entry.path()).map_err(failed())?;
            }
        }
        fs::rename(made.path(), &self.directory).map_err(failed())
    }
}

/// Between the release and the packed file's identity in the name of a directory of `kernels`.
const UNPACKED: &str = "-unpacked-";
const VMLINUX: &str = "vmlinux";

/// The packed kernel in a bzImage, by the fields payload_offset and payload_length of its header
/// (Documentation/arch/x86/boot.rst), less the unpacked length in its last four bytes.
fn payload(bz_image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(*bz_image.get(at..)?.first_chunk()?) as usize);
    let sectors = match *bz_image.get(0x1f1)? {
        0 => 4,
        n => usize::from(n),
    };
    let start = (sectors + 1) * 512 + number(0x248)?;
    let packed = bz_image.get(start..)?.get(..number(0x24c)?)?;
    packed.get(..packed.len().checked_sub(4)?)
}

fn has_pvh_entry(elf: &[u8]) -> bool {
    type Header = object::elf::FileHeader64<object::LittleEndian>;
    let look = || -> object::read::Result<bool> {
        let header = Header::parse(elf)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, elf)? {
            let Some(mut notes) = segment.notes(endian, elf)? else { continue };
            while let Some(note) = notes.next()? {
                if note.name() == b"Xen" && note.n_type(endian) == PHYS32_ENTRY {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    };
    look().unwrap_or(false)
}

/// In place of the kernel at a resume, where its memory comes from the snapshot: QEMU only has
/// to have the same firmware as at the boot, and 66 MB need not be read for that.
pub(super) fn stand_in() -> Result<OwnedFd, GuestError> {
    const ENTRY: u64 = 0x100_0000;
    let (header, program_header, note) = (64_u16, 56_u16, 20_u64);
    let at = u64::from(header) + 2 * u64::from(program_header);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |bytes: &[u8]| elf.extend(bytes);
    // ET_EXEC, EM_X86_64, version, entry, program headers, no sections, flags, sizes.
    put(&[2, 0, 62, 0, 1, 0, 0, 0]);
    for number in [ENTRY, u64::from(header), 0] {
        put(&number.to_le_bytes());
    }
    put(&0_u32.to_le_bytes());
    for number in [header, program_header, 2, 0, 0, 0] {
        put(&number.to_le_bytes());
    }
    // PT_LOAD and PT_NOTE of the same bytes: type, flags, offset, addresses, sizes, alignment.
    for kind in [1_u32, 4] {
        put(&kind.to_le_bytes());
        put(&4_u32.to_le_bytes());
        for number in [at, ENTRY, ENTRY, note, note, 4] {
            put(&number.to_le_bytes());
        }
    }
    // Length of the name, of the value, type; "Xen"; the entry.
    for number in [4, 4, PHYS32_ENTRY, u32::from_le_bytes(*b"Xen\0"), ENTRY as u32] {
        put(&number.to_le_bytes());
    }
    // QEMU looks for other formats in the first 8 KiB.
    elf.resize(8192, 0);
    in_memory(&elf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_stand_in_has_a_pvh_entry() {
        let mut bytes = Vec::new();
        File::from(stand_in().unwrap()).read_to_end(&mut bytes).unwrap();
        assert!(has_pvh_entry(&bytes));
        // The note is what makes it one.
        let note = bytes.windows(4).position(|w| w == b"Xen\0").unwrap();
        bytes[note] = b'x';
        assert!(!has_pvh_entry(&bytes));
    }

    #[test]
    fn the_last_unpacked_kernel_is_kept_and_others_are_not() {
        let cache = tempfile::tempdir().unwrap();
        let other = cache.path().join("kernels/linux-image-6.1.0-57-amd64_6.1.192-3_amd64");
        fs::create_dir_all(&other).unwrap();
        let [old, new] = [1, 2].map(|identity| Kept::of(cache.path(), "6.1.0-57-amd64", identity));
        assert!(old.open().is_none());
        old.keep(in_memory(b"old").unwrap()).unwrap();
        new.keep(in_memory(b"new").unwrap()).unwrap();
        let mut bytes = Vec::new();
        File::from(new.open().unwrap()).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"new");
        assert!(old.open().is_none() && other.is_dir());
        // Nothing else is left, of what was being made either.
        assert_eq!(fs::read_dir(cache.path().join("kernels")).unwrap().count(), 2);
        let hidden = |e: &fs::DirEntry| e.file_name().to_string_lossy().starts_with('.');
        assert!(!fs::read_dir(cache.path()).unwrap().flatten().any(|e| hidden(&e)));
    }

    #[test]
    fn what_is_no_kernel_is_not_unpacked() {
        assert!(unpack(b"MZ").is_none());
        assert!(unpack(&[0xff; 4096]).is_none());
    }
}
