//! What lookups go through, counted in tests: that it does not grow with the spans holds on any machine at any speed.

#[cfg(test)]
thread_local! {
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A list or an entry of one was looked at.
#[inline]
pub(super) fn step() {
    #[cfg(test)]
    TAKEN.with(|taken| taken.set(taken.get() + 1));
}

/// How many steps something takes.
#[cfg(test)]
pub(super) fn taken(by: impl FnOnce()) -> u64 {
    let before = TAKEN.with(std::cell::Cell::get);
    by();
    TAKEN.with(std::cell::Cell::get) - before
}
