//! Seeded ratings: a user likes an item if the tastes of both agree, with a little noise.

use phalanx::data::{Batch, Column, Dataset};
use phalanx_base::SplitMix;

const USERS: usize = 1000;
const ITEMS: usize = 300;
const TASTES: usize = 4;

/// Returns this many ratings: `user`, `item`, and the label `liked`.
pub(crate) fn ratings(count: usize, seed: u64) -> phalanx::Result<Dataset> {
    let mut random = SplitMix::new(seed);
    let (mut users, mut items, mut liked) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let (user, item) = (random.below(USERS), random.below(ITEMS));
        let agreement: f32 = (0..TASTES).map(|taste| number(user, taste) * number(USERS + item, taste)).sum();
        let noise = random.below(1000) as f32 / 1000.0 - 0.5;
        users.push(user as i64);
        items.push(item as i64);
        liked.push(f32::from(u8::from(agreement + 0.4 * noise > 0.0)));
    }
    let columns = [("user", Column::i64(users)), ("item", Column::i64(items)), ("liked", Column::f32(liked))];
    Ok(Dataset::from_tensor_slices(Batch::new(columns)?.with_label("liked")?))
}

/// Returns a number between -1 and 1 that belongs to a user or an item.
fn number(id: usize, taste: usize) -> f32 {
    SplitMix::new((id * TASTES + taste) as u64).below(2001) as f32 / 1000.0 - 1.0
}
