//! Initializers of rows on the wire.

use crate::proto::{Initializer, initializer::Kind};
use phalanx_base::{Code, Error, Result, RowDistribution, RowInitializer};

pub(crate) fn to_wire(initializer: RowInitializer) -> Initializer {
    let kind = match initializer.kind {
        RowDistribution::Constant => Kind::Constant,
        RowDistribution::Uniform => Kind::Uniform,
        RowDistribution::Normal => Kind::Normal,
        RowDistribution::TruncatedNormal => Kind::TruncatedNormal,
    };
    let [a, b] = initializer.parameters;
    Initializer { kind: kind.into(), a, b, seed: initializer.seed }
}

pub(crate) fn from_wire(wire: &Initializer) -> Result<RowInitializer> {
    let kind = Kind::try_from(wire.kind).ok().filter(|_| wire.a.is_finite() && wire.b.is_finite());
    let kind = kind.ok_or_else(|| Error::new(Code::BadMessage, "an initializer is not one this build knows"))?;
    let kind = match kind {
        Kind::Constant => RowDistribution::Constant,
        Kind::Uniform => RowDistribution::Uniform,
        Kind::Normal => RowDistribution::Normal,
        Kind::TruncatedNormal => RowDistribution::TruncatedNormal,
    };
    Ok(RowInitializer { kind, parameters: [wire.a, wire.b], seed: wire.seed })
}
