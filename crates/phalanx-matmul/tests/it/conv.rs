//! Convolutions of every shape.

use crate::support::{near, numbers, with_threads};
use phalanx_base::SplitMix;
use phalanx_matmul::{Activation, Conv2d, Image, Level, Window};

/// A convolution in plain loops.
#[derive(Clone, Copy, Debug)]
struct Case {
    image: Image,
    window: Window,
    filters: usize,
    groups: usize,
}

impl Case {
    fn conv(self) -> Conv2d {
        Conv2d::new(self.image, self.window, self.filters, self.groups).expect("a convolution")
    }

    /// Calls `term` with the places in the image, the kernel and the output of every product.
    fn terms(self, mut term: impl FnMut(usize, usize, usize)) {
        let Self { image, window, filters, groups } = self;
        let output = self.conv().output();
        let (inputs, each) = (image.channels / groups, filters / groups);
        let inside = |place: usize, tap: usize, axis: usize, length: usize| {
            let at =
                (place * window.stride[axis] + tap * window.dilation[axis]).checked_sub(window.padding[axis][0])?;
            (at < length).then_some(at)
        };
        for n in 0..image.batch {
            for (y, x) in (0..output.height).flat_map(|y| (0..output.width).map(move |x| (y, x))) {
                for (i, j) in (0..window.size[0]).flat_map(|i| (0..window.size[1]).map(move |j| (i, j))) {
                    let Some(row) = inside(y, i, 0, image.height) else { continue };
                    let Some(column) = inside(x, j, 1, image.width) else { continue };
                    for (channel, filter) in (0..inputs).flat_map(|c| (0..filters).map(move |f| (c, f))) {
                        let from = ((n * image.height + row) * image.width + column) * image.channels;
                        let tap = (i * window.size[1] + j) * inputs + channel;
                        let to = ((n * output.height + y) * output.width + x) * filters + filter;
                        term(from + filter / each * inputs + channel, tap * filters + filter, to);
                    }
                }
            }
        }
    }

    fn check(self, level: Level) {
        let conv = self.conv();
        let count = |image: Image| image.count().expect("a count");
        let (x, kernel) = (numbers(count(self.image), 1), numbers(conv.kernel_len(), 2));
        let (dy, bias) = (numbers(count(conv.output()), 3), numbers(self.filters, 4));
        let [mut y, mut dx, mut dkernel] = [dy.len(), x.len(), kernel.len()].map(|len| vec![f32::NAN; len]);
        let mut scratch = vec![f32::NAN; conv.scratch(level)];
        conv.input_gradient(level, &dy, &kernel, &mut dx, &mut scratch);
        scratch.fill(f32::NAN);
        conv.kernel_gradient(level, &x, &dy, &mut dkernel, &mut scratch);
        let mut sums = [dy.len(), x.len(), kernel.len()].map(|len| vec![(0.0, 1.0); len]);
        self.terms(|from, tap, to| {
            let mut add = |which: usize, at: usize, term: f32| {
                let (sum, size): &mut (f64, f64) = &mut sums[which][at];
                *sum += f64::from(term);
                *size += f64::from(term.abs());
            };
            // These products of short numbers are exact.
            add(0, to, x[from] * kernel[tap]);
            add(1, from, dy[to] * kernel[tap]);
            add(2, tap, dy[to] * x[from]);
        });
        for activation in [Activation::Linear, Activation::Relu, Activation::Tanh] {
            y.fill(f32::NAN);
            conv.forward(level, &x, &kernel, Some(&bias), activation, &mut y, &mut scratch);
            for (at, (&y, &(sum, size))) in y.iter().zip(&sums[0]).enumerate() {
                let sum = sum + f64::from(bias[at % self.filters]);
                let expected = match activation {
                    Activation::Relu => sum.max(0.0),
                    Activation::Tanh => sum.tanh(),
                    _ => sum,
                };
                near(y, expected, 1e-5, size, || format!("{self:?} {level:?} {activation:?} [{at}]"));
            }
        }
        for (what, got, expected) in [("inputs", &dx, &sums[1]), ("kernel", &dkernel, &sums[2])] {
            for (at, (&got, &(sum, size))) in got.iter().zip(expected).enumerate() {
                near(got, sum, 1e-5, size, || format!("{self:?} {level:?} {what} [{at}]"));
            }
        }
    }
}

fn case([batch, height, width, channels]: [usize; 4], window: Window, filters: usize, groups: usize) -> Case {
    Case { image: Image { batch, height, width, channels }, window, filters, groups }
}

fn all(cases: impl IntoIterator<Item = Case> + Clone) {
    for level in Level::all() {
        cases.clone().into_iter().for_each(|case| case.check(level));
    }
}

#[test]
fn the_layers_of_a_network() {
    let small = Window::new([3, 3], [1, 1]);
    all([
        case([2, 28, 28, 1], small, 32, 1),
        case([2, 13, 13, 32], small, 64, 1),
        case([2, 14, 14, 16], small.same([14, 14]).expect("padding"), 17, 1),
        case([1, 9, 9, 3], Window::new([7, 7], [2, 2]).same([9, 9]).expect("padding"), 40, 1),
        case([3, 5, 6, 20], Window::new([1, 1], [1, 1]), 33, 1),
        case([2, 8, 8, 6], Window::new([3, 3], [1, 1]), 6, 6),
    ]);
}

#[test]
fn windows_of_every_kind() {
    let mut random = SplitMix::new(7);
    let mut cases = Vec::new();
    while cases.len() < 120 {
        let mut below = |bound: usize| random.below(bound);
        let groups = [1, 1, 2, 3][below(4)];
        let image = [below(3) + 1, below(9) + 1, below(19) + 1, groups * (below(5) + 1)];
        let window = Window {
            size: [below(4) + 1, below(4) + 1],
            stride: [below(3) + 1, below(3) + 1],
            dilation: [below(3) + 1, below(3) + 1],
            padding: [[below(4), below(4)], [below(4), below(4)]],
        };
        if window.output([image[1], image[2]]).is_some() {
            cases.push(case(image, window, groups * (below(20) + 1), groups));
        }
    }
    all(cases);
}

#[test]
fn a_batch_without_images_has_a_gradient_of_zeros() {
    all([case([0, 5, 5, 2], Window::new([3, 3], [1, 1]), 4, 1)]);
}

#[test]
fn threads_change_no_bit() {
    for level in Level::all() {
        for case in [
            case([9, 12, 12, 2], Window::new([3, 3], [1, 1]), 8, 1),
            case([5, 12, 12, 20], Window::new([3, 3], [2, 2]).same([12, 12]).expect("padding"), 40, 1),
        ] {
            let conv = case.conv();
            let with = |threads: usize| {
                with_threads(threads, || {
                    let x = numbers(case.image.count().expect("a count"), 1);
                    let kernel = numbers(conv.kernel_len(), 2);
                    let mut y = vec![0.0; conv.output().count().expect("a count")];
                    let (mut dx, mut dkernel) = (vec![0.0; x.len()], vec![0.0; kernel.len()]);
                    let mut scratch = vec![0.0; conv.scratch(level)];
                    conv.forward(level, &x, &kernel, None, Activation::Linear, &mut y, &mut scratch);
                    conv.input_gradient(level, &y, &kernel, &mut dx, &mut scratch);
                    conv.kernel_gradient(level, &x, &y, &mut dkernel, &mut scratch);
                    (y, dx, dkernel)
                })
            };
            assert!(with(1) == with(3), "{level:?}");
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let image = Image { batch: 1, height: 4, width: 4, channels: 4 };
    let window = Window::new([3, 3], [1, 1]);
    assert!(Conv2d::new(image, window, 4, 1).is_some());
    assert!(Conv2d::new(image, window, 0, 1).is_none());
    assert!(Conv2d::new(image, window, 6, 4).is_none());
    assert!(Conv2d::new(image, window, usize::MAX, 1).is_none());
    assert!(Conv2d::new(image, Window::new([5, 5], [1, 1]), 4, 1).is_none());
    for size in [0, usize::MAX] {
        let odd = [
            Window { size: [size, 1], ..window },
            Window { stride: [1, size], ..window },
            Window { dilation: [size, 1], ..window },
        ];
        assert!(odd.iter().all(|&window| Conv2d::new(image, window, 4, 1).is_none()), "{size}");
    }
    for padding in [usize::MAX, usize::MAX / 2] {
        assert!(Conv2d::new(image, Window { padding: [[padding; 2]; 2], ..window }, 4, 1).is_none());
    }
    assert!(Conv2d::new(Image { height: usize::MAX, ..image }, window, 4, 1).is_none());
}
