//! The guest's first file system: init and the modules, as a newc cpio archive
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use super::modules::Module;

/// init/*.c, compiled and linked statically by build.rs.
pub(super) static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nearfar-init"));

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// The archive with `modules` in the order in which init loads them.
pub(super) fn build(modules: &[Module]) -> Vec<u8> {
    let mut archive = Archive::default();
    for directory in ["dev", "proc", "sys", "host", "modules"] {
        archive.entry(directory, DIRECTORY, (0, 0), &[]);
    }
    // The kernel opens it for init before init can mount devtmpfs.
    archive.entry("dev/console", CHARACTER_DEVICE, (5, 1), &[]);
    archive.entry("init", PROGRAM, (0, 0), INIT);
    let mut list = String::new();
    for module in modules {
        let path = format!("modules/{}.ko", module.name);
        archive.entry(&path, FILE, (0, 0), &module.bytes);
        list += &format!("/{path}\n");
    }
    archive.entry("modules.list", FILE, (0, 0), list.as_bytes());
    archive.finish()
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        // Inode, mode, owner, group, links, time, size, device of the archive (2), own device (2),
        // length of the name with its NUL, checksum (not in this variant).
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            content.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn cpio_reads_what_we_write() {
        let modules = [("one", 5), ("two", 8)]
            .map(|(name, size)| Module { name: name.into(), bytes: vec![b'x'; size] });
        let archive = build(&modules);
        let Ok(mut cpio) = Command::new("cpio")
            .args(["-tv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
        else {
            return println!("skipped: no cpio on this host");
        };
        cpio.stdin.take().unwrap().write_all(&archive).unwrap();
        let output = cpio.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let listing = String::from_utf8_lossy(&output.stdout);
        let line = |name: &str| {
            listing.lines().find(|l| l.split_whitespace().last() == Some(name)).unwrap().to_owned()
        };
        assert!(line("init").starts_with("-rwxr-xr-x"));
        assert!(line("init").contains(&INIT.len().to_string()));
        assert!(line("dev/console").starts_with("crw-------"));
        assert!(line("modules/one.ko").contains(" 5 "));
        assert!(line("modules/two.ko").contains(" 8 "));
        assert!(line("modules.list").contains(&format!(" {} ", "/modules/one.ko\n".len() * 2)));
    }
}
