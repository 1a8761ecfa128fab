//! Errors, threads and caches of a pipeline.

use crate::common::{Op, Parts, all, apply, value_of, values};
use phalanx_base::{Code, Error};
use phalanx_data::{AUTOTUNE, Batch, Column, Dataset, Parallel};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn fails_at(bad: i64) -> impl Fn(Batch) -> phalanx_base::Result<Batch> + Clone {
    move |row| {
        let values = row.i64("value")?;
        if values.contains(&bad) { Err(Error::new(Code::DataRow, "seven is bad")) } else { Ok(row) }
    }
}

/// The values before the error, and the error; nothing may follow it.
fn until_error(data: &Dataset) -> (Vec<i64>, Error) {
    let mut iter = data.iter().unwrap();
    let mut seen = Vec::new();
    loop {
        match iter.next() {
            Some(Ok(batch)) => seen.extend_from_slice(batch.i64("value").unwrap()),
            Some(Err(error)) => {
                assert!(iter.next().is_none(), "an error comes once, then the end");
                return (seen, error);
            }
            None => panic!("no error came"),
        }
    }
}

#[test]
fn an_error_comes_in_its_place_and_once() {
    let range = || Dataset::range(0, 100, 1);
    let pipelines = [
        range().map(fails_at(7)),
        range().map(fails_at(7)).prefetch(50),
        range().map_parallel(Parallel::calls(3), fails_at(7)),
        range().map_parallel(Parallel::calls(3), fails_at(7)).prefetch(3),
        range().filter(|row| if value_of(row) == 7 { Err(Error::new(Code::DataRow, "bad")) } else { Ok(true) }),
        range().flat_map(|row| {
            if value_of(&row) == 7 {
                Err(Error::new(Code::DataRow, "bad"))
            } else {
                Ok(Dataset::from_tensor_slices(row))
            }
        }),
        Dataset::from_source(Arc::new(Parts { lens: vec![100], at_most: 64, bad: Some(7) })),
        Dataset::from_source_interleaved(Arc::new(Parts { lens: vec![100], at_most: 64, bad: Some(7) }), 2),
        range().map(fails_at(7)).cache(),
        range().map(fails_at(7)).repeat(),
    ];
    for data in pipelines {
        let (seen, error) = until_error(&data);
        assert_eq!(seen, (0..7).collect::<Vec<i64>>(), "{data:?}");
        assert_eq!(error.code(), Code::DataRow);
        assert!(error.place().is_some(), "{data:?}: {error:?}");
    }
}

#[test]
fn a_position_before_an_error_leads_to_the_error_again() {
    for parallel in [Parallel::default(), Parallel::calls(2)] {
        let data = Dataset::range(0, 100, 1).map_parallel(parallel, fails_at(7));
        let mut iter = data.iter().unwrap();
        while iter.next().is_some_and(|element| element.is_ok()) {}
        let mut again = data.iter_from(&iter.position()).unwrap();
        assert!(again.next().unwrap().is_err());
    }
}

#[test]
fn a_panic_of_user_code_on_a_thread_is_an_error() {
    let panics = |row: Batch| if value_of(&row) == 3 { panic!("three") } else { Ok(row) };
    for data in [
        Dataset::range(0, 9, 1).map_parallel(Parallel::calls(2), panics),
        Dataset::range(0, 9, 1).map(panics).prefetch(2),
    ] {
        let error = all(&data).unwrap_err();
        assert!(error.to_string().contains("three"), "{error}");
    }
}

/// Counts how many of it are alive.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn threads_end_with_the_iterator() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let endless = Dataset::from_fn(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        let alive = Alive(counter.clone());
        (0_i64..).map(move |value| {
            let _held = &alive;
            Batch::new([("value", Column::i64(vec![value]))])
        })
    });
    let data = endless
        .map_parallel(Parallel { calls: 3, deterministic: Some(false) }, Ok)
        .prefetch(10)
        .shuffle(10)
        .interleave(
            |row| Ok(Dataset::from_tensor_slices(row).repeat()),
            phalanx_data::Interleave { cycle_length: 3, num_parallel_calls: 3, ..Default::default() },
        )
        .batch(4)
        .prefetch(AUTOTUNE);
    for taken in [0, 1, 20] {
        let mut iter = data.iter().unwrap();
        for _ in 0..taken {
            iter.next().unwrap().unwrap();
        }
        drop(iter);
        assert_eq!(count.load(Ordering::SeqCst), 0, "the generator lives on");
    }
}

#[test]
fn work_ahead_is_bounded() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    let data = Dataset::range(0, 1_000_000, 1)
        .batch(1)
        .map(move |batch| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(batch)
        })
        .prefetch(5);
    let mut iter = data.iter().unwrap();
    for taken in 1..=200 {
        iter.next().unwrap().unwrap();
        while made.load(Ordering::SeqCst) < taken + 5 {
            std::thread::yield_now();
        }
        let made = made.load(Ordering::SeqCst);
        assert!(made <= taken + 6, "{made} made, {taken} taken");
    }
}

#[test]
fn a_memory_cache_asks_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let data = Dataset::range(0, 10, 1)
        .map(move |row| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(row)
        })
        .cache();
    let mut begun = data.iter().unwrap();
    begun.next();
    drop(begun);
    calls.store(0, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(values(&all(&data).unwrap()), (0..10).collect::<Vec<i64>>());
    }
    assert_eq!(calls.load(Ordering::SeqCst), 10, "an unfinished pass does not fill the cache, a whole one does");
}

fn mixed() -> Batch {
    Batch::new([
        ("value", Column::i64((0..5).collect())),
        ("x", Column::f32(vec![0.5; 10]).with_row_shape([2]).unwrap()),
        ("pixels", Column::u8(vec![7; 20]).with_row_shape([2, 2]).unwrap()),
        ("word", Column::text(["a", "", "ccc", "dd", "e"])),
        ("ids", Column::i64(vec![1, 2, 3]).with_splits(vec![0, 2, 2, 2, 3, 3]).unwrap()),
    ])
    .unwrap()
    .with_label("value")
    .unwrap()
}

#[test]
fn a_file_cache_holds_every_kind_of_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    for batched in [false, true] {
        let path = path.with_extension(batched.to_string());
        let make = || {
            let data = Dataset::from_tensor_slices(mixed());
            if batched { data.batch(2).cache_in(&path) } else { data.cache_in(&path) }
        };
        let first = all(&make()).unwrap();
        assert!(path.exists());
        assert_eq!(all(&make()).unwrap(), first);
        assert_eq!(first[0].label().unwrap().rows(), if batched { 2 } else { 1 });
        assert_eq!(Batch::concat(&first).unwrap(), mixed());
    }
    let other = Dataset::range(0, 3, 1).cache_in(path.with_extension("true"));
    assert!(other.iter().unwrap_err().to_string().contains("another pipeline"));
    let mut begun = Dataset::range(0, 3, 1).cache_in(folder.path().join("unfinished"));
    begun.iter().unwrap().next();
    begun = begun.take(1);
    all(&begun).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "an unfinished cache leaves nothing: {left:?}");
}

#[test]
fn rows_of_different_shapes_travel_together_until_they_are_batched() {
    let make = || {
        Dataset::range(1, 20, 1).map(|row| {
            let value = value_of(&row);
            let column = Column::i64(vec![value; value as usize % 3 + 1]).with_row_shape([value as usize % 3 + 1])?;
            row.with_column("value", column)
        })
    };
    let shuffled = make().shuffle_seeded(7, 3).padded_batch(4, [("value", phalanx_data::Padding::default())], false);
    let total: i64 = values(&all(&shuffled).unwrap()).iter().sum();
    assert_eq!(total, (1..20).map(|value: i64| value * (value % 3 + 1)).sum::<i64>());
    let error = all(&make().batch(4)).unwrap_err();
    assert!(error.to_string().contains("different shapes"), "{error}");
}

#[test]
fn zip_and_concatenate_check_their_columns() {
    let other = |name: &str| Dataset::from_tensor_slices(Batch::new([(name, Column::f32(vec![1.0]))]).unwrap());
    assert!(all(&Dataset::range(0, 3, 1).zip(Dataset::range(0, 3, 1))).is_err());
    let error = all(&Dataset::range(0, 3, 1).concatenate(other("value"))).unwrap_err();
    assert!(error.to_string().contains("value: int64"), "{error}");
    assert!(Dataset::range(0, 3, 1).batch(2).zip(other("x")).iter().is_err());
}

#[test]
fn shuffling_mixes_well_and_keeps_to_its_buffer() {
    let data = Dataset::range(0, 10_000, 1).shuffle_seeded(100, 1);
    let order = values(&all(&data).unwrap());
    assert!(
        order.iter().enumerate().all(|(place, &value)| value < place as i64 + 100),
        "nothing comes before it was read"
    );
    let mut moved: Vec<i64> = order.iter().enumerate().map(|(place, &value)| place as i64 - value).collect();
    moved.sort_unstable();
    let late = moved[moved.len() / 2];
    assert!((-60..60).contains(&late), "median delay {late}");
    let whole = values(&all(&Dataset::range(0, 1000, 1).shuffle_seeded(1000, 2)).unwrap());
    let first_half: usize = whole[..500].iter().filter(|&&value| value < 500).count();
    assert!((200..300).contains(&first_half), "{first_half} of the first half stayed in it");
}

#[test]
fn wrong_settings_are_said_by_iter() {
    let range = || Dataset::range(0, 3, 1);
    for (data, text) in [
        (range().batch(0), "batch size must be greater than zero"),
        (range().shuffle(0), "buffer_size must be greater than zero"),
        (range().shard((2, 2)), "index must be between 0 and 1"),
        (range().shard((0, 0)), "number of shards must be greater than zero"),
        (Dataset::range(0, 3, 0), "step must be a non-zero integer"),
        (range().batch(0).repeat().prefetch(3), "batch size must be greater than zero"),
    ] {
        let error = data.iter().unwrap_err();
        assert_eq!((error.what(), error.code()), (text, Code::BadSetting));
    }
}

#[test]
fn parallel_maps_keep_order_under_load() {
    let data = apply(Dataset::range(0, 5000, 1), &Op::MapParallel(4, None));
    assert_eq!(values(&all(&data).unwrap()), (0..5000).map(|value| value * 2).collect::<Vec<i64>>());
}
