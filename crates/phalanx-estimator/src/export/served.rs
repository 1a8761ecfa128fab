//! Serving graphs of models made of Phalanx's layers.

use super::{Served, ServingInput};
use phalanx_base::{Code, Error, Result};
use phalanx_data::DType;
use phalanx_formats::saved_model::{ExampleFeatures, GraphBuilder, Text};
use phalanx_nn::model::Model;
use phalanx_train::saved_model::{GraphTensor, ModelInput, model_graph, model_inputs};

impl Served {
    /// Creates the graph of a model made of Phalanx's layers whose single output is the logits. `features` names the
    /// columns of its inputs, in order. The variables have the names that they have on parameter servers and in
    /// checkpoints.
    ///
    /// ```
    /// use phalanx_estimator::{Served, ServingInput};
    /// use phalanx_nn::model::{Dense, Flatten, Sequential};
    /// let model = Sequential::new().add(Flatten::new()).add(Dense::new(10)).build([28, 28])?;
    /// let served = Served::of_model(&model, ServingInput::Raw, &["image"])?;
    /// assert_eq!(served.placeholders[0].0, "image");
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a layer has no TensorFlow graph, or the names do not fit the model.
    pub fn of_model(model: &Model, input: ServingInput, features: &[&str]) -> Result<Self> {
        let inputs = model_inputs(model)?;
        if inputs.len() != features.len() {
            let what = format!("{} features are named for a model of {} inputs", features.len(), inputs.len());
            return Err(Error::new(Code::BadSetting, what).help("name one column per input"));
        }
        let mut graph = GraphBuilder::new();
        let named = || features.iter().zip(&inputs);
        let (tensors, placeholders) = match input {
            ServingInput::Raw => {
                let given: Vec<GraphTensor> =
                    named().map(|(name, input)| placeholder(&mut graph, name, input)).collect();
                let placeholders = features.iter().zip(&given);
                let placeholders = placeholders.map(|(name, tensor)| ((*name).to_owned(), (*tensor).into())).collect();
                (given, placeholders)
            }
            ServingInput::Examples => {
                let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
                let mut wanted = ExampleFeatures::new();
                let wished: Vec<Wished> = named().map(|(name, input)| Wished::of(&mut wanted, name, input)).collect();
                let parsed = graph.parse_example(serialized, &wanted);
                let given = wished.into_iter().map(|wished| match wished {
                    Wished::F32(feature) => GraphTensor::F32(parsed.dense(feature)),
                    Wished::I64(feature) => GraphTensor::I64(parsed.dense(feature)),
                    Wished::Text(feature) => GraphTensor::Text(parsed.dense(feature)),
                });
                (given.collect(), vec![("examples".to_owned(), serialized.into())])
            }
        };
        match model_graph(&mut graph, model, &tensors)?.as_slice() {
            &[logits] => {
                let logits = logits.floats(&mut graph)?;
                Ok(Self { graph, logits, placeholders, outputs: Vec::new() })
            }
            outputs => Err(Error::new(Code::BadSetting, format!("a model of {} outputs", outputs.len()))
                .because("an estimator's model has one, the logits")),
        }
    }
}

/// A required feature of every Example.
enum Wished {
    F32(phalanx_formats::saved_model::DenseFeature<f32>),
    I64(phalanx_formats::saved_model::DenseFeature<i64>),
    Text(phalanx_formats::saved_model::DenseFeature<Text>),
}

impl Wished {
    fn of(wanted: &mut ExampleFeatures, name: &str, input: &ModelInput) -> Self {
        match input.dtype {
            DType::Bytes => Self::Text(wanted.required(name, &input.dims)),
            DType::I64 | DType::U8 => Self::I64(wanted.required(name, &input.dims)),
            DType::F32 => Self::F32(wanted.required(name, &input.dims)),
        }
    }
}

fn placeholder(graph: &mut GraphBuilder, name: &str, input: &ModelInput) -> GraphTensor {
    let dims: Vec<Option<usize>> = std::iter::once(None).chain(input.dims.iter().copied().map(Some)).collect();
    GraphTensor::placeholder(graph, name, input.dtype, &dims)
}
