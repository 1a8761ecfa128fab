//! Optimizer updates in the memory of this process.

use crate::session::NormRequest;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_nn::{HostBuffer, ParameterRegistry};
use phalanx_optim::{Clip, Optimizer, Rule, norm};
use rayon::prelude::*;

/// Longer parameters are updated by all compute threads, in pieces of this length.
const PIECE: usize = 1 << 15;

/// An optimizer and its slots for every parameter.
#[derive(Clone, Debug)]
pub(crate) struct OptimizerState {
    pub(crate) optimizer: Optimizer,
    /// By parameter, by slot.
    pub(crate) slots: Vec<Vec<Vec<f32>>>,
    /// The number of updates.
    pub(crate) iterations: u64,
    /// A request for the norm of the summed gradients, before they are clipped.
    pub(crate) norm: NormRequest,
}

impl OptimizerState {
    pub(crate) fn new(optimizer: Optimizer, registry: &ParameterRegistry) -> Result<Self> {
        optimizer.validate()?;
        let slots = |elements: usize| {
            (0..optimizer.slot_count()).map(|slot| vec![optimizer.slot_init(slot); elements]).collect()
        };
        let slots = registry.parameters().iter().map(|parameter| slots(parameter.shape.elements())).collect();
        Ok(Self { optimizer, slots, iterations: 0, norm: NormRequest::default() })
    }

    /// An optimizer whose slots are on parameter servers.
    pub(crate) fn without_slots(optimizer: Optimizer) -> Result<Self> {
        optimizer.validate()?;
        Ok(Self { optimizer, slots: Vec::new(), iterations: 0, norm: NormRequest::default() })
    }

    pub(crate) fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        if let Some(schedule) = self.optimizer.schedule() {
            return Err(Error::new(Code::BadSetting, "the learning rate follows a schedule and cannot be set")
                .because(format!("the optimizer was made with one: {schedule}"))
                .help("make the optimizer with a constant rate, or leave the rate to the schedule"));
        }
        let changed = self.optimizer.with_learning_rate(rate);
        changed.validate()?;
        self.optimizer = changed;
        Ok(())
    }

    /// Applies gradients times `scale`, or nothing if that is `None`. A parameter without a gradient does not change.
    /// `ready` is called before each parameter.
    pub(crate) fn apply<M: Module>(
        &mut self,
        registry: &ParameterRegistry,
        module: M,
        gradients: &mut [Option<HostBuffer>],
        scale: Option<f32>,
        mut ready: impl FnMut(usize, &mut [Option<HostBuffer>]) -> Result<()>,
    ) -> Result<M> {
        self.iterations += u64::from(scale.is_some());
        let rule = self.optimizer.at_step(self.iterations);
        let (clip, scaled) = (self.optimizer.clip(), scale.unwrap_or(1.0));
        // The norm of all gradients is known only when all of them are summed.
        let clips_all = matches!(clip, Some(Clip::GlobalNorm(_)));
        let measured = self.norm.is_wanted() && scale.is_some();
        let mut squares = 0.0;
        let mut measure = |gradient: &[f32]| {
            if measured {
                squares += norm([gradient]).powi(2);
            }
        };
        if let (true, Some(clip)) = (clips_all, clip) {
            (0..gradients.len()).try_for_each(|number| ready(number, gradients))?;
            for gradient in gradients.iter_mut().flatten() {
                multiply(gradient, scaled);
                measure(gradient);
            }
            clip.apply(gradients.iter_mut().flatten().map(|gradient| &mut **gradient));
        }
        let module = registry.update(module, |number, values| {
            if !clips_all {
                ready(number, gradients)?;
            }
            match (gradients.get_mut(number).and_then(Option::as_mut), scale) {
                (Some(gradient), Some(_)) => {
                    if !clips_all {
                        multiply(gradient, scaled);
                        measure(gradient);
                        clip.into_iter().for_each(|clip| clip.apply([&mut **gradient]));
                    }
                    apply(&rule, values, &mut self.slots[number], gradient)
                }
                _ => Ok(()),
            }
        })?;
        if measured {
            self.norm.set(squares.sqrt() as f32);
        }
        Ok(module)
    }
}

fn multiply(gradient: &mut [f32], scale: f32) {
    if scale != 1.0 {
        gradient.iter_mut().for_each(|number| *number *= scale);
    }
}

fn apply(rule: &Rule, values: &mut [f32], slots: &mut [Vec<f32>], gradient: &[f32]) -> Result<()> {
    if gradient.len() != values.len() {
        let what = format!("a gradient of {} numbers for a parameter of {}", gradient.len(), values.len());
        return Err(Error::new(Code::ShapeMismatch, what));
    }
    if values.len() <= PIECE || rayon::current_num_threads() == 1 {
        return rule.apply_beside(values, slots.iter_mut().map(Vec::as_mut_slice), gradient);
    }
    let mut pieces: Vec<_> = values
        .chunks_mut(PIECE)
        .zip(gradient.chunks(PIECE))
        .map(|(values, gradient)| (values, gradient, vec![]))
        .collect();
    for slot in slots {
        pieces.iter_mut().zip(slot.chunks_mut(PIECE)).for_each(|(piece, slot)| piece.2.push(slot));
    }
    pieces.into_par_iter().try_for_each(|(values, gradient, slots)| rule.apply_beside(values, slots, gradient))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_nn::with_threads;
    use phalanx_optim::Adam;

    #[test]
    fn pieces_on_several_threads_give_the_same_bits() {
        let length = 5 * PIECE + 77;
        let gradient: Vec<f32> = (0..length).map(|i| (i as f32).sin()).collect();
        let rule = Optimizer::from(Adam::new(0.01)).at_step(3);
        let run = |threads| {
            let (mut values, mut slots) = (vec![0.5; length], vec![vec![0.1; length], vec![0.2; length]]);
            with_threads(threads, || apply(&rule, &mut values, &mut slots, &gradient)).unwrap();
            (values, slots)
        };
        assert_eq!(run(1), run(3));
    }
}
