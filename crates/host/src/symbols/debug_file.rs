//! Where the debug information of a stripped file is kept.

use std::path::{Path, PathBuf};

use object::Object;

use super::image::Image;

/// Root of the distributions' separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// Finds the file with the debug information of `image`.
///
/// Tried in gdb's order: the build id, then `.gnu_debuglink` beside the file, in
/// `.debug/` and under `/usr/lib/debug`; then what debuginfod has already fetched.
/// Nothing is downloaded. A candidate counts only if it belongs to this very build.
pub(super) fn find(image: &Image) -> Option<Image> {
    let id = image.build_id();
    let mut candidates = Vec::new();
    if let Some(id) = &id {
        candidates.push(by_build_id(id));
    }
    let mut link_crc = None;
    if let Ok(Some((name, crc))) = image.elf().gnu_debuglink() {
        link_crc = Some(crc);
        let name = Path::new(std::str::from_utf8(name).ok()?).file_name()?;
        // The link is relative to the real file, not to a symbolic link to it.
        let real = image.path.canonicalize().ok()?;
        let dir = real.parent()?;
        candidates.push(dir.join(name));
        candidates.push(dir.join(".debug").join(name));
        candidates.push(Path::new(DEBUG_ROOT).join(dir.strip_prefix("/").ok()?).join(name));
    }
    if let Some(id) = &id {
        candidates.extend(debuginfod_cache().map(|cache| cache.join(id).join("debuginfo")));
    }
    candidates.into_iter().find_map(|path| {
        if path == image.path {
            return None;
        }
        let found = Image::open(&path).ok()?;
        let belongs = match (&id, found.build_id()) {
            (Some(ours), Some(theirs)) => *ours == theirs,
            _ => link_crc.is_some_and(|crc| crc == crc32fast::hash(found.elf().data())),
        };
        belongs.then_some(found)
    })
}

/// The file that `dwz` moved common debug information to, if `image` names one.
pub(super) fn find_supplementary(image: &Image) -> Option<Image> {
    let (name, id) = image.elf().gnu_debugaltlink().ok()??;
    let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
    let named = Path::new(std::str::from_utf8(name).ok()?);
    let beside = image.path.canonicalize().ok()?.parent()?.join(named);
    [Some(beside), (id.len() > 2).then(|| by_build_id(&id))]
        .into_iter()
        .flatten()
        .filter_map(|path| Image::open(&path).ok())
        .find(|found| found.build_id().is_some_and(|theirs| theirs == id))
}

fn by_build_id(id: &str) -> PathBuf {
    Path::new(DEBUG_ROOT).join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]))
}

fn debuginfod_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    if let Some(path) = set("DEBUGINFOD_CACHE_PATH") {
        return Some(path.into());
    }
    let cache = match set("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(set("HOME")?).join(".cache"),
    };
    Some(cache.join("debuginfod_client"))
}
