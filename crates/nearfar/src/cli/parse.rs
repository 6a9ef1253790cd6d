//! Values of flags: each number has limits.

pub(super) fn parse_hz(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hz) if (1.0..=10_000.0).contains(&hz) => Ok(hz),
        _ => Err("give a rate between 1 and 10000 samples per second".into()),
    }
}

pub(super) fn parse_huge_pages(text: &str) -> Result<nearfar_guest::HugePages, String> {
    use nearfar_guest::HugePages::{Always, Madvise, Never};
    [Always, Madvise, Never]
        .into_iter()
        .find(|choice| choice.text() == text)
        .ok_or_else(|| format!("`{text}` is not a choice: give always, madvise or never"))
}

pub(super) fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let error = || format!("`{text}` is not time: give a number with s, m or h");
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let factor = match unit {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(error()),
    };
    let seconds = number.parse::<f64>().map_err(|_| error())? * factor;
    if (1.0..=1e6).contains(&seconds) {
        Ok(std::time::Duration::from_secs_f64(seconds))
    } else {
        Err("give between 1 and 1000000 seconds".into())
    }
}

/// Numbers that a process can have: Linux's PID_MAX_LIMIT on 64 bits.
pub(super) fn parse_pid() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 22)
}

/// Up to eleven days: more than any run, and no time that is calculated from it overflows.
pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.1..=1e6).contains(&s) => Ok(s),
        _ => Err("give between 0.1 and 1000000 seconds".into()),
    }
}

/// `65536`, `64K`, `64KiB`, `1M`, `2G`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let error = || format!("`{text}` is not a size: give bytes, or a number with K, M or G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1u64,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return Err(error()),
    };
    let number: u64 = digits.parse().map_err(|_| error())?;
    let bytes = number.checked_mul(factor).ok_or_else(error)?;
    if !(64..=nearfar_record::collect::options::MOST_BYTES).contains(&bytes) {
        return Err("give at least 64 bytes and at most a million GiB".into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(parse_bytes("64K"), Ok(65536));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("100"), Ok(100));
        assert_eq!(parse_bytes("1048576G"), Ok(nearfar_record::collect::options::MOST_BYTES));
        assert!(parse_bytes("12Q").is_err() && parse_bytes("K").is_err() && parse_bytes("0").is_err());
    }
}
