//! The pages of an instance whose users are followed.

use crate::hash::FastMap;

/// Pages per row that are followed one by one, to see threads taking turns within a bin.
const FOLLOWED_PAGES: usize = 1024;

/// Samples on some pages, the same pages for every worker: those whose hash is
/// smallest (consistent sampling; Broder 1997, "On the resemblance and containment
/// of documents"). When too many are followed, the limit is halved.
#[derive(Clone, Debug)]
pub struct Followed {
    limit: u64,
    pages: FastMap<u64, Vec<(u32, u32)>>,
}

impl Default for Followed {
    fn default() -> Self {
        Followed { limit: u64::MAX, pages: FastMap::default() }
    }
}

impl Followed {
    fn rank(page: u64) -> u64 {
        // splitmix64 finaliser (Steele, Lea, Flood 2014): neighbouring pages get unrelated ranks.
        let mut z = page.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Counts a sample.
    #[inline]
    pub fn add(&mut self, page: u64, thread: u32, samples: u32) {
        if Followed::rank(page) > self.limit {
            return;
        }
        let threads = self.pages.entry(page).or_default();
        // In order: ten thousand threads may meet on a page.
        match threads.binary_search_by_key(&thread, |t| t.0) {
            Ok(place) => threads[place].1 += samples,
            Err(place) => threads.insert(place, (thread, samples)),
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.pages.len() > FOLLOWED_PAGES {
            self.limit /= 2;
            let limit = self.limit;
            self.pages.retain(|&p, _| Followed::rank(p) <= limit);
        }
    }

    pub(super) fn merge(&mut self, other: Followed) {
        self.limit = self.limit.min(other.limit);
        let limit = self.limit;
        self.pages.retain(|&p, _| Followed::rank(p) <= limit);
        for (page, threads) in other.pages {
            for (thread, samples) in threads {
                self.add(page, thread, samples);
            }
        }
    }

    /// Per page, samples by thread.
    pub fn pages(&self) -> impl Iterator<Item = &[(u32, u32)]> {
        self.pages.values().map(Vec::as_slice)
    }
}
