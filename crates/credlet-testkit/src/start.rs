//! Where a test binary turns out to be something else: a constructor that runs before `main`.
//!
//! A separate plugin program would have to be built before the tests and found by them, which cargo does for the
//! package of the program only. A test binary, however, always knows where it is itself. So it is started again, and
//! this constructor sees from the environment (or from the path it was started by) that it is to play another part,
//! plays it, and ends the process before the test harness begins.
//!
//! The constructor is in every binary that uses this crate: the compiler keeps `#[used]` statics of a library for the
//! final link even if nothing refers to them. `tests/reexec.rs` proves it from outside.

use crate::{plugin, pty};

extern "C" fn start() {
    // A terminal first: what it starts may be the test binary once more, as a plugin.
    pty::enter_if_asked();
    plugin::perform_if_asked();
}

#[expect(unsafe_code, reason = "there is no safe way to run before main; the one line is all of it")]
mod constructor {
    // SAFETY: the section holds pointers to functions that the loader calls once, before `main` and before there is
    // another thread. std fills in its arguments earlier, from the same section with a higher priority.
    #[used]
    #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
    static START: extern "C" fn() = super::start;
}
