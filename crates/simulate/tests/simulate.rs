//! The cache hierarchy against arithmetic, a naive model, and the rules of sharing.

#[path = "simulate/arithmetic.rs"]
mod arithmetic;
#[path = "simulate/clock.rs"]
mod clock;
#[path = "simulate/layout.rs"]
mod layout;
#[path = "simulate/naive.rs"]
mod naive;
#[path = "simulate/page_nodes.rs"]
mod page_nodes;
#[path = "simulate/prefetch.rs"]
mod prefetch;
#[path = "simulate/sharing.rs"]
mod sharing;
#[path = "simulate/streaming.rs"]
mod streaming;
#[path = "simulate/test_machine.rs"]
mod test_machine;
#[path = "simulate/threads.rs"]
mod threads;
#[path = "simulate/tlb.rs"]
mod tlb;
