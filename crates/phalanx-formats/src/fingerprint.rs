//! Fingerprint64: the hash by which TensorFlow sorts strings into buckets. Its values are part of trained models, so
//! they must be the same everywhere and for ever.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

/// FarmHash's Fingerprint64 of `bytes`: what `tf.fingerprint` and `tf.strings.to_hash_bucket_fast` compute.
///
/// ```
/// assert_eq!(phalanx_formats::fingerprint::fingerprint64(b"hello"), 0xb48b_e5a9_3138_0ce8);
/// ```
#[must_use]
pub fn fingerprint64(bytes: &[u8]) -> u64 {
    match bytes.len() {
        0..=16 => up_to_16(bytes),
        17..=32 => up_to_32(bytes),
        33..=64 => up_to_64(bytes),
        _ => longer(bytes),
    }
}

/// Joins two fingerprints in order: how a crossed feature column hashes its parts.
///
/// ```
/// use phalanx_formats::fingerprint::{fingerprint_cat64, fingerprint64};
/// let cross = fingerprint_cat64(fingerprint_cat64(0xDECAFCAFFE, fingerprint64(b"a")), fingerprint64(b"d"));
/// assert_eq!(cross % 997, 457);
/// ```
#[must_use]
pub fn fingerprint_cat64(a: u64, b: u64) -> u64 {
    const K: u64 = 0xc6a4_a793_5bd1_e995;
    let joined = (a ^ K ^ shift_mix(b.wrapping_mul(K)).wrapping_mul(K)).wrapping_mul(K);
    shift_mix(shift_mix(joined).wrapping_mul(K))
}

fn shift_mix(v: u64) -> u64 {
    v ^ (v >> 47)
}

/// Eight bytes from `at`; the callers' lengths put them inside.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

fn half_word(bytes: &[u8], at: usize) -> u64 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(four))
}

fn fold(u: u64, v: u64, factor: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(factor));
    shift_mix((v ^ a).wrapping_mul(factor)).wrapping_mul(factor)
}

fn factor_of(bytes: &[u8]) -> u64 {
    K2.wrapping_add(bytes.len() as u64 * 2)
}

fn up_to_16(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let factor = factor_of(bytes);
    match length {
        0 => K2,
        1..=3 => {
            let y = u64::from(bytes[0]) + (u64::from(bytes[length / 2]) << 8);
            let z = length as u64 + (u64::from(bytes[length - 1]) << 2);
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        4..=7 => {
            let first = length as u64 + (half_word(bytes, 0) << 3);
            fold(first, half_word(bytes, length - 4), factor)
        }
        _ => {
            let a = word(bytes, 0).wrapping_add(K2);
            let b = word(bytes, length - 8);
            let c = b.rotate_right(37).wrapping_mul(factor).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(factor);
            fold(c, d, factor)
        }
    }
}

/// The two halves that both middle lengths build from the ends of the text, and its first word times `scale`.
fn ends(bytes: &[u8], scale: u64) -> (u64, u64, u64) {
    let length = bytes.len();
    let a = word(bytes, 0).wrapping_mul(scale);
    let b = word(bytes, 8);
    let c = word(bytes, length - 8).wrapping_mul(factor_of(bytes));
    let d = word(bytes, length - 16).wrapping_mul(K2);
    let y = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
    let z = a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c);
    (y, z, a)
}

fn up_to_32(bytes: &[u8]) -> u64 {
    let (y, z, _) = ends(bytes, K1);
    fold(y, z, factor_of(bytes))
}

fn up_to_64(bytes: &[u8]) -> u64 {
    let (length, factor) = (bytes.len(), factor_of(bytes));
    let (y, z, a) = ends(bytes, K2);
    let z = fold(y, z, factor);
    let e = word(bytes, 16).wrapping_mul(factor);
    let f = word(bytes, 24);
    let g = y.wrapping_add(word(bytes, length - 32)).wrapping_mul(factor);
    let h = z.wrapping_add(word(bytes, length - 24)).wrapping_mul(factor);
    let u = e.wrapping_add(f).rotate_right(43).wrapping_add(g.rotate_right(30)).wrapping_add(h);
    let v = e.wrapping_add(f.wrapping_add(a).rotate_right(18)).wrapping_add(g);
    fold(u, v, factor)
}

/// Fifty-six bytes of state, turned by 64 bytes of text at a time.
struct State {
    x: u64,
    y: u64,
    z: u64,
    v: (u64, u64),
    w: (u64, u64),
}

impl State {
    /// Takes in one block; `weight` is 1 but for the last block, whose sums count nine times.
    fn turn(&mut self, block: &[u8], factor: u64, weight: u64) {
        let Self { mut x, mut y, mut z, v, w } = *self;
        x = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(block, 8)).rotate_right(37).wrapping_mul(factor);
        y = y.wrapping_add(v.1).wrapping_add(word(block, 48)).rotate_right(42).wrapping_mul(factor);
        x ^= w.1.wrapping_mul(weight);
        y = y.wrapping_add(v.0.wrapping_mul(weight)).wrapping_add(word(block, 40));
        z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(factor);
        self.v = weak(&block[..32], v.1.wrapping_mul(factor), x.wrapping_add(w.0));
        self.w = weak(&block[32..], z.wrapping_add(w.1), y.wrapping_add(word(block, 16)));
        (self.x, self.y, self.z) = (z, y, x);
    }
}

/// Turns 32 bytes and two seeds into a pair.
fn weak(bytes: &[u8], a: u64, b: u64) -> (u64, u64) {
    let last = word(bytes, 24);
    let first = a.wrapping_add(word(bytes, 0));
    let b = b.wrapping_add(first).wrapping_add(last).rotate_right(21);
    let sum = first.wrapping_add(word(bytes, 8)).wrapping_add(word(bytes, 16));
    (sum.wrapping_add(last), b.wrapping_add(sum.rotate_right(44)).wrapping_add(first))
}

fn longer(bytes: &[u8]) -> u64 {
    const SEED: u64 = 81;
    let y = SEED.wrapping_mul(K1).wrapping_add(113);
    let z = shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2);
    let x = SEED.wrapping_mul(K2).wrapping_add(word(bytes, 0));
    let mut state = State { x, y, z, v: (0, 0), w: (0, 0) };

    // All whole blocks but the last 1 to 64 bytes; those end the text as a block that overlaps the one before.
    let rest = (bytes.len() - 1) % 64;
    for block in bytes[..bytes.len() - 1 - rest].chunks_exact(64) {
        state.turn(block, K1, 1);
    }
    let factor = K1.wrapping_add((state.z & 0xff) << 1);
    state.w.0 = state.w.0.wrapping_add(rest as u64);
    state.v.0 = state.v.0.wrapping_add(state.w.0);
    state.w.0 = state.w.0.wrapping_add(state.v.0);
    state.turn(&bytes[bytes.len() - 64..], factor, 9);

    let State { x, y, z, v, w } = state;
    let left = fold(v.0, w.0, factor).wrapping_add(shift_mix(y).wrapping_mul(K0)).wrapping_add(z);
    fold(left, fold(v.1, w.1, factor).wrapping_add(x), factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the fixture with that length; `fingerprints.txt` has the same rule in Python.
    fn text(length: usize) -> Vec<u8> {
        let abc = b"the quick brown fox jumps over the lazy dog; PHALANX 0123456789 \x00\xff\x80\xc3\xa9";
        (0..length).map(|i| (usize::from(abc[i % abc.len()]) + 7 * (i / abc.len())) as u8).collect()
    }

    #[test]
    fn agrees_with_tensorflow_at_every_length() {
        let fixture = include_str!("../tests/fixtures/fingerprints.txt");
        let lines: Vec<_> = fixture.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 60, "{}", lines.len());
        for line in lines {
            let (length, expected) = line.split_once(' ').expect("length and value");
            let length = length.parse().expect("a length");
            assert_eq!(fingerprint64(&text(length)).to_string(), expected, "length {length}");
        }
    }

    #[test]
    fn crosses_as_feature_columns_do() {
        let cross = |parts: [u64; 2]| parts.into_iter().fold(0xDE_CAFC_AFFE, fingerprint_cat64);
        assert_eq!(cross([fingerprint64(b"a"), fingerprint64(b"d")]) % 997, 457);
        assert_eq!(cross([1, 2]) % 1_000_003, 967_215);
        assert_eq!(cross([7, 123_456_789]) % 1_000_003, 469_638);
    }
}
