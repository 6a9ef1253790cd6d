//! Symbols of programs compiled here, compared with what binutils and gdb's format
//! tools say of the same files. A missing compiler skips its tests, openly.

mod compiled;
mod files;
mod frames;
mod stacks;
mod variables;
