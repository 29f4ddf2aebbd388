//! How many to draw.

/// The quality to ask for when only `free` of the units wanted, out of `units`
/// in all, are free: `q' = 1 − free/units` (Tarcil, section 7.3.3, "Sampling at
/// high load").
pub fn quality_under_load(free: f64, units: f64) -> f64 {
    1.0 - free / units
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::paragon_sampled::sample_size;

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
            assert_eq!(sample_size(0.7f64.powi(r), 0.7), Ok(r as u32));
        }
    }
}
