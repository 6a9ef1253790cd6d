//! The guest's kernel: Debian's generic one, from wherever it can be had without being root.

use super::error::GuestError;
use super::fetch;
use super::modules::{self, Module};
use super::{Progress, bzimage, cache};
use std::path::{Path, PathBuf};

/// A kernel and what init loads into it.
pub struct Kernel {
    /// `6.1.0-56-amd64`
    pub release: String,
    /// The vmlinuz.
    pub image: PathBuf,
    pub(super) modules: Vec<Module>,
}

impl Kernel {
    /// The kernel that is here already, downloading nothing; `None` if [`Kernel::find`] would have to.
    ///
    /// # Errors
    /// If one was named that cannot be used.
    pub fn here() -> Result<Option<Kernel>, GuestError> {
        let named = std::env::var_os("NEARFAR_GUEST_KERNEL").is_some_and(|n| !n.is_empty());
        if named {
            return Kernel::find(&mut |_| {}).map(Some);
        }
        let cache = cache::directory()?;
        let kept = newest(cached(&cache), |at| Kernel::new(&at.join("vmlinuz"), &at.join("modules")));
        Ok(kept.or_else(|_| newest(installed(), |image| Kernel::new(image, &modules_of(image)))).ok())
    }

    /// In this order: `NEARFAR_GUEST_KERNEL` (a vmlinuz, or Debian's package of one), the cache,
    /// /boot, and what `apt-get download` brings.
    ///
    /// # Errors
    /// If there is none, with what was tried.
    pub fn find(progress: &mut dyn FnMut(Progress)) -> Result<Kernel, GuestError> {
        let mut tried = Vec::new();
        if let Some(named) = std::env::var_os("NEARFAR_GUEST_KERNEL").filter(|n| !n.is_empty()) {
            let named = PathBuf::from(named);
            // What was named must be it: another kernel in its place would surprise.
            return Kernel::named(&named, progress).map_err(|why| match why {
                Problem::Unfit(why) => GuestError::NoKernel {
                    tried: format!("NEARFAR_GUEST_KERNEL is {}: {why}", named.display()),
                },
                Problem::Other(error) => error,
            });
        }
        let cache = cache::directory()?;
        match newest(cached(&cache), |directory| {
            Kernel::new(&directory.join("vmlinuz"), &directory.join("modules"))
        }) {
            Ok(kernel) => return Ok(kernel),
            Err(why) => tried.extend(why),
        }
        match newest(installed(), |image| Kernel::new(image, &modules_of(image))) {
            Ok(kernel) => return Ok(kernel),
            Err(why) => tried.extend(why),
        }
        if tried.is_empty() {
            tried.push(format!("none in {} and none in /boot", cache.display()));
        }
        match Kernel::fetch(progress) {
            Ok(kernel) => Ok(kernel),
            Err(error) => {
                tried.push(error.to_string());
                Err(GuestError::NoKernel { tried: tried.join("; ") })
            }
        }
    }

    /// Downloads Debian's current kernel into the cache, without installing it.
    ///
    /// # Errors
    /// Without apt-get, without a network, or no such package.
    pub fn fetch(progress: &mut dyn FnMut(Progress)) -> Result<Kernel, GuestError> {
        let directory = fetch::by_apt(&cache::directory()?, progress)?;
        Kernel::new(&directory.join("vmlinuz"), &directory.join("modules"))
            .map_err(|why| GuestError::NoKernel { tried: format!("{}: {why}", directory.display()) })
    }

    fn named(named: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Kernel, Problem> {
        if named.extension().is_some_and(|e| e == "deb") {
            let directory = fetch::from_package(&cache::directory()?, named, progress)?;
            return Ok(Kernel::new(&directory.join("vmlinuz"), &directory.join("modules"))?);
        }
        let modules = std::env::var_os("NEARFAR_GUEST_MODULES").filter(|m| !m.is_empty());
        let modules = modules.map_or_else(|| modules_of(named), PathBuf::from);
        Ok(Kernel::new(named, &modules)?)
    }

    /// `Err` says why these files are not a kernel for a guest.
    fn new(image: &Path, modules: &Path) -> Result<Kernel, String> {
        let release = bzimage::release(image).map_err(|why| format!("{}: {why}", image.display()))?;
        if release.contains("-cloud-") || release.contains("-rt-") {
            return Err(format!("{} is {release}, not the generic kernel", image.display()));
        }
        Ok(Kernel { modules: modules::load(modules)?, image: image.to_owned(), release })
    }
}

enum Problem {
    Unfit(String),
    Other(GuestError),
}

impl From<String> for Problem {
    fn from(why: String) -> Problem {
        Problem::Unfit(why)
    }
}

impl From<GuestError> for Problem {
    fn from(error: GuestError) -> Problem {
        Problem::Other(error)
    }
}

/// The first that works, latest version first; else why each does not.
fn newest<T>(mut found: Vec<PathBuf>, open: impl Fn(&Path) -> Result<T, String>) -> Result<T, Vec<String>> {
    found.sort_by_key(|path| std::cmp::Reverse(version(path)));
    let mut tried = Vec::new();
    for path in found {
        match open(&path) {
            Ok(kernel) => return Ok(kernel),
            Err(why) => tried.push(why),
        }
    }
    Err(tried)
}

/// The numbers in a file name, so that 6.1.0-9 comes before 6.1.0-10.
fn version(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// Directories that [`fetch`] made.
fn cached(cache: &Path) -> Vec<PathBuf> {
    entries(&cache.join("kernels")).into_iter().filter(|path| path.join("vmlinuz").is_file()).collect()
}

fn installed() -> Vec<PathBuf> {
    let mut found = entries(Path::new("/boot"));
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("vmlinuz-") && name.ends_with("-amd64")
    });
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).map_or_else(|_| Vec::new(), |all| all.flatten().map(|e| e.path()).collect())
}

/// Where a kernel's modules are: beside it as `modules`, or where its package puts them.
fn modules_of(image: &Path) -> PathBuf {
    let directory = image.parent().unwrap_or(Path::new("/"));
    let beside = directory.join("modules");
    if beside.is_dir() {
        return beside;
    }
    let release = bzimage::release(image).unwrap_or_default();
    // An unpacked package: boot/vmlinuz-R and lib/modules/R.
    let unpacked = directory.join("../lib/modules").join(&release);
    if unpacked.is_dir() { unpacked } else { Path::new("/lib/modules").join(release) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A FIFO that has the bytes of a file in it, and whose writer stays: a reader gets them and waits for more.
    fn fifo(path: &Path, bytes: &[u8]) -> std::fs::File {
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with 0 and lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut both = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        both.write_all(bytes).unwrap();
        both
    }

    #[test]
    fn what_is_named_as_the_kernel_is_a_regular_file() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |path: &Path| match Kernel::named(path, &mut |_| {}) {
            Err(Problem::Unfit(why) | Problem::Other(GuestError::NoKernel { tried: why })) => why,
            Err(Problem::Other(other)) => other.to_string(),
            Ok(_) => panic!("{} is a kernel", path.display()),
        };
        let image = directory.path().join("vmlinuz");
        let held = fifo(&image, &[0; 0x300]);
        let why = refused(&image);
        assert!(why.ends_with("it is a FIFO, not a regular file"), "{why}");
        drop(held);
        assert!(refused(Path::new("/dev/zero")).ends_with("it is a device, not a regular file"));
        // Debian's package of one: unpacked by another program, which would wait.
        let package = directory.path().join("linux-image-6.1.0-1-amd64.deb");
        let held = fifo(&package, b"no package");
        let why = refused(&package);
        assert!(why.contains("it is a FIFO, not a regular file"), "{why}");
        drop(held);
        // The list of what the kernel has built in.
        let root = directory.path().join("modules");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("9p.ko"), "").unwrap();
        std::fs::write(root.join("virtio_pci.ko"), "").unwrap();
        let held = fifo(&root.join("modules.builtin"), b"kernel/9p.ko");
        let why = modules::load(&root).err().unwrap();
        assert!(why.ends_with("it is a FIFO, not a regular file"), "{why}");
        drop(held);
    }
}
