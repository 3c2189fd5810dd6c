//! Numbers as people read them.

/// Three digits, in the unit that fits.
pub fn time(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = match number {
        n if n < 10.0 => 2,
        n if n < 100.0 => 1,
        _ => 0,
    };
    format!("{number:.decimals$} {unit}")
}

/// Octets in the unit that fits.
pub fn bytes(octets: u64) -> String {
    match octets as f64 {
        n if n < 1e6 => format!("{:.0} kB", n / 1e3),
        n if n < 1e9 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.2} GB", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanoseconds, text) in [
            (950.0, "0.95 us"),
            (48_123.0, "48.1 us"),
            (1_234_567.0, "1.23 ms"),
            (345_600_000.0, "346 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(time(nanoseconds), text);
        }
    }
}
