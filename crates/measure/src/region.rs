//! Marks what is measured as the region of interest, as a program does with nearfar.h: a recorder of this
//! program, as in the tests inside virtual machines, then counts it alone, without the placing of pages.

use std::ffi::CStr;

/// Until it is dropped.
pub struct Region;

impl Region {
    /// From here on.
    pub fn begin() -> Region {
        agent(c"nearfar_agent_begin");
        Region
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        agent(c"nearfar_agent_end");
    }
}

/// Calls a function of the agent, if one is preloaded.
fn agent(name: &CStr) {
    // SAFETY: looks a name up among the libraries that are loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if !found.is_null() {
        // SAFETY: only the agent defines these names, as functions without arguments (include/nearfar.h).
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(found)() };
    }
}
