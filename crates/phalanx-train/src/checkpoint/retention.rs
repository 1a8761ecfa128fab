//! Which checkpoints are kept. Pure; time is passed in.

use phalanx_formats::bundle::CheckpointState;

/// How many checkpoints are kept, and which of them for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retention {
    /// How many of the newest are kept; 0 keeps all.
    pub max_to_keep: usize,
    /// One checkpoint in this many hours is kept for good.
    pub keep_every_n_hours: f64,
}

impl Default for Retention {
    /// TensorFlow's default: the newest five, and one in ten thousand hours.
    fn default() -> Self {
        Self { max_to_keep: 5, keep_every_n_hours: 10_000.0 }
    }
}

impl Retention {
    /// Adds a checkpoint saved at `now` (seconds since 1970) to `state`, and returns those to be deleted: all beyond the limit,
    /// also those of a run with a larger one.
    pub fn admit(self, state: &mut CheckpointState, name: &str, now: f64) -> Vec<String> {
        if state.timestamps.len() != state.all.len() {
            // Written without times: they are older than now, and nothing else is known.
            state.timestamps = vec![now; state.all.len()];
        }
        if let Some(at) = state.all.iter().position(|known| known == name) {
            state.all.remove(at);
            state.timestamps.remove(at);
        }
        state.all.push(name.to_owned());
        state.timestamps.push(now);
        state.latest = Some(name.to_owned());
        let preserved = state.last_preserved.get_or_insert(now);
        if self.max_to_keep == 0 {
            // As TensorFlow: nothing is deleted, and only the newest is named.
            state.all = vec![name.to_owned()];
            state.timestamps = vec![now];
            return Vec::new();
        }
        let mut deleted = Vec::new();
        while state.all.len() > self.max_to_keep {
            let (oldest, saved) = (state.all.remove(0), state.timestamps.remove(0));
            if saved - *preserved >= 3600.0 * self.keep_every_n_hours {
                *preserved = saved;
            } else {
                deleted.push(oldest);
            }
        }
        deleted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(steps: &[u32]) -> Vec<String> {
        steps.iter().map(|step| format!("model.ckpt-{step}")).collect()
    }

    #[test]
    fn the_newest_stay_and_the_rest_go_also_after_a_restart_with_a_smaller_limit() {
        let mut state = CheckpointState::default();
        let five = Retention::default();
        let deleted: Vec<String> =
            (0..7).flat_map(|step| five.admit(&mut state, &format!("model.ckpt-{step}"), f64::from(step))).collect();
        assert_eq!(deleted, names(&[0, 1]));
        assert_eq!(state.all, names(&[2, 3, 4, 5, 6]));
        let again = CheckpointState::parse(state.to_string().as_bytes()).unwrap();
        assert_eq!(again, state, "what the next incarnation reads");
        let two = Retention { max_to_keep: 2, ..five };
        assert_eq!(two.admit(&mut state, "model.ckpt-7", 7.0), names(&[2, 3, 4, 5]), "TensorFlow never catches up");
        assert_eq!((state.all, state.latest), (names(&[6, 7]), Some("model.ckpt-7".into())));
    }

    #[test]
    fn one_in_n_hours_is_kept_for_good() {
        let hourly = Retention { max_to_keep: 1, keep_every_n_hours: 1.0 };
        let mut state = CheckpointState::default();
        let half_hours = (0..9).map(|i| 1800.0 * f64::from(i));
        let deleted: Vec<String> = half_hours
            .zip(0..)
            .flat_map(|(now, i)| hourly.admit(&mut state, &format!("model.ckpt-{i}"), now))
            .collect();
        assert_eq!(deleted, names(&[0, 1, 3, 5, 7]), "2, 4 and 6 stay, an hour apart");
    }

    #[test]
    fn without_a_limit_nothing_goes_and_only_the_newest_is_named() {
        let all = Retention { max_to_keep: 0, ..Retention::default() };
        let mut state = CheckpointState::default();
        assert!((0..9).all(|i| all.admit(&mut state, &format!("model.ckpt-{i}"), 0.0).is_empty()));
        assert_eq!(state.all, names(&[8]));
    }

    #[test]
    fn the_same_step_again_is_one_checkpoint() {
        let mut state = CheckpointState::default();
        Retention::default().admit(&mut state, "model.ckpt-3", 1.0);
        assert!(Retention::default().admit(&mut state, "model.ckpt-3", 2.0).is_empty());
        assert_eq!((state.all.len(), state.timestamps), (1, vec![2.0]));
    }
}
