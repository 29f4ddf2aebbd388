//! Colocation quality by hand, and F(x) = x^R.
