//! One placement of one page.

use nearfar_recording::NONE;

/// How a page came to be where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// A store to a page that was not there.
    Write,
    /// A load: of a file or shared page, or of the zero page (then it took no page by itself).
    Read,
    /// A store to a page shared since a fork.
    CopyOnWrite,
    /// A store after the page had been given back.
    Refault,
    /// A call placed it with others, before anybody used it: MAP_POPULATE, mlock.
    Populate,
    /// It moved here with mremap or realloc.
    Moved,
    /// Not a placement: the page was given back.
    Gone,
}

impl How {
    /// Its name in reports.
    pub fn text(self) -> &'static str {
        match self {
            How::Write => "write",
            How::Read => "read",
            How::CopyOnWrite => "copy-on-write",
            How::Refault => "refault",
            How::Populate => "populate",
            How::Moved => "moved",
            How::Gone => "gone",
        }
    }
}

/// One placement of one page.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// When, ns.
    pub time: u64,
    /// Faulting thread (position in the threads table; [`NONE`] if unknown).
    pub thread: u32,
    /// Row of the fault; [`NONE`] for [`How::Gone`] and [`How::Populate`].
    pub fault: u32,
    /// The placement of this page before this one; [`NONE`] if none.
    pub older: u32,
    /// One further back, itself if there is none, so that any is found in few steps: a page of a buffer
    /// that is mapped and unmapped in a loop has a hundred thousand. (Myers 1983, "An applicative
    /// random-access stack": its jumps are those of skew-binary numbers.)
    pub(super) jump: u32,
    /// How many there are before this one.
    pub(super) depth: u32,
    /// The first of this and those before it that placed a page of the program's own; [`NONE`] if none did.
    pub(super) first: u32,
    /// How.
    pub how: How,
    /// A load that took no page of its own: the zero page (unless the page is seen present)
    /// or the page cache's.
    pub zero: bool,
    /// Of these, the page cache's: placed by the process that read the file first.
    pub cache: bool,
}

impl Touch {
    pub(super) fn new(time: u64, how: How) -> Touch {
        let none = NONE;
        let (zero, cache) = (false, false);
        let (older, jump, first) = (none, none, none);
        Touch { time, thread: none, fault: none, older, jump, depth: 0, first, how, zero, cache }
    }

    /// Whether it took a page of the program's own.
    pub(super) fn took_page(&self) -> bool {
        self.how != How::Gone && !self.zero
    }
}
