//! The instruction sets that kernels are compiled for.

/// An instruction set that this CPU has. Every kernel takes one, so a test or a benchmark can force each of them.
///
/// ```
/// use phalanx_matmul::Level;
///
/// let best = Level::detect();
/// assert_eq!(Level::all().last(), Some(best));
/// assert_eq!(Level::all().next().map(Level::name), Some("portable"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Isa);

/// What a [`Level`] is. A value of `Avx2` or `Avx512` inside a `Level` proves that the CPU has these instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512 {
        bf16: bool,
    },
}

impl Level {
    /// What every CPU of the target has.
    pub const PORTABLE: Self = Self(Isa::Portable);

    /// Returns the fastest level of this CPU.
    #[must_use]
    pub fn detect() -> Self {
        Self::avx512().or_else(Self::avx2).unwrap_or(Self::PORTABLE)
    }

    /// Returns AVX2 with FMA and F16C, if this CPU has them.
    #[must_use]
    pub fn avx2() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            return Some(Self(Isa::Avx2));
        }
        None
    }

    /// Returns AVX-512 (F, BW, DQ and VL), if this CPU has it.
    #[must_use]
    pub fn avx512() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if Self::avx2().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Some(Self(Isa::Avx512 { bf16: is_x86_feature_detected!("avx512bf16") }));
        }
        None
    }

    /// Iterates over the levels of this CPU, the slowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        [Some(Self::PORTABLE), Self::avx2(), Self::avx512()].into_iter().flatten()
    }

    /// Returns the name: `portable`, `avx2` or `avx512`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { .. } => "avx512",
        }
    }

    /// Returns whether products in bfloat16 have instructions of their own. Elsewhere factors are not rounded.
    #[must_use]
    pub fn has_bf16(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { bf16 } => bf16,
            _ => false,
        }
    }

    pub(crate) fn isa(self) -> Isa {
        self.0
    }
}

/// Whether the portable level multiplies and adds in one instruction.
pub(crate) const PORTABLE_FMA: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// Compiles a function once for each level. Each entry names the function to make, which takes the level first, and the
/// `#[inline(always)]` function that it is made of, whose parameter says whether to use fused multiply-add. Whatever that
/// function calls must be inlined too, or else it is compiled for the portable level: closures given to adapters of
/// iterators are, in loops, but not in `map(…).sum()`.
macro_rules! leveled {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? => $body:ident;)*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(level: $crate::Level, $($arg: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($arg: $type),*) $(-> $out)? {
                $body::<true>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($arg: $type),*) $(-> $out)? {
                $body::<true>($($arg),*)
            }
            match level.isa() {
                $crate::level::Isa::Portable => $body::<{ $crate::level::PORTABLE_FMA }>($($arg),*),
                // SAFETY: a level exists only where the CPU has its instructions.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code)]
                $crate::level::Isa::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code)]
                $crate::level::Isa::Avx512 { .. } => unsafe { avx512($($arg),*) },
            }
        }
    )*};
}
pub(crate) use leveled;
