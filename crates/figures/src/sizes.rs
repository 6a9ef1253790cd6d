//! Sizes of memory as text, by one rule. Units are binary, because that is how programs size arrays.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// `1.5 GiB`, `256 MiB`: a size that was measured, with three digits at most.
pub fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `32 MiB`, `1.5 GiB`, `1500 MiB`: a limit or a capacity, for sentences that compare it with another size. Below ten of a unit, what
/// needs more than one decimal is written in the next smaller unit.
pub fn capacity(bytes: u64) -> String {
    let mut unit = (bytes.max(1).ilog2() / 10).min(UNITS.len() as u32 - 1);
    let in_unit = |unit: u32| bytes as f64 / f64::from(10 * unit).exp2();
    if in_unit(unit) < 10.0 && (in_unit(unit) * 10.0).fract() != 0.0 {
        unit -= 1;
    }
    let rounded = (in_unit(unit) * 10.0).round() / 10.0;
    let digits = usize::from(rounded < 1000.0 && rounded.fract() != 0.0);
    format!("{rounded:.digits$} {}", UNITS[unit as usize])
}

/// The unit for a table of what was moved whose largest number is `most`, and its bytes: decimal, as GB/s are.
pub fn moved(most: u64) -> (&'static str, f64) {
    match most {
        0..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_sizes_have_three_digits_at_most() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (102_348, "99.9 KiB"),
            (64 << 20, "64.0 MiB"),
            (256 << 20, "256 MiB"),
            ((1 << 30) - 1, "1.0 GiB"),
            (3 << 49, "1536 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn chosen_sizes_have_no_digits_that_they_do_not_need() {
        for (bytes, text) in [
            (0, "0 B"),
            (32 << 20, "32 MiB"),
            (3 << 29, "1.5 GiB"),
            (1500 << 20, "1500 MiB"),
            ((1500 << 20) + 4096, "1500 MiB"),
            (1023 << 20, "1023 MiB"),
            (100_000 << 20, "97.7 GiB"),
            (1025, "1025 B"),
            (5 << 50, "5120 TiB"),
        ] {
            assert_eq!(capacity(bytes), text);
        }
    }
}
