//! Another user whom a program runs as (`--user`): looked up before the fork, become after it.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: libc::uid_t,
    /// Id of the group of new files.
    pub gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
    home: OsString,
    shell: OsString,
}

/// Most bytes of an entry of the user database, and most groups of a user that the kernel takes.
const ENTRY_BYTES: usize = 1 << 16;
const GROUPS: usize = 65536;

impl User {
    /// The user of this name, or of this number.
    ///
    /// # Errors
    /// In words, if there is none.
    pub fn find(name: &str) -> Result<User, String> {
        let text = CString::new(name).map_err(|_| format!("user `{name}` does not exist"))?;
        // SAFETY: zeros are a valid entry; all pointers live across the calls, and the entry's strings
        // are in `buffer`, which outlives their use.
        unsafe {
            let mut entry: libc::passwd = std::mem::zeroed();
            let mut found: *mut libc::passwd = std::ptr::null_mut();
            let mut buffer = vec![0 as libc::c_char; ENTRY_BYTES];
            let (room, bytes) = (buffer.as_mut_ptr(), buffer.len());
            let mut error = libc::getpwnam_r(text.as_ptr(), &mut entry, room, bytes, &mut found);
            if found.is_null()
                && let Ok(uid) = name.parse()
            {
                error = libc::getpwuid_r(uid, &mut entry, room, bytes, &mut found);
            }
            if found.is_null() {
                let why = match error {
                    0 => String::new(),
                    error => format!(": {}", io::Error::from_raw_os_error(error)),
                };
                return Err(format!("user `{name}` does not exist on this machine{why}"));
            }
            let words = |text: *const libc::c_char| {
                let bytes = if text.is_null() { &[] } else { CStr::from_ptr(text).to_bytes() };
                OsString::from_vec(bytes.to_vec())
            };
            let mut count = GROUPS as libc::c_int;
            let mut groups = vec![0; GROUPS];
            libc::getgrouplist(entry.pw_name, entry.pw_gid, groups.as_mut_ptr(), &mut count);
            groups.truncate(count.max(0) as usize);
            Ok(User {
                name: words(entry.pw_name).to_string_lossy().into_owned(),
                uid: entry.pw_uid,
                gid: entry.pw_gid,
                groups,
                home: words(entry.pw_dir),
                shell: words(entry.pw_shell),
            })
        }
    }

    /// The user of `--user`, which only root can ask for.
    ///
    /// # Errors
    /// In words.
    pub fn asked_for(name: &str) -> anyhow::Result<User> {
        // SAFETY: no preconditions.
        let me = unsafe { libc::geteuid() };
        anyhow::ensure!(
            me == 0,
            "only root can run a program as another user: sudo nearfar … --user {name} …"
        );
        User::find(name).map_err(|why| anyhow::anyhow!("--user: {why}"))
    }

    /// The user who called us through sudo, if we are root by it and the program should be so, too.
    pub fn behind_sudo() -> Option<User> {
        let uid = std::env::var("SUDO_UID").ok()?;
        // SAFETY: no preconditions.
        let root = unsafe { libc::geteuid() } == 0;
        User::find(&uid).ok().filter(|user| root && user.uid != 0)
    }

    /// What `sudo -u` sets in the environment.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let name = || OsString::from(&self.name);
        let all = [
            ("HOME", self.home.clone()),
            ("SHELL", self.shell.clone()),
            ("USER", name()),
            ("LOGNAME", name()),
        ];
        all.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    /// Makes this process that user's, for good. Async-signal-safe; needs root.
    ///
    /// # Errors
    /// The error number, if the kernel refuses.
    pub(crate) fn become_it(&self) -> Result<(), i32> {
        // The system calls and not the C library's functions: these would ask other threads to follow,
        // which a child of a fork does not have.
        // SAFETY: reads as many groups as are said; the rest are numbers.
        unsafe {
            let done = libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) == 0
                && libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid) == 0
                && libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid) == 0;
            if done { Ok(()) } else { Err(*libc::__errno_location()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = User::find("root").unwrap();
        assert_eq!((root.uid, root.gid, &root), (0, 0, &User::find("0").unwrap()));
        assert!(root.environment().contains(&("USER".into(), "root".into())));
        assert!(User::find("no such user").unwrap_err().contains("`no such user`"));
    }
}
