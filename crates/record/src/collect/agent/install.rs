//! Puts the embedded agent where the loader can load it: a directory named by the agent's content,
//! so that runs at the same time and versions side by side do not disturb each other.
//!
//! ```text
//! PLACE/agent-HASH-lib_x86_64-linux-gnu/lib/x86_64-linux-gnu/nearfar-agent.so   the agent
//!                                       lib64/nearfar-agent.so                  the agent
//!                                       $LIB/nearfar-agent.so                   the agent
//!                                       lib32/nearfar-agent.so                  empty, 32 bits
//! ```
//!
//! LD_PRELOAD names `…/$LIB/nearfar-agent.so`. Each loader puts its own directory there, so that one for
//! 32 bits finds something harmless and does not complain; musl takes the token as it is.
//!
//! A user who can write there decides what programs load. So the path is resolved first, and every
//! directory on it has to be root's or ours and writable by nothing else; for root, root's only.

use super::stub::{Kind, shared_object};
use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The agent, as build.rs compiled it.
static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nearfar-agent.so"));
const NAME: &str = "nearfar-agent.so";
const PROBE: &str = "nearfar-probe.so";
/// What loaders of 64 bits put in place of `$LIB`: Debian; Fedora and others; Arch, whose 32 bits have lib32.
const WIDE: [&str; 3] = ["lib/x86_64-linux-gnu", "lib64", "lib"];
/// The same of 32 bits.
const NARROW: [&str; 3] = ["lib/i386-linux-gnu", "lib32", "lib"];
/// And where pointers of 32 bits meet the registers of 64.
const X32: [&str; 2] = ["lib/x86_64-linux-gnux32", "libx32"];

/// Finds or writes the agent's file; the first place that works. The path is for LD_PRELOAD.
pub(super) fn install() -> io::Result<PathBuf> {
    let mut tried = Vec::new();
    for directory in candidates(user()) {
        match install_in(&directory, user()) {
            Ok(path) => return Ok(path),
            Err(error) => tried.push(naming(&directory, error).to_string()),
        }
    }
    Err(io::Error::other(format!(
        "no place for the preload agent (set XDG_CACHE_HOME or TMPDIR to a directory that is yours, writable by \
         no other user and not mounted noexec): {}",
        tried.join("; ")
    )))
}

fn user() -> u32 {
    // SAFETY: geteuid always succeeds and touches nothing.
    unsafe { libc::geteuid() }
}

fn candidates(user: u32) -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let private = format!("nearfar-{user}");
    let roots = |path: &str| (user == 0).then(|| PathBuf::from(path));
    [
        roots("/run/nearfar"),
        roots("/var/cache/nearfar"),
        absolute("XDG_CACHE_HOME").map(|path| path.join("nearfar")),
        absolute("HOME").map(|path| path.join(".cache/nearfar")),
        absolute("TMPDIR").map(|path| path.join(&private)),
        Some(Path::new("/tmp").join(&private)),
        Some(Path::new("/dev/shm").join(&private)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn install_in(directory: &Path, user: u32) -> io::Result<PathBuf> {
    // What is made is checked before: nothing is written below a directory of another user's.
    let directory = made_below(directory, user)?;
    // LD_PRELOAD is split at some of these and expands others, and knows no escape.
    if directory.as_os_str().as_bytes().iter().any(|byte| b": \t\n$".contains(byte)) {
        return Err(io::Error::other("LD_PRELOAD cannot name a path with a space, a colon or a dollar sign"));
    }
    let name = concat!("agent-", env!("NEARFAR_AGENT_NUMBER"));
    if !cfg!(target_arch = "x86_64") {
        let place = subdirectory(&directory, Path::new(&name), user)?;
        return put(&place, NAME, AGENT, user).map(|()| place.join(NAME));
    }
    let own = expansion(&directory, user)?;
    let name = format!("{name}-{}", own.unwrap_or("unknown").replace('/', "_"));
    let place = subdirectory(&directory, Path::new(&name), user)?;
    let file =
        |below: &str, bytes: &[u8]| put(&subdirectory(&place, Path::new(below), user)?, NAME, bytes, user);
    // Which word size `lib` has is for our own loader to say.
    let wide: Vec<&str> = WIDE.into_iter().filter(|&w| w != "lib" || own == Some("lib")).collect();
    for below in wide.iter().copied().chain(["$LIB"]) {
        file(below, AGENT)?;
    }
    for below in NARROW.into_iter().filter(|below| !wide.contains(below)) {
        file(below, &shared_object(Kind::I386))?;
    }
    for below in X32 {
        file(below, &shared_object(Kind::X32))?;
    }
    Ok(place.join("$LIB").join(NAME))
}

/// What this host's loader puts in place of `$LIB`: it is asked for an empty library that is in all the
/// places we know, and its mapping says which was taken. `None` if it took none (a loader without tokens).
fn expansion(directory: &Path, user: u32) -> io::Result<Option<&'static str>> {
    let place = subdirectory(directory, Path::new("loader"), user)?;
    for below in WIDE {
        put(&subdirectory(&place, Path::new(below), user)?, PROBE, &shared_object(Kind::X64), user)?;
    }
    let path = CString::new(place.join("$LIB").join(PROBE).as_os_str().as_bytes())?;
    // SAFETY: a NUL-terminated path of a library without any code, whose content was checked just now.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Ok(None);
    }
    let maps = nearfar_host::proc::maps(std::process::id());
    // SAFETY: the handle that dlopen gave.
    unsafe { libc::dlclose(handle) };
    Ok(WIDE.into_iter().find(|below| {
        let whole = place.join(below).join(PROBE);
        maps.iter().any(|map| OsStr::new(&map.name) == whole)
    }))
}

/// `directory` without links, made where it was missing, if nothing else can change what lies there.
fn made_below(directory: &Path, user: u32) -> io::Result<PathBuf> {
    let there = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let start = there.canonicalize()?;
    ours_all_the_way(&start, user)?;
    let rest = directory.strip_prefix(there).map_err(io::Error::other)?;
    subdirectory(&start, rest, user)
}

/// The directory `rest` below one that was checked, made where it is missing.
fn subdirectory(start: &Path, rest: &Path, user: u32) -> io::Result<PathBuf> {
    let mut path = start.to_owned();
    for part in rest.components() {
        path.push(part);
        // What root preloads is also loaded by programs that give up their rights.
        let mode = if user == 0 { 0o755 } else { 0o700 };
        match fs::DirBuilder::new().mode(mode).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(naming(&path, error)),
            _ => only_ours(&path, user)?,
        }
        // Beyond the umask: others have to come through.
        let about = fs::symlink_metadata(&path)?;
        if user == 0 && about.uid() == 0 && about.mode() & 0o055 != 0o055 {
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
    }
    Ok(path)
}

fn ours_all_the_way(path: &Path, user: u32) -> io::Result<()> {
    path.ancestors().try_for_each(|directory| {
        only_ours(directory, user)?;
        let mode = fs::symlink_metadata(directory)?.mode();
        if user == 0 && mode & 0o001 == 0 {
            let why = "is closed to others, and a program that root starts may give up its rights";
            return Err(io::Error::other(format!("{} {why}", directory.display())));
        }
        Ok(())
    })
}

/// An error unless this is a directory and no link, of root's or ours, in which nothing else can replace
/// anything. For root, `user` is 0 and both are the same.
fn only_ours(directory: &Path, user: u32) -> io::Result<()> {
    let about = fs::symlink_metadata(directory).map_err(|error| naming(directory, error))?;
    let refused = |why: String| Err(io::Error::other(format!("{} {why}", directory.display())));
    if !about.is_dir() {
        return refused("is not a directory".to_owned());
    }
    if about.uid() != 0 && about.uid() != user {
        return refused(format!("belongs to user {}, who could replace what is loaded", about.uid()));
    }
    let sticky = about.mode() & 0o1000 != 0;
    if about.mode() & 0o022 != 0 && !sticky {
        return refused("is writable by others, who could replace what is loaded".to_owned());
    }
    Ok(())
}

/// Makes `bytes` the content of the file `name`, if it is not so already.
fn put(directory: &Path, name: &str, bytes: &[u8], user: u32) -> io::Result<()> {
    let path = directory.join(name);
    if holds(&path, bytes, user) {
        return executable(&path);
    }
    let temporary =
        directory.join(format!(".{name}-{}-{:?}", std::process::id(), std::thread::current().id()));
    let write = || -> io::Result<()> {
        let _ = fs::remove_file(&temporary);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).mode(0o755);
        let mut file = options.open(&temporary)?;
        file.write_all(bytes)?;
        if user == 0 {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        drop(file);
        executable(&temporary)?;
        // The last to rename wins; the contents are the same.
        fs::rename(&temporary, &path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Whether the file is ours with exactly these bytes: a hash in a name proves nothing.
fn holds(path: &Path, wanted: &[u8], user: u32) -> bool {
    let mut options = OpenOptions::new();
    // Not blocked by a FIFO of that name either.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Ok(mut file) = options.read(true).custom_flags(flags).open(path) else {
        return false;
    };
    let ours = file.metadata().is_ok_and(|about| {
        let safe = about.is_file() && about.uid() == user && about.mode() & 0o022 == 0;
        let readable = user != 0 || about.mode() & 0o055 == 0o055;
        safe && readable && about.len() == wanted.len() as u64
    });
    let mut bytes = Vec::new();
    ours && file.read_to_end(&mut bytes).is_ok() && bytes == wanted
}

/// On a file system mounted noexec the loader would fail in every program; so would this.
fn executable(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file: File = options.read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    // SAFETY: a new private mapping of one page of a file of our own, unmapped at once.
    let page = unsafe {
        let access = libc::PROT_READ | libc::PROT_EXEC;
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if page != libc::MAP_FAILED {
            libc::munmap(page, 4096);
        }
        page
    };
    if page == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        let name = path.file_name().unwrap_or(OsStr::new("")).display().to_string();
        return Err(io::Error::new(
            error.kind(),
            format!("cannot map {name} as code (mounted noexec?): {error}"),
        ));
    }
    Ok(())
}

fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A directory below /tmp, which is sticky; as in life.
    fn scratch() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir_in("/tmp").unwrap()
    }

    fn why(directory: &Path) -> String {
        install_in(directory, user()).unwrap_err().to_string()
    }

    #[test]
    fn the_agent_is_where_loaders_of_all_word_sizes_look() {
        let scratch = scratch();
        let path = install_in(&scratch.path().join("made/here"), user()).unwrap();
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        assert!(path.ends_with("$LIB/nearfar-agent.so"), "{}", path.display());
        assert_eq!(install_in(&scratch.path().join("made/here"), user()).unwrap(), path, "found again");
        let base = path.parent().unwrap().parent().unwrap();
        let read = |below: &str| fs::read(base.join(below).join(NAME)).unwrap();
        assert!(["$LIB", "lib64", "lib/x86_64-linux-gnu"].iter().all(|b| read(b) == AGENT));
        assert!(["lib32", "lib/i386-linux-gnu"].iter().all(|b| read(b) == shared_object(Kind::I386)));
        // What lies there is not trusted by its name.
        fs::write(base.join("lib64").join(NAME), "other").unwrap();
        install_in(&scratch.path().join("made/here"), user()).unwrap();
        assert!(read("lib64") == AGENT);
    }

    #[test]
    fn links_are_followed_before_the_check_and_not_after() {
        let scratch = scratch();
        let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let path = install_in(&link.join("below"), user()).unwrap();
        assert!(path.starts_with(real.canonicalize().unwrap()), "{}", path.display());
        if cfg!(target_arch = "x86_64") {
            // A link in place of a file is replaced, and what it led to stays.
            let file = path.parent().unwrap().parent().unwrap().join("lib64").join(NAME);
            let other = scratch.path().join("other");
            fs::write(&other, AGENT).unwrap();
            fs::remove_file(&file).unwrap();
            symlink(&other, &file).unwrap();
            install_in(&link.join("below"), user()).unwrap();
            assert!(fs::symlink_metadata(&file).unwrap().is_file());
        }
    }

    #[test]
    fn what_others_can_write_to_is_refused_wherever_it_is_on_the_path() {
        let scratch = scratch();
        let open = scratch.path().join("open");
        fs::create_dir_all(open.join("mine")).unwrap();
        fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(why(&open.join("mine")).contains("writable by others"), "{}", why(&open.join("mine")));
        fs::set_permissions(&open, PermissionsExt::from_mode(0o1777)).unwrap();
        install_in(&open.join("mine"), user()).unwrap();
    }

    #[test]
    fn root_uses_nothing_of_another_user() {
        if user() != 0 {
            eprintln!("skipped: only root can give a directory away");
            return;
        }
        let scratch = scratch();
        let home = scratch.path().join("home");
        fs::create_dir_all(home.join(".cache/nearfar")).unwrap();
        chown(&home, Some(65534), Some(65534)).unwrap();
        let refused = why(&home.join(".cache/nearfar"));
        assert!(refused.contains("belongs to user 65534"), "{refused}");
        // Nor a directory that only root can enter: the program may be another user by then.
        let closed = scratch.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
        assert!(why(&closed.join("a")).contains("closed to others"));
    }
}
