//! A shuffle's place: what was drawn is drawn again, in numbers only; then what is in the buffer is read again.

use super::super::node::ElementKind;
use super::stage::{ShuffleStage, Slot};
use crate::batch::RowWriter;
use crate::position::{Loader, Saver, damaged};
use phalanx_base::Result;

/// What is stored: three or four numbers and the input's place before the oldest element in the buffer.
pub(super) struct Saved<'a> {
    drawn: u64,
    /// The number of elements there are, once the input has ended.
    total: Option<u64>,
    /// The place in the input's order of the first element that is read again.
    first: u64,
    place: &'a [u8],
    /// Without a mark the input stands where it was opened.
    stage: Option<&'a ShuffleStage>,
}

impl<'a> Saved<'a> {
    pub(super) fn of(stage: &'a ShuffleStage) -> Self {
        // With an empty buffer nothing is read again: the input's own place is the newest mark, or where it was opened.
        let oldest = if stage.slots.is_empty() { stage.next_ordinal } else { stage.oldest };
        let mark = stage.marks.iter().rev().find(|&&(first, _)| first <= oldest);
        let (first, place) = mark.map_or((stage.next_ordinal, &[][..]), |(first, place)| (*first, place));
        let total = stage.ended.then_some(stage.next_ordinal);
        Self { drawn: stage.drawn, total, first, place, stage: mark.is_none().then_some(stage) }
    }

    pub(super) fn save(&self, out: &mut Saver) {
        out.u64(self.drawn);
        out.u64(self.total.map_or(0, |total| total + 1));
        out.u64(self.first);
        match self.stage {
            Some(stage) => stage.upstream.save(out),
            None => out.raw(self.place),
        }
    }

    pub(super) fn load(from: &mut Loader<'_>) -> Result<Self> {
        let (drawn, total, first) = (from.u64()?, from.u64()?.checked_sub(1), from.u64()?);
        if total.is_some_and(|total| drawn > total || first > total) {
            return Err(damaged("a shuffle has drawn more than there is"));
        }
        Ok(Self { drawn, total, first, place: &[], stage: None })
    }

    /// Brings a stage whose input was opened at the saved place to where it was.
    pub(super) fn resume(&self, mut stage: ShuffleStage) -> Result<ShuffleStage> {
        self.draw_again(&mut stage);
        self.read_again(&mut stage)?;
        Ok(stage)
    }

    /// Which elements are in which slot follows from the numbers drawn alone.
    fn draw_again(&self, stage: &mut ShuffleStage) {
        let total = self.total.unwrap_or(u64::MAX);
        for _ in 0..self.drawn {
            while stage.has_room() && stage.next_ordinal < total {
                stage.enter();
            }
            stage.close();
            stage.hole = stage.pick();
        }
        (stage.drawn, stage.looked_up, stage.oldest) = (self.drawn, self.drawn, self.first);
        // Elements after the last draw enter by themselves, as they are read.
    }

    /// Reads from the first element still in the buffer to the last one that ever entered it.
    fn read_again(&self, stage: &mut ShuffleStage) -> Result<()> {
        let slots = stage.ordinals.iter().copied().zip(0..);
        let mut wanted: Vec<(u64, usize)> = slots.filter(|&(_, slot)| Some(slot) != stage.hole).collect();
        wanted.sort_unstable();
        if wanted.first().is_some_and(|&(oldest, _)| oldest < self.first) || self.first > stage.next_ordinal {
            return Err(damaged("a shuffle's buffer begins before its place"));
        }
        let mut wanted = wanted.as_slice();
        let mut at = self.first;
        while at < stage.next_ordinal {
            let mut before = Saver::default();
            stage.upstream.save(&mut before);
            let max = usize::try_from(stage.next_ordinal - at).unwrap_or(stage.block).min(stage.block);
            let chunk = stage.upstream.next(max)?.ok_or_else(|| damaged("the input is shorter than it was"))?;
            stage.marks.push_back((at, before.into_vec()));
            let end = at + stage.kind.elements(&chunk) as u64;
            let (now, later) = wanted.split_at(wanted.partition_point(|&(ordinal, _)| ordinal < end));
            let (writer, layout) = (RowWriter::new(&chunk), stage.layout_of(&chunk));
            for &(ordinal, slot) in now {
                let slot: &mut Slot = &mut stage.slots[slot];
                slot.layout = layout;
                match stage.kind {
                    ElementKind::Rows => writer.write((ordinal - at) as usize, &mut slot.bytes),
                    ElementKind::Batches => slot.batch = Some(chunk.clone()),
                }
            }
            (wanted, at) = (later, end);
        }
        if wanted.is_empty() { Ok(()) } else { Err(damaged("the input is shorter than it was")) }
    }
}
