//! Settings shared by canned models.

/// Adds the settings of a head to a model with a field `head`.
macro_rules! head_settings {
    (classifier $model:ty) => {
        impl $model {
            phalanx_train::setters! {
                /// Sets the number of classes; 2 by default.
                n_classes(n_classes: usize) { head.kind = crate::head::HeadKind::classes(n_classes) }
            }
        }
        head_settings!(binary $model);
    };
    (binary $model:ty) => {
        impl $model {
            /// Sets the labels' texts, in the order of the classes.
            #[must_use]
            pub fn label_vocabulary<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
                self.head.label_vocabulary = words.into_iter().map(Into::into).collect();
                self
            }

            phalanx_train::setters! {
                /// For two classes: also reports accuracy, precision and recall at these probabilities.
                thresholds(thresholds: impl Into<Vec<f32>>) { head.thresholds = thresholds.into() }
            }
        }
        head_settings!(common $model);
    };
    (regressor $model:ty) => {
        impl $model {
            phalanx_train::setters! {
                /// Sets how many numbers are predicted per example; 1 by default.
                label_dimension(label_dimension: usize) { head.kind = crate::head::HeadKind::Regression(label_dimension) }
            }
        }
        head_settings!(common $model);
    };
    (common $model:ty) => {
        impl $model {
            /// Adds a metric to evaluations: TensorFlow's `add_metrics`. See [`Head::add_metric`](crate::Head::add_metric).
            #[must_use]
            pub fn add_metric(
                mut self,
                name: impl Into<String>,
                metric: impl phalanx_nn::metrics::Metric + 'static,
                update: impl Fn(&mut dyn phalanx_nn::metrics::Metric, &crate::Evaluated<'_>) -> phalanx_base::Result<()>
                + Send
                + Sync
                + 'static,
            ) -> Self {
                self.head = self.head.add_metric(name, metric, update);
                self
            }

            phalanx_train::setters! {
                /// Replaces the head, as `DNNEstimator(head=…)` and its kind do in TensorFlow.
                head(head: crate::Head) { head = head }
                /// Sets the column of example weights.
                weight_column(name: impl Into<String>) { head.weight_column = Some(name.into()) }
                /// Adds metrics to evaluations.
                eval_metrics(metrics: impl Into<Vec<phalanx_nn::metrics::EvalMetric>>) {
                    head.eval_metrics = metrics.into()
                }
                /// Sets the column whose values are the groups of the metric `gauc`.
                group_by(name: impl Into<String>) { head.group_by = Some(name.into()) }
                /// Sets how the losses of a batch are reduced; `SumOverBatchSize` by default.
                loss_reduction(reduction: phalanx_nn::metrics::Reduction) { head.reduction = reduction }
            }
        }
    };
}

/// Adds the settings of hidden layers to a model with a field `layers`.
macro_rules! layer_settings {
    ($model:ty) => {
        impl $model {
            phalanx_train::setters! {
                /// Sets the widths of the hidden layers, from the input to the logits.
                hidden_units(units: impl Into<Vec<usize>>) { layers.hidden_units = units.into() }
                /// Sets the activation of hidden layers; ReLU by default.
                activation_fn(activation: phalanx_nn::model::Function) { layers.activation = activation }
                /// Sets the dropout rate of hidden layers.
                dropout(rate: f64) { layers.dropout = Some(rate) }
                /// Sets whether the output of every hidden layer is batch-normalized.
                batch_norm(batch_norm: bool) { layers.batch_norm = batch_norm }
                /// Sets the precision of the hidden layers' matrix products; `F32` by default. Variables and their gradients
                /// are always 32-bit floats.
                precision(precision: phalanx_nn::Precision) { layers.precision = precision }
            }
        }
    };
}

/// Adds the optimizer to a model with a field `optimizer`.
macro_rules! optimizer_setting {
    ($model:ty, $of:literal) => {
        impl $model {
            phalanx_train::setters! {
                #[doc = concat!("Sets the optimizer of ", $of, ".")]
                optimizer(optimizer: impl Into<phalanx_optim::Optimizer>) { optimizer = optimizer.into() }
            }
        }
    };
}

/// Adds the optimizers to a model with a linear and a deep part.
macro_rules! two_optimizers {
    ($model:ty) => {
        impl $model {
            phalanx_train::setters! {
                /// Sets the optimizer of the linear weights.
                linear_optimizer(optimizer: impl Into<phalanx_optim::Optimizer>) {
                    linear_optimizer = Some(optimizer.into())
                }
                /// Sets the optimizer of hidden layers and embeddings.
                dnn_optimizer(optimizer: impl Into<phalanx_optim::Optimizer>) { dnn_optimizer = optimizer.into() }
            }
        }
    };
}

/// Implements [`crate::IntoModel`] for a model with a field `head` and a function `parts`, and the
/// settings of a field `l2` if it has one.
macro_rules! into_model {
    ($model:ty) => {
        impl $model {
            phalanx_train::setters! {
                /// Adds `l2 · Σ w²` over the weights of layers and of dense columns to the loss; biases are left out.
                l2(l2: f32) { l2.weights = l2 }
                /// Adds `l2 · Σ w²` over the embeddings and the weights of ids that a batch looks up, each row once, to the
                /// loss. Rows that a batch does not touch keep their values.
                embedding_l2(l2: f32) { l2.rows = l2 }
            }
        }

        into_model!($model, |own: &$model| own.l2);
    };
    ($model:ty, $l2:expr) => {
        impl crate::IntoModel for $model {
            type Model = super::Canned;

            fn to_model(&self, seed: u64) -> phalanx_base::Result<super::Canned> {
                let (head, mut plan) = (self.head.clone(), super::parts::ModelPlan::new(seed, $l2(self))?);
                head.check()?;
                let logits = self.parts(head.logits_dimension(), &mut plan)?;
                super::Canned::new(head, logits, plan)
            }
        }
    };
}
pub(super) use {head_settings, into_model, layer_settings, optimizer_setting, two_optimizers};
