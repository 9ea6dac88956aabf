//! What is left to do when a client exits without having closed its handles: the device's settings.

use std::panic::catch_unwind;

/// Runs at exit(3), and when the library is unloaded.
#[used]
#[unsafe(link_section = ".fini_array")]
static LEAVE: extern "C" fn() = {
    extern "C" fn leave() {
        // Nobody is left to be told.
        let _ = catch_unwind(ringtap::settings::restore_at_exit);
    }
    leave
};
