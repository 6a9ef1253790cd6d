//! Non-temporal stores.

use crate::world::{LINE, World, usual};
use nearfar_simulate::Kind::StreamStore;

#[test]
fn a_full_line_is_one_line_however_it_is_written() {
    for bytes in [4, 8, 16, 32, 64] {
        let mut world = World::new(&usual("1x4"));
        for at in (0..100 * LINE).step_by(usize::from(bytes)) {
            world.touch(0, at, bytes, StreamStore);
        }
        assert_eq!((world.moved.streamed, world.moved.read()), (100, 0), "{bytes} bytes at a time");
    }
}

#[test]
fn a_partial_line_leaves_when_its_buffer_is_needed() {
    let mut world = World::new(&usual("1x4"));
    // Ten buffers; halves of twelve lines.
    for line in 0..12 {
        world.touch(0, line * LINE, 32, StreamStore);
    }
    assert_eq!(world.moved.addresses, [0, LINE], "the oldest two");
    // The other half of one of those is another transfer, of a third a full line.
    world.touch(0, 32, 32, StreamStore);
    world.touch(0, 5 * LINE + 32, 32, StreamStore);
    assert_eq!(world.moved.streamed, 4);
    world.cores[0].flush_streams(&world.hierarchy, &mut world.moved);
    assert_eq!(world.moved.streamed, 13);
}

#[test]
fn a_load_of_a_line_sends_its_buffer_first() {
    let mut world = World::new(&usual("1x4"));
    world.touch(0, 0, 8, StreamStore);
    world.load(0, 32);
    assert_eq!((world.moved.streamed, world.moved.demand), (1, 1));
}

#[test]
fn no_cache_keeps_a_streamed_line() {
    let mut world = World::new(&usual("2x4"));
    world.load(0, 0);
    world.store(4, LINE);
    for line in [0, LINE] {
        world.touch(0, line, 64, StreamStore);
    }
    // The other core's data were in the way, and its line is gone.
    assert_eq!((world.moved.written, world.moved.streamed), (1, 2));
    world.load(0, 0);
    world.load(4, LINE);
    assert_eq!(world.cores[0].counts().dram_lines, 2);
    assert_eq!(world.cores[4].counts().dram_lines, 2);
    world.write_back();
    assert_eq!(world.moved.written, 1);
}
