//! Broadcast, gather and barrier.

use crate::exchange::{Into, Member};
use phalanx_base::{Code, Error, Result};

/// The most bytes that one call may gather from all members together; checked before memory is allocated.
pub(crate) const GATHER_BYTES: u64 = 4 << 30;

impl Member {
    /// Sends the root's bytes down a binomial tree.
    pub(crate) fn broadcast(&mut self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let n = self.size;
        // The lowest set bit of the distance from the root determines from which member the bytes come.
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

    /// Broadcasts bytes whose count only the root knows.
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

    /// A dissemination barrier: in each of log₂ n rounds, a member learns of twice as many others.
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

    /// Gathers the bytes of all members by rank, around a ring.
    pub(crate) fn all_gather(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut sizes = vec![0_u64; self.size];
        sizes[self.rank] = own.len() as u64;
        self.round(&mut sizes, |size| bytemuck::bytes_of(size), |size| bytemuck::bytes_of_mut(size))?;
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

    /// Forwards the item received last until all members have all items.
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
