//! How many to draw.

use thiserror::Error;

/// Why there is no sample size.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("a sample size needs 0 < p < 1 and 0 < q < 1, not p = {p}, q = {q}")]
pub struct SampleSizeError {
    pub p: f64,
    pub q: f64,
}

/// Units to draw so that the best of them is among the top `1 − q` with a
/// chance of at least `1 − p`. Qualities by rank are uniform, so that the best
/// of R has the distribution `x^R` and `R = ⌈ln p / ln q⌉` (Tarcil,
/// section 7.3.3).
///
/// # Errors
///
/// When `p` or `q` is not strictly between 0 and 1.
pub fn sample_size(p: f64, q: f64) -> Result<usize, SampleSizeError> {
    let open = |x: f64| x > 0.0 && x < 1.0;
    if !open(p) || !open(q) {
        return Err(SampleSizeError { p, q });
    }
    // 10^-9: ln(0.01)/ln(0.01^(1/8)) is 8, not 9.
    Ok((p.ln() / q.ln() - 1e-9).ceil().max(1.0) as usize)
}

/// The quality to ask for when only `free` of the units wanted, out of `units`
/// in all, are free: `q' = 1 − free/units` (Tarcil, section 7.3.3, "Sampling at
/// high load").
pub fn quality_under_load(free: f64, units: f64) -> f64 {
    1.0 - free / units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_paper() {
        // The paper's "10^-6" for 64 draws.
        let p = 0.8f64.powi(64);
        assert!((6e-7..7e-7).contains(&p));
        assert_eq!(sample_size(p, 0.8), Ok(64));
        // It says 32 and 82; its formula says:
        assert_eq!(sample_size(1e-3, 0.8), Ok(31));
        let q = quality_under_load(8.0, 100.0);
        assert!((q - 0.92).abs() < 1e-15);
        assert_eq!(sample_size(1e-3, q), Ok(83));
    }

    #[test]
    fn exact_powers_are_not_rounded_up() {
        for r in 1..40 {
            assert_eq!(sample_size(0.7f64.powi(r), 0.7), Ok(r as usize));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (p, q) in [
            (0.0, 0.5),
            (1.0, 0.5),
            (0.5, 1.0),
            (0.5, 0.0),
            (f64::NAN, 0.5),
        ] {
            assert!(sample_size(p, q).is_err());
        }
    }
}
