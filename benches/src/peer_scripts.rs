//! The peers' scripts, which are part of this program.

use phalanx::{Code, Result};
use phalanx_base::Context;
use std::path::Path;

const ALL: [(&str, &str); 4] = [
    ("peer_tf.py", include_str!("../peer_tf.py")),
    ("peer_torch.py", include_str!("../peer_torch.py")),
    ("peer_mirrored.py", include_str!("../peer_mirrored.py")),
    ("peer_network.py", include_str!("../peer_network.py")),
];

/// Writes all scripts into a folder.
///
/// # Errors
/// If it cannot be written to.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let write = |(name, text): (&str, &str)| std::fs::write(folder.join(name), text);
    ALL.into_iter().try_for_each(write).context(Code::StorageWrite, "a peer's script cannot be written")
}
