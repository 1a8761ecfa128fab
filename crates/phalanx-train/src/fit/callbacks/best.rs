//! The best value of a monitored metric.

/// Whether a monitored value should fall or rise.
///
/// ```
/// use phalanx_train::fit::callbacks::{Direction, EarlyStopping};
/// let stop = EarlyStopping::new("val_f1").direction(Direction::Max);
/// # let _ = stop;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// `Max` for an accuracy or an area under a curve, else `Min`. Keras' callbacks disagree about the names, and some
    /// keep the worst `auc`; here all of them recognise `val_auc`, `auc_1` and `my_acc_top_5`.
    #[default]
    Auto,
    /// Lower is better.
    Min,
    /// Higher is better.
    Max,
}

impl Direction {
    /// Returns whether the value of this name should rise.
    pub(super) fn rises(self, monitor: &str) -> bool {
        match self {
            Self::Auto => {
                let name = monitor.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
                name.ends_with("auc") || name.contains("acc") && !name.ends_with("loss")
            }
            Self::Min => false,
            Self::Max => true,
        }
    }
}

/// The best value so far.
#[derive(Clone, Debug)]
pub(super) struct Best {
    rises: bool,
    min_delta: f64,
    pub(super) value: f64,
}

impl Best {
    pub(super) fn new(monitor: &str, direction: Direction, min_delta: f64) -> Self {
        let rises = direction.rises(monitor);
        let value = if rises { f64::NEG_INFINITY } else { f64::INFINITY };
        Self { rises, min_delta: min_delta.abs(), value }
    }

    /// Returns whether `number` is better than `than` by more than `min_delta`.
    pub(super) fn is_better(&self, number: f64, than: f64) -> bool {
        if self.rises { number - self.min_delta > than } else { number + self.min_delta < than }
    }

    /// Records a value. Returns whether it is the best so far.
    pub(super) fn improve(&mut self, number: f64) -> bool {
        let better = self.is_better(number, self.value);
        if better {
            self.value = number;
        }
        better
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracies_rise_and_losses_fall() {
        let mut loss = Best::new("val_loss", Direction::Auto, 0.1);
        assert_eq!([1.0, 0.95, 0.89, f64::NAN].map(|number| loss.improve(number)), [true, false, true, false]);
        let mut auc = Best::new("val_auc", Direction::Auto, 0.0);
        assert_eq!([0.5, 0.5, 0.6].map(|number| auc.improve(number)), [true, false, true]);
        for name in ["auc_1", "acc", "val_out_accuracy", "acc_top_5"] {
            assert!(Direction::Auto.rises(name), "{name}");
        }
        assert!(!Direction::Auto.rises("accept_loss") && !Direction::Auto.rises("mae"));
        assert!(Direction::Min.rises("loss") != Direction::Max.rises("loss"));
    }
}
