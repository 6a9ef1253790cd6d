//! The kernel modules that the guest needs, in the order in which they can be loaded.

use super::error::GuestError;
use nearfar_host::input;
use object::{Object, ObjectSection};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What init needs to be heard, to see the host's files and to keep writes from them; the rest follows from them.
const WANTED: [&str; 5] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];

/// A module, decompressed.
pub(super) struct Module {
    /// With underscores, as the kernel writes it.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Reads the wanted modules and all that they need, found anywhere below `root`. `Err` says
/// what is missing, in words.
pub(super) fn load(root: &Path) -> Result<Vec<Module>, String> {
    let mut files = HashMap::new();
    index(root, &mut files, 0);
    if files.is_empty() {
        return Err(format!("no modules below {}", root.display()));
    }
    let list = root.join("modules.builtin");
    let builtin = match list.symlink_metadata() {
        Ok(_) => input::read_text(&list, input::MOST_WRITTEN)
            .map_err(|why| format!("{}: {why}", list.display()))?,
        Err(_) => String::new(),
    };
    let builtin: Vec<String> = builtin.lines().map(|line| name_of(Path::new(line))).collect();
    let mut order = Vec::new();
    for name in WANTED {
        add(name, &files, &builtin, &mut order)?;
    }
    Ok(order)
}

fn add(
    name: &str,
    files: &HashMap<String, PathBuf>,
    builtin: &[String],
    order: &mut Vec<Module>,
) -> Result<(), String> {
    if order.iter().any(|m| m.name == name) || builtin.iter().any(|b| b == name) {
        return Ok(());
    }
    let Some(file) = files.get(name) else {
        return Err(format!(
            "the module {name} is missing (a cloud or cut-down kernel? the generic one has it)"
        ));
    };
    let bytes = read(file).map_err(|error| error.to_string())?;
    for needed in dependencies(&bytes).ok_or_else(|| format!("{} is not a kernel module", file.display()))? {
        add(&needed, files, builtin, order)?;
    }
    order.push(Module { name: name.to_owned(), bytes });
    Ok(())
}

/// The modules named in `depends=` of the section `.modinfo` (modules.dep is only made when a
/// kernel is installed). `None` if it is not a module.
fn dependencies(bytes: &[u8]) -> Option<Vec<String>> {
    let file = object::File::parse(bytes).ok()?;
    let section = file.section_by_name(".modinfo")?;
    let data = section.data().ok()?;
    let depends = data.split(|&b| b == 0).find_map(|entry| entry.strip_prefix(b"depends="))?;
    let text = std::str::from_utf8(depends).ok()?;
    Some(text.split(',').filter(|n| !n.is_empty()).map(|n| n.replace('-', "_")).collect())
}

fn index(directory: &Path, files: &mut HashMap<String, PathBuf>, depth: usize) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        // Links (build, source) lead out of the tree.
        if kind.is_dir() && depth < 16 {
            index(&path, files, depth + 1);
        } else if kind.is_file() && entry.file_name().to_string_lossy().contains(".ko") {
            files.insert(name_of(&path), path);
        }
    }
}

/// `drivers/virtio-x.ko.xz` → `virtio_x`.
fn name_of(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.split_once(".ko").map_or(&*file, |(name, _)| name).replace('-', "_")
}

/// A module's bytes; compressed ones by the host's tools, which a host with such modules has.
fn read(file: &Path) -> Result<Vec<u8>, GuestError> {
    let tool = match file.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => {
            let bytes = input::read(file, input::MOST_MADE);
            return bytes.map_err(GuestError::host(format!("cannot read {}", file.display())));
        }
    };
    let failed = |why: String| GuestError::Tool { command: format!("{tool} -dc {}", file.display()), why };
    let output = Command::new(tool)
        .arg("-dc")
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(output.stdout)
}
