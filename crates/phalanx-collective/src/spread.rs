//! Broadcast, gather and barrier.

use crate::exchange::{Into, Member};
use phalanx_base::{Code, Error, Result};

/// What one call may gather from all members together; checked before memory is taken for it.
pub(crate) const GATHER_BYTES: u64 = 4 << 30;

impl Member {
    /// A tree from the root: who has the bytes gives them to one who has not.
    pub(crate) fn broadcast(&mut self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let n = self.size;
        // Distances from the root: the lowest bit that is set says whom a member gets the bytes from.
        let own = (self.rank + n - root) % n;
        let mut bit = 1;
        while bit < n {
            if own & bit != 0 {
                let from = (self.rank + n - bit) % n;
                self.exchange(None, Some((from, Into::Copy(bytes))))?;
                break;
            }
            bit <<= 1;
        }
        while bit > 1 {
            bit >>= 1;
            if own + bit < n {
                self.exchange(Some(((self.rank + bit) % n, bytes)), None)?;
            }
        }
        Ok(())
    }

    /// The same for bytes whose number only the root knows.
    pub(crate) fn broadcast_sized(&mut self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let mut size = bytes.len() as u64;
        self.broadcast(root, bytemuck::bytes_of_mut(&mut size))?;
        if size > GATHER_BYTES {
            return Err(Error::new(Code::BadMessage, "too much is broadcast at once")
                .because(format!("{size} bytes, at most {GATHER_BYTES} are accepted"))
                .help("broadcast in several calls"));
        }
        bytes.resize(size as usize, 0);
        self.broadcast(root, bytes)
    }

    /// Nobody leaves before everybody has come: each hears, in log₂ n rounds, of twice as many.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        let (n, rank) = (self.size, self.rank);
        let mut distance = 1;
        while distance < n {
            let (to, from) = ((rank + distance) % n, (rank + n - distance) % n);
            self.exchange(Some((to, &[])), Some((from, Into::Copy(&mut []))))?;
            distance <<= 1;
        }
        Ok(())
    }

    /// Everybody's bytes, by rank, going round.
    pub(crate) fn all_gather(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut sizes = vec![0_u64; self.size];
        sizes[self.rank] = own.len() as u64;
        self.round(&mut sizes, |size| bytemuck::bytes_of(size), |size| bytemuck::bytes_of_mut(size))?;
        // Each one is checked: their sum must not overflow.
        let total = sizes.iter().try_fold(0_u64, |sum, &size| sum.checked_add(size));
        if total.is_none_or(|total| total > GATHER_BYTES) {
            return Err(Error::new(Code::BadMessage, "too much is gathered at once")
                .because(format!("the members bring {sizes:?} bytes, at most {GATHER_BYTES} are accepted together"))
                .help("gather in several calls"));
        }
        let mut all: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0; size as usize]).collect();
        all[self.rank].copy_from_slice(own);
        self.round(&mut all, |bytes| bytes, |bytes| bytes)?;
        Ok(all)
    }

    /// Sends on what came last, until everybody has everything.
    fn round<T>(
        &mut self,
        items: &mut [T],
        bytes: impl Fn(&T) -> &[u8],
        bytes_mut: impl Fn(&mut T) -> &mut [u8],
    ) -> Result<()> {
        let (n, rank) = (self.size, self.rank);
        let (next, previous) = ((rank + 1) % n, (rank + n - 1) % n);
        for step in 0..n - 1 {
            let (given, taken) = ((rank + n - step) % n, (rank + 2 * n - step - 1) % n);
            let Ok([given, taken]) = items.get_disjoint_mut([given, taken]) else {
                return Err(Error::new(Code::Internal, "a ring of one has no steps"));
            };
            self.exchange(Some((next, bytes(given))), Some((previous, Into::Copy(bytes_mut(taken)))))?;
        }
        Ok(())
    }
}
