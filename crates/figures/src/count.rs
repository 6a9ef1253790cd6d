//! Whole numbers of things.

/// `9,100`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn thousands_are_parted() {
        let of = [0, 7, 999, 1_000, 12_345, 100_000, 1_234_567].map(count);
        assert_eq!(of, ["0", "7", "999", "1,000", "12,345", "100,000", "1,234,567"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }
}
