//! Figures out of several runs. Pure.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// What several runs gave, in the order in which they ran; at least one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary(Vec<f64>);

impl Summary {
    /// # Errors
    /// When there are none, or one that is no finite number: that is no measurement.
    pub(crate) fn of(values: Vec<f64>) -> Result<Self> {
        ensure!(!values.is_empty(), "no runs");
        ensure!(values.iter().all(|it| it.is_finite()), "runs: {values:?}");
        Ok(Self(values))
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.0
    }

    pub(crate) fn median(&self) -> f64 {
        quantile(&self.0, 0.5)
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "median": rounded(self.median()),
            "min": rounded(self.min()),
            "max": rounded(self.max()),
            "runs": self.0.len(),
            "values": self.0.iter().map(|&it| rounded(it)).collect::<Vec<_>>(),
        })
    }
}

/// To four decimals below 1,000, to one above.
pub(crate) fn rounded(value: f64) -> f64 {
    let unit = if value.abs() < 1_000.0 { 1e4 } else { 1e1 };
    (value * unit).round() / unit
}

/// The value below which `share` of `values` lie, between two neighbours in proportion.
/// Not a number where there are none.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = share.clamp(0.0, 1.0) * last as f64;
    // Within the values: at most the last.
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - at.floor())
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::{Summary, mean, quantile, rounded};

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(quantile(&[9.0, 1.0, 5.0], 0.5), 5.0);
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.5), 2.5);
        assert_eq!(quantile(&[7.0], 0.5), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn quantiles_reach_from_the_smallest_to_the_largest() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        for (share, expected) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(quantile(&values, share), expected, "{share}");
        }
    }

    #[test]
    fn a_summary_keeps_the_order_of_its_runs() -> anyhow::Result<()> {
        let summary = Summary::of(vec![2.0, 1.0, 4.0])?;
        let json = summary.json();
        assert_eq!(json["median"], 2.0);
        assert_eq!(
            (json["min"].as_f64(), json["max"].as_f64()),
            (Some(1.0), Some(4.0))
        );
        assert_eq!(json["runs"], 3);
        assert_eq!(json["values"], serde_json::json!([2.0, 1.0, 4.0]));
        Ok(())
    }

    #[test]
    fn nothing_measured_is_no_figure() {
        assert!(Summary::of(Vec::new()).is_err());
        assert!(Summary::of(vec![1.0, f64::NAN]).is_err());
        assert!(Summary::of(vec![1.0 / 0.0]).is_err());
    }

    #[test]
    fn means_and_rounding() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(rounded(2.345_678), 2.3457);
        assert_eq!(rounded(12_345.678), 12_345.7);
    }
}
