//! Which file a program is, and why it could not be started.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No file of that name; shells exit with 127.
    #[error("{program}: not found{hint}")]
    NotFound {
        /// As typed.
        program: String,
        /// Where it was looked for.
        hint: String,
    },
    /// A file, but none that can be executed; shells exit with 126.
    #[error("{program}: cannot be executed: {why}")]
    NotExecutable {
        /// As typed.
        program: String,
        /// Why.
        why: String,
    },
    /// fork or pipe failed.
    #[error("cannot start a process: {0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// The exit status that a shell would give.
    pub fn exit_status(&self) -> u8 {
        match self {
            StartError::NotFound { .. } => 127,
            _ => 126,
        }
    }
}

/// Finds the file that `execvp` would run.
///
/// # Errors
/// If there is none or it cannot be executed.
pub fn find_program(program: &OsStr) -> Result<PathBuf, StartError> {
    let shown = program.to_string_lossy().into_owned();
    let candidate = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return match check_executable(candidate) {
            Ok(()) => Ok(candidate.to_owned()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                Err(StartError::NotFound { program: shown, hint: ": no such file".into() })
            }
            Err(why) => Err(StartError::NotExecutable { program: shown, why: why.to_string() }),
        };
    }
    if program.is_empty() {
        return Err(StartError::NotFound {
            program: "``".into(),
            hint: ": the program's name is empty".into(),
        });
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let mut refused = None;
    for directory in std::env::split_paths(&path) {
        let file = directory.join(candidate);
        match check_executable(&file) {
            Ok(()) => return Ok(file),
            // Shells look on, too.
            _ if file.is_dir() => {}
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => refused = Some((file, why)),
        }
    }
    if let Some((file, why)) = refused {
        return Err(StartError::NotExecutable { program: file.display().to_string(), why: why.to_string() });
    }
    let hint = match Path::new(".").join(candidate) {
        file if file.is_file() => format!(" in PATH, but there is a file of that name here: type ./{shown}"),
        file if file.is_dir() => " in PATH; here it is a directory, not a program".into(),
        _ => " in PATH".into(),
    };
    Err(StartError::NotFound { program: shown, hint })
}

fn check_executable(path: &Path) -> io::Result<()> {
    let data = std::fs::metadata(path)?;
    if data.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if data.permissions().mode() & 0o111 == 0 {
        return Err(io::Error::other("it has no execute permission (chmod +x)"));
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // SAFETY: a NUL-terminated path.
    if unsafe { libc::access(name.as_ptr(), libc::X_OK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
