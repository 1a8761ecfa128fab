use crate::record::{HEAD, SEGMENT_HEAD};
use crate::segment::fuel;
use crate::{Found, Heap, Space, Wal, WalOptions};
use phalanx_base::{Code, Result};
use proptest::prelude::*;

const SIZE: usize = 512;
const OPTIONS: WalOptions = WalOptions { log: 77, most_segments: 4 };

/// A record: its position, its kind, and the first byte of its body.
type Seen = (u64, u32, u8);

fn create(memory: &Heap) -> Wal {
    Wal::create(Box::new(memory.clone()), OPTIONS).unwrap()
}

/// Returns the complete records from `from` on, by their first byte, and how many torn ones there are.
fn recover(memory: &Heap, from: u64) -> Result<(Wal, Vec<Seen>, usize)> {
    let (mut found, mut torn) = (Vec::new(), 0);
    let wal = Wal::recover(Box::new(memory.clone()), OPTIONS, from, |record| {
        match record {
            Found::Record { position, kind, body } => {
                let first = body.first().copied().unwrap_or(0);
                assert!(body.iter().all(|&byte| byte == first), "a record has another's bytes");
                found.push((position, kind, first));
            }
            Found::Torn { .. } => torn += 1,
        }
        Ok(())
    })?;
    Ok((wal, found, torn))
}

/// Appends, truncates and recovers by a script; returns the records that were acknowledged, and where the last snapshot that
/// was published begins.
fn run(memory: &Heap, script: &[(u8, usize)]) -> (Vec<Seen>, u64) {
    let wal = create(memory);
    let (mut acknowledged, mut from) = (Vec::new(), 0);
    for (number, &(what, len)) in script.iter().enumerate() {
        if !fuel::is_left() {
            break;
        }
        let byte = (number % 250) as u8 + 1;
        if what == 0 {
            // Published, and then truncated.
            from = wal.end();
            acknowledged.clear();
            wal.truncate(from);
        } else if what == 1 {
            drop(wal.reserve(9, len));
        } else if let Ok(position) = wal.append(u32::from(what), &[&vec![byte; len / 2], &vec![byte; len - len / 2]])
            && fuel::is_left()
        {
            acknowledged.push((position, u32::from(what), if len == 0 { 0 } else { byte }));
        }
    }
    (acknowledged, from)
}

fn script() -> impl Strategy<Value = Vec<(u8, usize)>> {
    proptest::collection::vec((0_u8..8, 0_usize..180), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever store is the last one, everything acknowledged is found, in its order, and nothing that was not appended.
    #[test]
    fn a_process_that_dies_at_any_store_loses_nothing_acknowledged(script in script(), first in 0_u64..40) {
        for stores in (first..).step_by(37) {
            let memory = Heap::new(SIZE);
            fuel::set(Some(stores));
            // A log that has no first segment yet has acknowledged nothing.
            let (acknowledged, from) = run(&memory, &script);
            let finished = fuel::is_left();
            fuel::set(None);
            match recover(&memory, from) {
                Ok((_, found, _)) => {
                    let missing = acknowledged.iter().find(|record| !found.contains(record));
                    prop_assert!(missing.is_none(), "{missing:?} after {stores} stores");
                    prop_assert!(found.is_sorted());
                    prop_assert!(found.len() <= acknowledged.len() + 1, "one more may be complete and not acknowledged");
                }
                Err(error) => prop_assert!(acknowledged.is_empty() && stores < 10, "{error} after {stores} stores"),
            }
            if finished {
                break;
            }
        }
    }

    /// A log that was recovered continues, and is recovered again.
    #[test]
    fn a_recovered_log_goes_on(script in script(), more in 1_usize..20) {
        let memory = Heap::new(SIZE);
        let (mut acknowledged, from) = run(&memory, &script);
        let (wal, found, _) = recover(&memory, from).unwrap();
        prop_assert_eq!(&found, &acknowledged);
        for _ in 0..more {
            if let Ok(position) = wal.append(3, &[&[5; 20]]) {
                acknowledged.push((position, 3, 5));
            }
        }
        drop(wal);
        prop_assert_eq!(recover(&memory, from).unwrap().1, acknowledged);
    }

    /// A flipped bit of a record or of a head is found, or lies where nothing is read.
    #[test]
    fn a_flipped_bit_is_refused(script in script(), at in 0_usize..(4 * SIZE), bit in 0_u32..64) {
        let memory = Heap::new(SIZE);
        let (acknowledged, from) = run(&memory, &script);
        let segments = memory.existing().unwrap();
        let segment = &segments[at / SIZE % segments.len()];
        let at = at % SIZE / 8 * 8;
        segment.set_word(at, segment.word(at) ^ 1 << bit);
        if let Ok((_, found, _)) = recover(&memory, from) {
            prop_assert_eq!(found, acknowledged);
        }
    }
}

#[test]
fn a_durability_is_read_by_its_name_and_one_that_is_not_available_is_refused() {
    use crate::Durability;
    for name in Durability::NAMES {
        assert_eq!(name.parse::<Durability>().unwrap().to_string(), *name);
    }
    let error = "replica".parse::<Durability>().unwrap_err();
    assert!(error.code() == Code::BadSetting && error.to_string().contains("not available"), "{error}");
    assert_eq!("logs".parse::<Durability>().unwrap_err().code(), Code::BadSetting);
}

#[test]
fn a_full_log_refuses_until_it_is_truncated() {
    let memory = Heap::new(SIZE);
    let wal = create(&memory);
    let filled = (0..100).take_while(|_| wal.append(2, &[&[1; 100]]).is_ok()).count();
    assert!((8..100).contains(&filled), "{filled}");
    assert_eq!(wal.append(2, &[&[1; 100]]).unwrap_err().code(), Code::LogFull);
    assert!(wal.held() > 3 * SIZE as u64 && wal.held() <= wal.capacity());
    wal.truncate(wal.end());
    assert!(wal.append(2, &[&[1; 100]]).is_ok());
    assert!(wal.append(2, &[&[1; SIZE]]).is_err(), "longer than a segment");
}

#[test]
fn a_record_that_was_not_committed_is_torn_and_those_behind_it_are_found() {
    let memory = Heap::new(SIZE);
    let wal = create(&memory);
    let mut first = wal.reserve(2, 40).unwrap();
    first.push(&[1; 39]);
    let behind = wal.append(3, &[&[7; 10]]).unwrap();
    drop((first, wal));
    let (wal, found, torn) = recover(&memory, 0).unwrap();
    assert_eq!((found, torn), (vec![(behind, 3, 7)], 1));
    wal.append(4, &[]).unwrap();
}

#[test]
fn a_missing_segment_and_another_logs_segments_are_told_apart() {
    let memory = Heap::new(SIZE);
    let wal = create(&memory);
    (0..8).for_each(|_| assert!(wal.append(2, &[&[1; 100]]).is_ok()));
    drop(wal);
    let other = WalOptions { log: 78, ..OPTIONS };
    assert_eq!(Wal::recover(Box::new(memory.clone()), other, 0, |_| Ok(())).err().unwrap().code(), Code::LogDamaged);
    let second = memory.existing().unwrap().into_iter().find(|segment| segment.word(16) == 1).unwrap();
    second.set_word(0, 0);
    let error = recover(&memory, 0).err().unwrap();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_damaged_body_is_named_by_its_place() {
    let memory = Heap::new(SIZE);
    let wal = create(&memory);
    let at = wal.append(2, &[&[1; 100]]).unwrap();
    drop(wal);
    let segment = memory.existing().unwrap().remove(0);
    let word = SEGMENT_HEAD + HEAD + 16;
    segment.set_word(word, segment.word(word) ^ 4);
    let error = recover(&memory, 0).err().unwrap();
    assert_eq!(error.code(), Code::LogDamaged);
    assert!(error.to_string().contains(&format!("at byte {at}")), "{error}");
}
