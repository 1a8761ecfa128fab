//! Pooling with windows of every kind.

use crate::support::{near, numbers, with_threads};
use phalanx_base::SplitMix;
use phalanx_matmul::{Image, Level, Pool2d, Window, global_mean, global_mean_gradient};

/// The pixels of each window that are inside the image, as places in a channel-less image.
fn windows(image: Image, window: Window, output: Image) -> Vec<Vec<(u32, usize)>> {
    let inside = |place: usize, tap: usize, axis: usize, length: usize| {
        let at = (place * window.stride[axis] + tap * window.dilation[axis]).checked_sub(window.padding[axis][0])?;
        (at < length).then_some(at)
    };
    let mut windows = Vec::new();
    for (y, x) in (0..output.height).flat_map(|y| (0..output.width).map(move |x| (y, x))) {
        let mut pixels = Vec::new();
        for (i, j) in (0..window.size[0]).flat_map(|i| (0..window.size[1]).map(move |j| (i, j))) {
            if let (Some(row), Some(column)) = (inside(y, i, 0, image.height), inside(x, j, 1, image.width)) {
                pixels.push(((i * window.size[1] + j) as u32, row * image.width + column));
            }
        }
        windows.push(pixels);
    }
    windows
}

fn check(level: Level, image: Image, window: Window) {
    let pool = Pool2d::new(image, window).expect("pooling");
    let count = |image: Image| image.count().expect("a count");
    let (x, dy) = (numbers(count(image), 1), numbers(count(pool.output()), 2));
    let [mut max, mut mean] = [(); 2].map(|()| vec![f32::NAN; dy.len()]);
    let [mut max_dx, mut mean_dx] = [(); 2].map(|()| vec![f32::NAN; x.len()]);
    let mut places = vec![77; dy.len()];
    pool.max(level, &x, &mut max, &mut places);
    pool.max_gradient(level, &dy, &places, &mut max_dx);
    pool.mean(level, &x, &mut mean);
    pool.mean_gradient(level, &dy, &mut mean_dx);
    let (mut exact_max_dx, mut exact_mean_dx) = (vec![0.0_f64; x.len()], vec![0.0_f64; x.len()]);
    let windows = windows(image, window, pool.output());
    for at in 0..dy.len() {
        let (pixel, channel) = (at / image.channels, at % image.channels);
        let start = pixel / windows.len() * image.height * image.width;
        let of = |place: usize| (start + place) * image.channels + channel;
        let pixels = &windows[pixel % windows.len()];
        if pixels.is_empty() {
            assert_eq!((max[at], mean[at]), (0.0, 0.0), "{image:?} {window:?}");
            continue;
        }
        // The first of equal numbers: `max_by` returns the last one.
        let best = pixels.iter().rev().max_by(|a, b| x[of(a.1)].total_cmp(&x[of(b.1)])).expect("a pixel");
        assert_eq!((max[at], places[at]), (x[of(best.1)], best.0), "{image:?} {window:?} {level:?}");
        exact_max_dx[of(best.1)] += f64::from(dy[at]);
        let sum: f64 = pixels.iter().map(|pixel| f64::from(x[of(pixel.1)])).sum();
        near(mean[at], sum / pixels.len() as f64, 1e-6, 8.0, || format!("{image:?} {window:?} {level:?}"));
        pixels.iter().for_each(|pixel| exact_mean_dx[of(pixel.1)] += f64::from(dy[at]) / pixels.len() as f64);
    }
    for (got, exact) in max_dx.iter().zip(&exact_max_dx).chain(mean_dx.iter().zip(&exact_mean_dx)) {
        near(*got, *exact, 2e-6, 64.0, || format!("{image:?} {window:?} {level:?}"));
    }
}

#[test]
fn windows_of_every_kind() {
    let mut random = SplitMix::new(11);
    let mut below = |bound: usize| random.below(bound);
    let mut cases = 0;
    while cases < 150 {
        let image = Image { batch: below(3), height: below(9) + 1, width: below(9) + 1, channels: below(35) + 1 };
        let window = Window {
            size: [below(4) + 1, below(4) + 1],
            stride: [below(3) + 1, below(3) + 1],
            dilation: [below(2) + 1, below(2) + 1],
            padding: [[below(3), below(3)], [below(3), below(3)]],
        };
        if window.output([image.height, image.width]).is_some() {
            Level::all().for_each(|level| check(level, image, window));
            cases += 1;
        }
    }
    let image = Image { batch: 2, height: 26, width: 26, channels: 32 };
    Level::all().for_each(|level| check(level, image, Window::new([2, 2], [2, 2])));
    Level::all().for_each(|level| check(level, image, Window::new([12, 11], [3, 4])));
}

#[test]
fn nan_is_the_maximum() {
    for level in Level::all() {
        let image = Image { batch: 1, height: 1, width: 3, channels: 1 };
        let pool = Pool2d::new(image, Window::new([1, 3], [1, 1])).expect("pooling");
        for x in [[f32::NAN, 1.0, 2.0], [1.0, f32::NAN, 2.0], [1.0, 2.0, f32::NAN]] {
            let (mut y, mut places) = ([0.0], [9]);
            pool.max(level, &x, &mut y, &mut places);
            assert!(y[0].is_nan() && x[places[0] as usize].is_nan(), "{x:?} {level:?}");
        }
    }
}

#[test]
fn means_of_images() {
    for level in Level::all() {
        for (height, width, channels) in [(1, 1, 1), (3, 5, 7), (8, 8, 64), (0, 4, 3)] {
            let image = Image { batch: 3, height, width, channels };
            let x = numbers(image.count().expect("a count"), 1);
            let (mut y, dy, mut dx) = (vec![f32::NAN; 3 * channels], numbers(3 * channels, 2), vec![f32::NAN; x.len()]);
            global_mean(level, image, &x, &mut y);
            global_mean_gradient(level, image, &dy, &mut dx);
            let pixels = height * width;
            for (at, &y) in y.iter().enumerate() {
                let of = |pixel: usize| (at / channels * pixels + pixel) * channels + at % channels;
                let sum: f64 = (0..pixels).map(|pixel| f64::from(x[of(pixel)])).sum();
                near(y, sum / pixels.max(1) as f64, 1e-6, 8.0, || format!("{image:?}"));
                (0..pixels)
                    .for_each(|pixel| near(dx[of(pixel)], f64::from(dy[at]) / pixels as f64, 1e-6, 1.0, String::new));
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let image = Image { batch: 7, height: 20, width: 20, channels: 32 };
    let pool = Pool2d::new(image, Window::new([3, 3], [2, 2])).expect("pooling");
    let (x, outputs) = (numbers(image.count().expect("a count"), 1), pool.output().count().expect("a count"));
    for level in Level::all() {
        let with = |threads: usize| {
            with_threads(threads, || {
                let (mut y, mut places, mut dx) = (vec![0.0; outputs], vec![0; outputs], vec![0.0; x.len()]);
                pool.max(level, &x, &mut y, &mut places);
                pool.max_gradient(level, &y, &places, &mut dx);
                (y, places, dx)
            })
        };
        assert!(with(1) == with(3), "{level:?}");
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let image = Image { batch: 1, height: 4, width: 4, channels: 4 };
    let window = Window::new([2, 2], [2, 2]);
    assert!(Pool2d::new(image, window).is_some());
    assert!(Pool2d::new(image, Window::new([5, 2], [2, 2])).is_none());
    assert!(Pool2d::new(image, Window { stride: [0, 1], ..window }).is_none());
    assert!(Pool2d::new(image, Window { size: [1 << 40; 2], dilation: [usize::MAX; 2], ..window }).is_none());
    assert!(Pool2d::new(image, Window { padding: [[usize::MAX; 2]; 2], ..window }).is_none());
    assert!(Pool2d::new(Image { channels: 0, ..image }, window).is_none());
    assert!(Pool2d::new(Image { batch: usize::MAX, ..image }, window).is_none());
}
