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

/// How a model is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingOptions {
    pub confidence: Confidence,
    /// For the order in which windows are visited.
    pub seed: u64,
}

impl Default for TrainingOptions {
    fn default() -> Self {
        TrainingOptions {
            confidence: Confidence::Above(0.7),
            seed: 0,
        }
    }
}
