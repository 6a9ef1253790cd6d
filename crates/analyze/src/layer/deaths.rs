//! When the spans of a list ended.

use super::steps::step;

/// Deaths in a list, and the latest of each so many of them, and of each so many of these: to find the last
/// in a range that is alive without asking all.
#[derive(Debug)]
pub(super) struct Deaths {
    levels: Vec<Vec<u64>>,
}

/// How many of a level make one of the next. // chosen
const FAN: usize = 16;

impl Deaths {
    pub(super) fn new(died: Vec<u64>) -> Deaths {
        let mut levels = vec![died];
        while let Some(last) = levels.last().filter(|l| l.len() > FAN) {
            levels.push(last.chunks(FAN).map(|c| c.iter().copied().max().unwrap_or(0)).collect());
        }
        Deaths { levels }
    }

    /// The last place of a range where one is alive at `time`, and the latest death behind it.
    pub(super) fn last_alive(&self, first: usize, end: usize, time: u64) -> (Option<usize>, u64) {
        let (mut at, mut latest) = (end, 0);
        while at > first {
            step();
            // The longest block that ends here, lies inside and is dead as a whole.
            let (mut level, mut length) = (0, 1);
            while let Some(above) = self.levels.get(level + 1)
                && at.is_multiple_of(length * FAN)
                && at - first >= length * FAN
                && above[at / (length * FAN) - 1] <= time
            {
                (level, length) = (level + 1, length * FAN);
            }
            let died = self.levels[level][at / length - 1];
            if time < died {
                return (Some(at - 1), latest);
            }
            latest = latest.max(died);
            at -= length;
        }
        (None, latest)
    }
}
