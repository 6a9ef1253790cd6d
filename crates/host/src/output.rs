//! Files that a person asks for: written as a whole, or not there. A full disk leaves no empty file behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file that must not be there yet.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::AlreadyExists`] if there is something of that name.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    written(&mut file, bytes).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Writes a file in the place of an older one, which stays if that fails. Into what is not a regular file (a pipe,
/// /dev/stdout) it is written as it is.
///
/// # Errors
/// Those of the system.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => return OpenOptions::new().write(true).open(path)?.write_all(bytes),
        // A link stays one: what it names is replaced.
        Ok(_) => return beside(&path.canonicalize()?, bytes),
        Err(_) => {}
    }
    beside(path, bytes)
}

fn beside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh: PathBuf = path.with_file_name(name);
    create(&fresh, bytes)?;
    if let Ok(there) = fs::metadata(path) {
        let _ = fs::set_permissions(&fresh, there.permissions());
    }
    fs::rename(&fresh, path).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

/// Also on the disk: some file systems say only then that they are full.
fn written(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_its_mode_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        replace(&at("a"), b"one").unwrap();
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("a", at("link")).unwrap();
        replace(&at("link"), b"two").unwrap();
        assert_eq!(fs::read(at("a")).unwrap(), b"two");
        assert_eq!(fs::metadata(at("a")).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(create(&at("a"), b"three").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        // Nothing else is left, and a failure leaves nothing.
        assert!(replace(&at("none/b"), b"").is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        replace(Path::new("/dev/null"), b"x").unwrap();
    }
}
