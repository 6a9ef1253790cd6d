//! The virtual machine: programs of this host in a guest with other nodes.

#[path = "guest/machine.rs"]
mod machine;
#[path = "guest/memory.rs"]
mod memory;
#[path = "guest/passing.rs"]
mod passing;
#[path = "guest/shapes.rs"]
mod shapes;
#[path = "guest/trouble.rs"]
mod trouble;
