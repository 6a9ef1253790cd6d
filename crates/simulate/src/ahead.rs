//! The prefetcher: finds streams among the lines that miss the first level.
//!
//! After the streamer of Intel's cores (optimization reference manual, "Data
//! prefetch to L2"): one stream per 4 KiB page of physical memory, up or down,
//! never across the page's end, two lines at a time, at most 20 lines ahead. It
//! follows any constant stride of lines and starts when a stride repeats, so the
//! first three lines of a page are demanded and the rest prefetched. Two
//! interleaved streams in one page hide each other.

/// Pages watched at a time; more would not change streams of real loops.
const PAGES: usize = 64;
/// Lines of a page.
const LINES: i16 = 64;
/// Farthest line ahead.
const DISTANCE: i16 = 20;
/// Lines asked for at a time.
const DEGREE: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    /// Offsets in the page, in lines.
    last: i16,
    ahead: i16,
    stride: i16,
    repeats: u8,
}

/// What a miss means for its page's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trained {
    /// It continues a stream.
    pub on_stream: bool,
    lines: [u64; DEGREE],
    len: usize,
}

impl Trained {
    /// Lines to prefetch.
    pub fn lines(&self) -> &[u64] {
        &self.lines[..self.len]
    }
}

#[derive(Debug)]
pub(super) struct Streams(Box<[Stream; PAGES]>);

impl Streams {
    pub fn new() -> Streams {
        Streams(Box::new([Stream { page: u64::MAX, last: 0, ahead: 0, stride: 0, repeats: 0 }; PAGES]))
    }

    /// A line missed the first level.
    #[inline]
    pub fn train(&mut self, line: u64) -> Trained {
        let mut trained = Trained::default();
        let page = line >> 6;
        let offset = (line & 63) as i16;
        let stream = &mut self.0[(page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize];
        if stream.page != page {
            *stream = Stream { page, last: offset, ahead: offset, stride: 0, repeats: 0 };
            return trained;
        }
        let stride = offset - stream.last;
        if stride == 0 {
            return trained;
        }
        stream.last = offset;
        if stride != stream.stride {
            (stream.stride, stream.repeats, stream.ahead) = (stride, 0, offset);
            return trained;
        }
        stream.repeats = stream.repeats.saturating_add(1);
        trained.on_stream = true;
        // Behind the program itself there is nothing to fetch.
        if (stream.ahead - offset) * stride.signum() < 0 {
            stream.ahead = offset;
        }
        while trained.len < DEGREE {
            let next = stream.ahead + stride;
            if !(0..LINES).contains(&next) || (next - offset).abs() > DISTANCE.max(stride.abs()) {
                break;
            }
            stream.ahead = next;
            trained.lines[trained.len] = page << 6 | next as u64;
            trained.len += 1;
        }
        trained
    }
}
