//! Which of the lines that a core moves become samples.
//!
//! Systematic with jitter: every gap is drawn evenly from half to one and a half of the mean, so that no
//! loop's period can hide from it, and each sample stands for exactly the lines of its gap. The draws
//! are a fixed sequence per core: the same run gives the same samples.

/// Decides for one core.
#[derive(Clone, Debug)]
pub struct Sampler {
    state: u64,
    mean: u32,
    gap: u32,
    left: u32,
    /// So many of the next are chosen one by one.
    first: u32,
}

impl Sampler {
    /// A sampler for core `core` that takes one line in `mean`.
    pub fn new(core: u64, mean: u32) -> Sampler {
        // Any odd constant separates the cores; this one is 2^64 by the golden ratio.
        let mut sampler = Sampler {
            state: (core + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            mean: mean.max(1),
            gap: 0,
            left: 0,
            first: 0,
        };
        sampler.draw();
        sampler
    }

    /// The same, but chooses every one of the first so many.
    pub fn after_first(mut self, first: u32) -> Sampler {
        self.first = first;
        self.draw();
        self
    }

    /// One more line: the number of lines that it stands for, if it is chosen.
    #[inline]
    pub fn line(&mut self) -> Option<u32> {
        self.left -= 1;
        (self.left == 0).then(|| {
            let stands_for = self.gap;
            self.draw();
            stands_for
        })
    }

    /// Passes as many as are left over, up to the next that is chosen: what that stands for. `None` once nothing is left.
    pub fn after(&mut self, passed: &mut u64) -> Option<u32> {
        if *passed < u64::from(self.left) {
            self.left -= *passed as u32;
            *passed = 0;
            return None;
        }
        *passed -= u64::from(self.left);
        let stands_for = self.gap;
        self.draw();
        Some(stands_for)
    }

    /// The next gap. Constants: Knuth's MMIX generator (TAOCP vol. 2, 3.3.4); its high bits are the good ones.
    fn draw(&mut self) {
        if let Some(left) = self.first.checked_sub(1) {
            (self.first, self.gap, self.left) = (left, 1, 1);
            return;
        }
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // From mean − mean/2 to mean + mean/2, both included: the mean is exact.
        let half = u64::from(self.mean / 2);
        let drawn = ((self.state >> 32) * (2 * half + 1)) >> 32;
        self.gap = (u64::from(self.mean) - half + drawn).min(u64::from(u32::MAX)) as u32;
        self.left = self.gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines chosen among the first `lines`, with what they stand for.
    fn chosen(core: u64, mean: u32, lines: u32) -> Vec<(u32, u32)> {
        let mut sampler = Sampler::new(core, mean);
        (1..=lines).filter_map(|line| Some((line, sampler.line()?))).collect()
    }

    #[test]
    fn samples_stand_for_all_lines_up_to_the_last_sample() {
        for mean in [1, 2, 3, 64, 1000] {
            let samples = chosen(0, mean, 100_000);
            let total: u32 = samples.iter().map(|s| s.1).sum();
            assert_eq!(total, samples.last().unwrap().0, "mean {mean}");
            assert!(samples.iter().all(|s| s.1 >= mean - mean / 2 && s.1 <= mean + mean / 2), "mean {mean}");
        }
    }

    #[test]
    fn the_first_lines_are_all_chosen_where_that_is_asked_for() {
        let mut sampler = Sampler::new(1, 16).after_first(100);
        let chosen: Vec<(u32, u32)> = (1..=5000).filter_map(|line| Some((line, sampler.line()?))).collect();
        assert!(chosen[..100].iter().enumerate().all(|(i, c)| *c == (i as u32 + 1, 1)));
        let total: u32 = chosen.iter().map(|s| s.1).sum();
        assert_eq!(total, chosen.last().unwrap().0);
        assert!((350..=450).contains(&chosen.len()), "{}", chosen.len());
    }

    #[test]
    fn many_at_once_are_sampled_as_one_by_one() {
        let (mut sampler, mut found, mut before) = (Sampler::new(0, 64), Vec::new(), 0);
        for step in [1, 500, 3, 31, 0, 77, 100_000 - 612] {
            let mut passed = step;
            while let Some(stands_for) = sampler.after(&mut passed) {
                found.push((before + (step - passed) as u32, stands_for));
            }
            before += step as u32;
        }
        assert_eq!(found, chosen(0, 64, 100_000));
    }

    #[test]
    fn the_mean_gap_is_the_one_asked_for() {
        let samples = chosen(3, 100, 10_000_000).len() as f64;
        // 100,000 gaps of standard deviation 29: the mean's is 0.09.
        assert!((samples - 100_000.0).abs() < 400.0, "{samples}");
    }

    #[test]
    fn a_period_in_the_program_is_sampled_evenly() {
        let mut hits = [0u32; 8];
        for (line, _) in chosen(0, 64, 8_000_000) {
            hits[(line % 8) as usize] += 1;
        }
        // 125,000 samples over eight places: 15,625 each, standard deviation below 120.
        assert!(hits.iter().all(|&h| (15_000..16_250).contains(&h)), "{hits:?}");
    }

    #[test]
    fn cores_differ_and_runs_do_not() {
        assert_eq!(chosen(1, 50, 1000), chosen(1, 50, 1000));
        assert_ne!(chosen(1, 50, 1000), chosen(2, 50, 1000));
    }
}
