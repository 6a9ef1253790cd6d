//! What an exec takes: file, arguments, environment; and the timers that outlive it.

use super::program::{StartError, find_program};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A program with its arguments and environment, as execve takes them.
pub(super) struct Image {
    file: CString,
    arguments: Vec<CString>,
    variables: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// The same as arguments of a shell.
    script: Vec<*const libc::c_char>,
}

impl Image {
    pub(super) fn new(
        command: &[OsString],
        environment: &[(OsString, OsString)],
    ) -> Result<Image, StartError> {
        let file = find_program(&command[0])?;
        let text = |s: &OsStr| {
            CString::new(s.as_bytes()).map_err(|_| io::Error::other("an argument has a NUL byte"))
        };
        let file = text(file.as_os_str())?;
        let arguments = command.iter().map(|a| text(a)).collect::<Result<Vec<_>, _>>()?;
        let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        variables.retain(|(name, _)| !environment.iter().any(|(new, _)| new == name));
        variables.extend(environment.iter().cloned());
        let variables = variables
            .iter()
            .map(|(name, value)| {
                let mut line = name.clone();
                line.push("=");
                line.push(value);
                text(&line)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let pointers =
            |list: &[CString]| list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
        let (argv, envp) = (pointers(&arguments), pointers(&variables));
        let script = [SHELL.as_ptr(), file.as_ptr()].into_iter().chain(argv[1..].iter().copied()).collect();
        Ok(Image { file, arguments, variables, argv, envp, script })
    }

    /// Replaces this process; gives the error number if that fails. Async-signal-safe.
    pub(super) fn exec(&self) -> i32 {
        debug_assert!(self.argv.len() > self.arguments.len() && self.envp.len() > self.variables.len());
        // SAFETY: NUL-terminated strings that `self` holds, in lists that end with a null pointer.
        unsafe {
            libc::execve(self.file.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
            let error = *libc::__errno_location();
            if error == libc::ENOEXEC {
                // A script without #!: what shells and execvp do.
                libc::execve(SHELL.as_ptr(), self.script.as_ptr(), self.envp.as_ptr());
                return libc::ENOEXEC;
            }
            error
        }
    }
}

const SHELL: &std::ffi::CStr = c"/bin/sh";

/// What setitimer(2) knows: real, virtual and profiling time.
#[repr(C)]
pub(super) struct Timers([libc::itimerval; 3]);

impl Default for Timers {
    fn default() -> Timers {
        // SAFETY: zeros are a timer that does not run.
        unsafe { std::mem::zeroed() }
    }
}

impl Timers {
    /// Ours, which are then off.
    pub(super) fn take() -> Timers {
        let (off, mut timers) = (Timers::default(), Timers::default());
        for (kind, timer) in timers.0.iter_mut().enumerate() {
            // SAFETY: reads one timer of ours and fills another.
            unsafe { libc::setitimer(kind as _, &off.0[kind], timer) };
        }
        timers
    }

    /// Makes them this process's. Async-signal-safe.
    pub(super) fn set(&self) {
        for (kind, timer) in self.0.iter().enumerate() {
            if timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0 {
                // SAFETY: reads one timer.
                unsafe { libc::setitimer(kind as _, timer, std::ptr::null_mut()) };
            }
        }
    }
}
