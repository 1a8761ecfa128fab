//! What a job promises about the updates that its servers have acknowledged.

use phalanx_base::{Code, Error, Result};

/// The environment variable that chooses a job's [`Durability`].
pub const DURABILITY_VAR: &str = "PHALANX_DURABILITY";
/// The environment variable with the folder for the logs of a job's servers; a launcher sets it.
pub const WAL_DIR_VAR: &str = "PHALANX_WAL_DIR";

/// What happens to acknowledged updates when a parameter server is killed.
///
/// ```
/// use phalanx_wal::Durability;
/// assert_eq!("log".parse::<Durability>()?, Durability::Log);
/// assert!("replica".parse::<Durability>().is_err());
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Those since the newest checkpoint are lost.
    Checkpoint,
    /// None is lost: each is in memory that outlives the process before it is acknowledged. The loss of the machine loses
    /// those since the newest checkpoint.
    Log,
}

impl Durability {
    /// Every choice, as users write it.
    pub const NAMES: &'static [&'static str] = &["checkpoint", "log"];

    /// Returns the choice as users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Reads the choice in [`DURABILITY_VAR`], if there is one.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_env() -> Result<Option<Self>> {
        let Some(text) = std::env::var_os(DURABILITY_VAR).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.to_string_lossy().parse().map(Some).map_err(|error: Error| error.at(DURABILITY_VAR))
    }
}

impl std::str::FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |what: String| Error::new(Code::BadSetting, what).help("choose checkpoint or log");
        match text {
            "checkpoint" => Ok(Self::Checkpoint),
            "log" => Ok(Self::Log),
            "replica" | "log+sync" => Err(refused(format!("durability {text:?} is not available in this version"))),
            _ => Err(refused(format!("{text:?} is no durability"))),
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
