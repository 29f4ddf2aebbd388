//! Order and ranks.

/// Lists that are sorted by a number.
pub trait ByNumber<T> {
    /// Sorts by `number`, the smallest first; equal ones keep their order. Takes memory for the
    /// numbers; all callers share the code that sorts, of which each `sort_by` has its own copy.
    fn sort_by_number(&mut self, number: impl Fn(&T) -> f64);
}

impl<T> ByNumber<T> for [T] {
    fn sort_by_number(&mut self, number: impl Fn(&T) -> f64) {
        let numbers: Vec<f64> = self.iter().map(number).collect();
        let order = ascending(&numbers);
        for to in 0..order.len() {
            // A place before this one was swapped already: what it held went where its own came from.
            let mut from = order[to];
            while from < to {
                from = order[from];
            }
            self.swap(to, from);
        }
    }
}

/// The indices of `values`, the smallest first; of equal ones the first.
pub fn ascending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order
}

/// The indices of `values`, the largest first; of equal ones the first.
pub fn descending(values: &[f64]) -> Vec<usize> {
    ascending(&values.iter().map(|value| -value).collect::<Vec<_>>())
}

/// Of each value its rank from 0; equal ones share the mean of theirs.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for same in ascending(values).chunk_by(|a, b| values[*a] == values[*b]) {
        let mean = first as f64 + (same.len() - 1) as f64 / 2.0;
        for at in same {
            ranks[*at] = mean;
        }
        first += same.len();
    }
    ranks
}

/// Spearman's rank correlation of pairs; `None` where one side does not vary.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (a, b) = (ranks(&a), ranks(&b));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        let both = a.iter().zip(b);
        both.map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    let spread = (sum(&a, &a) * sum(&b, &b)).sqrt();
    (spread > 0.0).then(|| sum(&a, &b) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_keep_their_order_and_share_their_rank() {
        let values = [3.0, 1.0, 3.0, 2.0];
        assert_eq!(ascending(&values), [1, 3, 0, 2]);
        assert_eq!(descending(&values), [0, 2, 3, 1]);
        assert_eq!(ranks(&values), [2.5, 0.0, 2.5, 1.0]);
        assert!(ascending(&[]).is_empty() && ranks(&[]).is_empty());
    }

    #[test]
    fn a_list_is_sorted_by_a_number_of_each() {
        let mut list: Vec<(usize, usize)> = (0..300).map(|at| (at * 7919 % 101, at)).collect();
        let mut expected = list.clone();
        expected.sort_by_key(|it| it.0);
        list.sort_by_number(|it| it.0 as f64);
        assert_eq!(list, expected);
        expected.sort_by_key(|it| std::cmp::Reverse(it.0));
        list.sort_by_number(|it| -(it.0 as f64));
        assert_eq!(list, expected);
        Vec::<f64>::new().sort_by_number(|it| *it);
    }

    #[test]
    fn what_rises_together_correlates() {
        let rising: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), f64::from(x * x))).collect();
        assert_eq!(rank_correlation(&rising), Some(1.0));
        let falling: Vec<(f64, f64)> = rising.iter().map(|(a, b)| (*a, -b)).collect();
        assert_eq!(rank_correlation(&falling), Some(-1.0));
        assert_eq!(rank_correlation(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(rank_correlation(&[]), None);
    }
}
