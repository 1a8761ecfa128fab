//! Where a server writes the numbers of an answer: where they will be sent from, if it can be.

use crate::neighbour::{AnswerHalf, Room};
use crate::spares::{Spare, Spares};
use bytes::Bytes;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Memory for the numbers of one answer.
pub struct Space(Place);

enum Place {
    Own(Vec<u8>),
    Spare(Spare),
    Room(AnswerHalf),
}

impl Space {
    pub(crate) fn own(len: usize) -> Self {
        Self(Place::Own(vec![0; len]))
    }

    /// Inside of a process, memory that served before; where that is worth it.
    pub(crate) fn spare(spares: &Arc<Spares>, len: usize) -> Self {
        spares.take(len).map_or_else(|| Self::own(len), |spare| Self(Place::Spare(spare)))
    }

    /// Between neighbours, the memory they share; where there is enough. The caller gives the room out once for a request.
    pub(crate) fn in_room(room: Arc<Room>, len: usize) -> Self {
        AnswerHalf::new(room, len).map_or_else(|| Self::own(len), |half| Self(Place::Room(half)))
    }
}

impl Deref for Space {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Own(bytes) => bytes,
            Place::Spare(spare) => spare.as_ref(),
            Place::Room(half) => half.as_ref(),
        }
    }
}

impl DerefMut for Space {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Place::Own(bytes) => bytes,
            Place::Spare(spare) => spare.as_mut(),
            Place::Room(half) => half.as_mut(),
        }
    }
}

impl From<Space> for Bytes {
    fn from(space: Space) -> Self {
        match space.0 {
            Place::Own(bytes) => bytes.into(),
            Place::Spare(spare) => Self::from_owner(spare),
            Place::Room(half) => half.into(),
        }
    }
}
