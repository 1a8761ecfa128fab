//! Layers and models against Keras 2.15, on the batches of `fixtures/make_layers.py`, and tests without a fixture:
//! gradients, dropout, seeds, errors about shapes.

use crate::layers_fixture::{Array, Case, convolutional, fixture, model, towers};
use phalanx_nn::ParameterRegistry;
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::default_device;
use phalanx_nn::model::*;

const TRAINING: Mode = Mode::Training { seed: 1 };

fn check(found: &[f32], expected: &[f32], of: &str) {
    assert_eq!(found.len(), expected.len(), "{of}");
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        assert!(near, "{of}, number {at}: {found} is not Keras' {expected}");
    }
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

fn flat(value: DynTensor) -> Tensor<1> {
    let count = value.dims().iter().product();
    value.reshape(&[count]).unwrap().tensor().unwrap()
}

/// Checks the gradients of the inputs and of every trainable weight.
fn check_gradients(case: &Case, model: &Model, leaves: &[Tensor<1>], loss: Tensor<1>) {
    let mut gradients = loss.backward();
    let mut found: Vec<(String, Vec<f32>)> = Vec::new();
    for (number, leaf) in leaves.iter().enumerate() {
        let gradient = leaf.grad_remove(&mut gradients).map(floats);
        found.extend(gradient.map(|gradient| (format!("input_{}", number + 1), gradient)));
    }
    if case.weights.iter().any(|(_, trainable, _)| *trainable) {
        let book = ParameterRegistry::of(model).unwrap();
        let taken = book.gradients(model, &mut gradients).unwrap();
        for (parameter, gradient) in book.parameters().iter().zip(taken) {
            found.push((parameter.name.clone(), gradient.unwrap().into()));
        }
    }
    let names = |of: &[(String, Vec<f32>)]| of.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found), names(&case.gradients), "{}", case.name);
    for ((name, found), (_, expected)) in found.iter().zip(&case.gradients) {
        check(found, expected, &format!("{}, gradient by {name}", case.name));
    }
}

#[test]
fn outputs_gradients_names_and_weights_equal_keras() {
    let (cases, _) = fixture();
    for case in &cases {
        let mut model = model(&case.name, &case.inputs);
        let found: Vec<_> = model.variables().into_iter().map(|v| (v.name, v.trainable, v.shape)).collect();
        assert_eq!(found.len(), case.weights.len(), "{}", case.name);
        for (found, (name, trainable, array)) in found.iter().zip(&case.weights) {
            assert_eq!((&found.0, found.1, found.2.dims()), (name, *trainable, &array.dims[..]), "{}", case.name);
            model.set(name, array.numbers.clone()).unwrap();
        }
        let leaves: Vec<Tensor<1>> = case.inputs.iter().map(Array::leaf).collect();
        let shaped =
            leaves.iter().zip(&case.inputs).map(|(x, of)| DynTensor::from(x.clone()).reshape(&of.dims).unwrap());
        let inputs = shaped.collect();
        let outputs = model.call(inputs, if case.training { TRAINING } else { Mode::Inference }).unwrap();
        assert_eq!(outputs.len(), case.outputs.len());
        let loss = outputs.iter().map(|y| flat(y.clone()).powi_scalar(2).sum()).reduce(|a, b| a + b).unwrap();
        for (found, expected) in outputs.into_iter().zip(&case.outputs) {
            assert_eq!(found.dims(), expected.dims, "{}", case.name);
            check(&floats(flat(found)), &expected.numbers, &case.name);
        }
        check_gradients(case, &model, &leaves, loss);
        for (name, expected) in &case.after {
            let at = model.variables().iter().position(|v| v.name == *name).unwrap();
            check(&model.values().unwrap()[at], expected, &format!("{} {name}", case.name));
        }
    }
    assert!(cases.len() > 50, "only {} cases", cases.len());
}

#[test]
fn summaries_equal_keras_letter_by_letter() {
    let (cases, summaries) = fixture();
    assert_eq!(summaries.len(), 5);
    for (name, width, expected) in summaries {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let found = model(&name, &case.inputs).summary((width > 0).then_some(width));
        assert_eq!(found, expected, "{name} at {width}\n{found}\n{expected}");
    }
}

#[test]
fn every_trainable_parameter_has_a_gradient_and_goes_through_the_registry() {
    for (model, inputs) in [(convolutional(), vec![vec![2, 8, 8, 1]]), (towers(), vec![vec![3, 4], vec![3, 4]])] {
        let book = ParameterRegistry::of(&model).unwrap();
        let trainable: Vec<String> = model.variables().into_iter().filter(|v| v.trainable).map(|v| v.name).collect();
        let names: Vec<String> = book.parameters().iter().map(|p| p.name.clone()).collect();
        assert_eq!(names, trainable);
        let batch = |dims: &Vec<usize>| {
            let count: usize = dims.iter().product();
            let numbers = (0..count).map(|i| ((i * 7 % 13) as f32 - 6.0) / 5.0).collect::<Vec<_>>();
            DynTensor::from(Tensor::<1>::from_floats(numbers.as_slice(), &default_device())).reshape(dims).unwrap()
        };
        // Values that went through the registry are still trained.
        let ones = book.parameters().iter().map(|p| Some(vec![0.1; p.shape.elements()])).collect();
        let model = book.load(model, ones);
        let outputs = model.call(inputs.iter().map(batch).collect(), TRAINING).unwrap();
        let sum = |y: DynTensor| y.tensor::<2>().unwrap().powi_scalar(2).sum();
        let loss = outputs.into_iter().map(sum).reduce(|a, b| a + b).unwrap();
        let gradients = book.gradients(&model, &mut loss.backward()).unwrap();
        for (name, gradient) in names.iter().zip(gradients) {
            assert!(gradient.is_some(), "{name} has no gradient");
        }
    }
}

#[test]
fn moving_averages_move_in_training_only_and_have_no_gradient() {
    let model = Sequential::new().add(BatchNormalization::new().momentum(0.5)).build([2]).unwrap();
    let x = || Tensor::<2>::from_floats([[1.0, 4.0], [3.0, 8.0]], &default_device());
    let copy = model.clone();
    let before = model.values().unwrap();
    let _: Tensor<2> = model.forward(x(), Mode::Inference).unwrap();
    assert_eq!(model.values().unwrap(), before);
    let _: Tensor<2> = model.forward(x(), TRAINING).unwrap();
    assert_eq!(model.values().unwrap()[2..], [vec![1.0, 3.0], vec![1.0, 2.5]]);
    assert_eq!(copy.values().unwrap(), before, "a clone has its own averages");
    let names = |model: &Model| {
        ParameterRegistry::of(model).unwrap().parameters().iter().map(|p| p.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&model.unfreeze()), ["batch_normalization/gamma", "batch_normalization/beta"]);
}

#[test]
fn dropout_drops_its_fraction_by_the_seed_and_keeps_the_mean() {
    let model = Sequential::new().add(Dropout::new(0.2)).add(Dropout::new(0.0)).build([100]).unwrap();
    let run = |seed| -> Vec<f32> {
        let x = Tensor::<2>::ones([100, 100], &default_device());
        floats(model.forward::<2>(x, Mode::Training { seed }).unwrap())
    };
    let out = run(3);
    assert_eq!(out, run(3));
    assert_ne!(out, run(4));
    let dropped = out.iter().filter(|&&x| x == 0.0).count();
    assert!((1800..2200).contains(&dropped), "{dropped} of 10000");
    assert!(out.iter().all(|&x| x == 0.0 || x == 1.25));
}

#[test]
fn the_same_seed_gives_the_same_weights() {
    let build = |seed| Sequential::new().add(Dense::new(3)).add(Dense::new(3)).seed(seed).build([3]).unwrap();
    let values = build(7).values().unwrap();
    assert_eq!(values, build(7).values().unwrap());
    assert_ne!(values, build(8).values().unwrap());
    assert_ne!(values[0], values[2], "equal layers start with different weights");
}

#[test]
fn a_shape_mismatch_names_the_layer_and_shows_both_shapes() {
    let wrong = Sequential::new().add(Dense::new(3)).add(Conv2D::new(2, [3, 3]).name("eyes")).build([5]).unwrap_err();
    assert_eq!(wrong.code().number(), 303);
    assert_eq!(
        wrong.to_string(),
        "an input of shape [None, height, width, channels] is needed, this one has [None, 3] (layer \"eyes\" (Conv2D))"
    );
    let (a, b) = (Input::new([3]), Input::new([4]));
    let texts = [
        Model::new([&a, &b], &Add::new().call([&a, &b])),
        Model::new([&a, &b], &Dot::new([1, 1]).call([&a, &b])),
        Model::new([&a, &b], &Concatenate::new().call([&a, &Reshape::new([2, 2]).call(&b)])),
    ]
    .map(|made| made.unwrap_err().to_string());
    let layers = ["layer \"add\" (Add)", "layer \"dot\" (Dot)", "layer \"concatenate\" (Concatenate)"];
    for (text, layer) in texts.iter().zip(layers) {
        assert!(text.contains("[None, 3]") && text.contains("[None, ") && text.contains(layer), "{text}");
    }
    let window = Sequential::new().add(MaxPooling2D::new([5, 5])).build([4, 8, 1]).unwrap_err().to_string();
    assert!(window.contains("[5, 5]") && window.contains("[4, 8]") && window.contains("max_pooling2d"), "{window}");
    let shared = Dense::new(2);
    let both = [shared.call(&a), shared.call(&b)];
    let error = Model::new([&a, &b], &Add::new().call([&both[0], &both[1]])).unwrap_err().to_string();
    assert!(error.contains("[3, 2]") && error.contains("[4, 2]") && error.contains("\"dense\""), "{error}");
}

#[test]
fn wrong_batches_and_graphs_are_errors_not_panics() {
    let model = Sequential::new().add(Embedding::new(4, 2)).add(Flatten::new()).build([3]).unwrap();
    let forward = |ids: Tensor<2, phalanx_nn::burn::tensor::Int>| model.forward::<2>(ids, Mode::Inference);
    let device = default_device();
    assert_eq!(forward(Tensor::from_data([[0, 3, 1]], &device)).unwrap().dims(), [1, 6]);
    let error = forward(Tensor::from_data([[0, 4, 1]], &device)).unwrap_err().to_string();
    assert!(error.contains("id 4") && error.contains("\"embedding\""), "{error}");
    let error = forward(Tensor::from_data([[0, 1]], &device)).unwrap_err().to_string();
    assert!(error.contains("[1, 2]") && error.contains("[None, 3]"), "{error}");
    let (a, b) = (Input::new([3]), Input::new([3]));
    let sum = Add::new().call([&a, &b]);
    assert!(Model::new(&a, &sum).unwrap_err().to_string().contains("input_2"));
    assert!(Model::new([&a, &b, &b], &sum).is_err());
    assert!(Model::new(&sum, &Dense::new(1).call(&sum)).is_err());
    let twins = [Dense::new(1).name("x").call(&a), Dense::new(1).name("x").call(&b)];
    let error = Model::new([&a, &b], &twins[..]).unwrap_err().to_string();
    assert!(error.contains("two layers are called \"x\""), "{error}");
    for bad in [Dropout::new(1.5), Dropout::new(f64::NAN)] {
        assert!(Sequential::new().add(bad).build([2]).is_err());
    }
    assert!(Sequential::new().add(Conv2D::new(1, [1, 1]).strides([0, 1])).build([4, 4, 1]).is_err());
    assert!(Sequential::new().add(Dense::new(usize::MAX)).build([4]).is_err());
    assert!(Sequential::new().add(Reshape::new([2, -1, -1])).build([4]).is_err());
}
