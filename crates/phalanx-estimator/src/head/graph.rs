//! The loss of a head as nodes of a graph.

use super::{Head, HeadKind, Labels, Targets};
use phalanx_base::Result;
use phalanx_graph::{
    Add, Fed, Graph, InputValues, LogPoisson, NodeId, Reduce, Scale, SigmoidCrossEntropy, Slice,
    SparseSoftmaxCrossEntropy, SquaredError,
};
use phalanx_nn::metrics::Reduction;

impl Head {
    /// Adds the loss of a batch, whose labels and weights become the last inputs of the graph. `None` if it is a function of
    /// the user.
    pub(crate) fn add_loss(&self, graph: &mut Graph, logits: NodeId) -> Result<Option<NodeId>> {
        let is_own = |head: &Self| head.own_loss.is_some() || matches!(head.kind, HeadKind::Own(_));
        if is_own(self) || self.parts.iter().any(|part| is_own(&part.head)) {
            return Ok(None);
        }
        if self.kind != HeadKind::Several {
            return self.add_single_loss(graph, logits, "labels").map(Some);
        }
        let mut terms = Vec::with_capacity(self.parts.len());
        for (part, range) in self.ranges() {
            let own = graph.add(Slice { start: range.start, width: range.len() }, &[logits])?;
            let loss = part.head.add_single_loss(graph, own, &part.name)?;
            terms.push(graph.add(Scale { factor: part.weight }, &[loss])?);
        }
        graph.add(Add, &terms).map(Some)
    }

    fn add_single_loss(&self, graph: &mut Graph, logits: NodeId, name: &str) -> Result<NodeId> {
        let labels = match self.kind {
            HeadKind::MultiClass(classes) => InputValues::Classes(classes),
            _ => InputValues::Numbers(vec![self.logits_dimension()]),
        };
        let labels = graph.input(name, labels)?;
        let each = match self.kind {
            HeadKind::Binary | HeadKind::MultiLabel(_) => graph.add(SigmoidCrossEntropy, &[logits, labels]),
            HeadKind::MultiClass(_) => graph.add(SparseSoftmaxCrossEntropy, &[logits, labels]),
            HeadKind::Poisson(_) => graph.add(LogPoisson, &[logits, labels]),
            HeadKind::Regression(_) | HeadKind::Several | HeadKind::Own(_) => {
                graph.add(SquaredError, &[logits, labels])
            }
        }?;
        let mut reduced = vec![each];
        if let Some(weights) = &self.weight_column {
            reduced.push(graph.input(weights, InputValues::Numbers(Vec::new()))?);
        }
        let reduce = match self.reduction {
            Reduction::Sum => Reduce::Sum(self.scale(1) as f32),
            _ => Reduce::Mean,
        };
        graph.add(reduce, &reduced)
    }
}

impl Targets {
    /// Returns the values of the inputs that [`Head::add_loss`] adds.
    pub(crate) fn fed(&self) -> Vec<Fed<'_>> {
        let labels = match &self.labels {
            Labels::Numbers(numbers) => Fed::Numbers(numbers),
            Labels::Ids(ids) => Fed::Classes(ids),
            Labels::Several(parts) => return parts.iter().flat_map(Self::fed).collect(),
            Labels::None => return Vec::new(),
        };
        [labels].into_iter().chain(self.weights.as_deref().map(Fed::Numbers)).collect()
    }
}
