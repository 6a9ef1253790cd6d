//! Machines: their values, their files, machines scaled down, and where ranks and threads go on them.

mod file;
mod layout;
mod scale;
mod values;
