//! On which server a shard lives.

/// How shards are spread over the servers; both ways depend on the order in which variables are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// One after the other, TensorFlow's default; counts every shard.
    #[default]
    RoundRobin,
    /// Each on the server that has the fewest bytes so far: `GreedyLoadBalancingStrategy` by bytes.
    GreedyByBytes,
}

impl Placement {
    /// The server of each shard, given their sizes in bytes.
    ///
    /// ```
    /// use phalanx_ps::Placement;
    /// assert_eq!(Placement::RoundRobin.place(&[9, 1, 1, 1], 2), [0, 1, 0, 1]);
    /// assert_eq!(Placement::GreedyByBytes.place(&[9, 1, 1, 1], 2), [0, 1, 1, 1]);
    /// ```
    #[must_use]
    pub fn place(self, bytes: &[usize], servers: usize) -> Vec<usize> {
        let mut load = vec![0_usize; servers];
        let mut pick = |i: usize, bytes: usize| {
            let server = match self {
                Self::RoundRobin => i % servers,
                // `min_by_key` takes the first of equals, as TensorFlow does.
                Self::GreedyByBytes => (0..servers).min_by_key(|&server| load[server]).unwrap_or(0),
            };
            load[server] += bytes;
            server
        };
        bytes.iter().enumerate().map(|(i, &bytes)| pick(i, bytes)).collect()
    }
}
