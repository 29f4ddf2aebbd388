//! What may be chosen.

/// How sure a prediction has to be to count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Confidence {
    /// A probability, 0.5–1.
    Above(f64),
    /// Per model, the middle of the range with the best accuracy on windows
    /// that the model was not trained on (Wrangler, chapter 3).
    Tuned,
}

/// How Wrangler is trained, and when it vetoes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WranglerOptions {
    pub confidence: Confidence,
    /// Vetoes of one job; after so many it takes what it gets. The paper only
    /// suggests such a cap.
    pub vetoes: u32,
    /// A node (or platform) with fewer windows shares the model of all.
    pub own_windows: usize,
    /// For the order in which windows are visited.
    pub seed: u64,
}

impl Default for WranglerOptions {
    fn default() -> Self {
        WranglerOptions {
            confidence: Confidence::Above(0.7),
            vetoes: 3,
            own_windows: 300,
            seed: 0,
        }
    }
}
