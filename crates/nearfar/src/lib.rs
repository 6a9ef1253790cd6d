//! The `nearfar` command: its flags, what each command does, the live screen, and runs under placements and launchers.
//! Observing is `nearfar-record`, the host `nearfar-host`, the virtual machine `nearfar-guest`; the pure half is in
//! crates of its own, from `nearfar-figures` to `nearfar-report`.

pub mod cli;
pub mod layout;
pub mod live;
pub mod place;
