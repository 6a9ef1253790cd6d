//! Non-temporal stores.

use crate::test_machine::{LINE, TestMachine, usual};
use nearfar_simulate::Kind::StreamStore;

#[test]
fn a_full_line_is_one_line_however_it_is_written() {
    for bytes in [4, 8, 16, 32, 64] {
        let mut rig = TestMachine::new(&usual("1x4"));
        for at in (0..100 * LINE).step_by(usize::from(bytes)) {
            rig.touch(0, at, bytes, StreamStore);
        }
        assert_eq!((rig.moved.streamed, rig.moved.read()), (100, 0), "{bytes} bytes at a time");
    }
}

#[test]
fn a_partial_line_leaves_when_its_buffer_is_needed() {
    let mut rig = TestMachine::new(&usual("1x4"));
    // Ten buffers; halves of twelve lines.
    for line in 0..12 {
        rig.touch(0, line * LINE, 32, StreamStore);
    }
    assert_eq!(rig.moved.addresses, [0, LINE], "the oldest two");
    // The other half of one of those is another transfer, of a third a full line.
    rig.touch(0, 32, 32, StreamStore);
    rig.touch(0, 5 * LINE + 32, 32, StreamStore);
    assert_eq!(rig.moved.streamed, 4);
    rig.cores[0].flush_streams(&rig.hierarchy, &mut rig.moved);
    assert_eq!(rig.moved.streamed, 13);
}

#[test]
fn a_load_of_a_line_sends_its_buffer_first() {
    let mut rig = TestMachine::new(&usual("1x4"));
    rig.touch(0, 0, 8, StreamStore);
    rig.load(0, 32);
    assert_eq!((rig.moved.streamed, rig.moved.demand), (1, 1));
}

#[test]
fn no_cache_keeps_a_streamed_line() {
    let mut rig = TestMachine::new(&usual("2x4"));
    rig.load(0, 0);
    rig.store(4, LINE);
    for line in [0, LINE] {
        rig.touch(0, line, 64, StreamStore);
    }
    // The other core's data were in the way, and its line is gone.
    assert_eq!((rig.moved.written, rig.moved.streamed), (1, 2));
    rig.load(0, 0);
    rig.load(4, LINE);
    assert_eq!(rig.cores[0].counts().dram_lines, 2);
    assert_eq!(rig.cores[4].counts().dram_lines, 2);
    rig.write_back();
    assert_eq!(rig.moved.written, 1);
}
