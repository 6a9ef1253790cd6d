//! The cache hierarchy against arithmetic, a naive model, and the rules of sharing.

#[path = "simulate/arithmetic.rs"]
mod arithmetic;
#[path = "simulate/clock.rs"]
mod clock;
#[path = "simulate/homes.rs"]
mod homes;
#[path = "simulate/layout.rs"]
mod layout;
#[path = "simulate/naive.rs"]
mod naive;
#[path = "simulate/prefetch.rs"]
mod prefetch;
#[path = "simulate/sharing.rs"]
mod sharing;
#[path = "simulate/streaming.rs"]
mod streaming;
#[path = "simulate/threads.rs"]
mod threads;
#[path = "simulate/tlb.rs"]
mod tlb;
#[path = "simulate/world.rs"]
mod world;
