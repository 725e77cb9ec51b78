//! Every valid combination against a model that works on wide integers and plain memory.

use super::*;

const KINDS: [AtomicKind; 3] = [AtomicKind::Base, AtomicKind::Fetch, AtomicKind::Compare];

/// A number of any datatype, for the model.
#[derive(Clone, Copy, Debug)]
enum Value {
    Int(i128),
    Single(f32),
    Double(f64),
    Pair(f32, f32),
}
use Value::*;

fn decode(datatype: u32, bytes: &[u8]) -> Value {
    let mut wide = [0u8; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = i128::from_le_bytes(wide);
    match datatype {
        FLOAT => Single(f32::from_bits(unsigned as u32)),
        DOUBLE => Double(f64::from_bits(unsigned as u64)),
        FLOAT_COMPLEX => {
            Pair(f32::from_bits(unsigned as u32), f32::from_bits((unsigned >> 32) as u32))
        }
        _ => {
            let bits = 8 * bytes.len() as u32;
            let signed =
                matches!(datatype, INT8 | INT16 | INT32 | INT64) && unsigned >> (bits - 1) == 1;
            Int(if signed { unsigned - (1 << bits) } else { unsigned })
        }
    }
}

fn encode(value: Value, size: usize) -> Vec<u8> {
    match value {
        Int(int) => int.to_le_bytes()[..size].to_vec(),
        Single(x) => x.to_le_bytes().to_vec(),
        Double(x) => x.to_le_bytes().to_vec(),
        Pair(x, y) => [x.to_le_bytes(), y.to_le_bytes()].concat(),
    }
}

fn truth(value: Value) -> bool {
    match value {
        Int(x) => x != 0,
        Single(x) => x != 0.0,
        Double(x) => x != 0.0,
        Pair(x, y) => x != 0.0 || y != 0.0,
    }
}

fn order(a: Value, b: Value) -> Option<core::cmp::Ordering> {
    match (a, b) {
        (Int(a), Int(b)) => a.partial_cmp(&b),
        (Single(a), Single(b)) => a.partial_cmp(&b),
        (Double(a), Double(b)) => a.partial_cmp(&b),
        (Pair(a, b), Pair(c, d)) if a == c && b == d => Some(core::cmp::Ordering::Equal),
        _ => None,
    }
}

fn like(sample: Value, truth: bool) -> Value {
    match sample {
        Int(_) => Int(truth.into()),
        Single(_) => Single(truth.into()),
        Double(_) => Double(truth.into()),
        Pair(..) => Pair(truth.into(), 0.0),
    }
}

fn add(a: Value, b: Value) -> Value {
    match (a, b) {
        (Int(a), Int(b)) => Int(a + b),
        (Single(a), Single(b)) => Single(a + b),
        (Double(a), Double(b)) => Double(a + b),
        (Pair(a, b), Pair(c, d)) => Pair(a + c, b + d),
        _ => unreachable!(),
    }
}

fn multiply(a: Value, b: Value) -> Value {
    match (a, b) {
        (Int(a), Int(b)) => Int(a.wrapping_mul(b)),
        (Single(a), Single(b)) => Single(a * b),
        (Double(a), Double(b)) => Double(a * b),
        (Pair(a, b), Pair(c, d)) => Pair(a * c - b * d, a * d + b * c),
        _ => unreachable!(),
    }
}

fn int(value: Value) -> i128 {
    match value {
        Int(x) => x,
        _ => unreachable!(),
    }
}

/// The new value of the target.
fn model(op: u32, t: Value, o: Value, c: Value) -> Value {
    use core::cmp::Ordering::*;
    let swap = |on: bool| if on { o } else { t };
    match op {
        MIN => swap(order(o, t) == Some(Less)),
        MAX => swap(order(o, t) == Some(Greater)),
        SUM => add(t, o),
        PROD => multiply(t, o),
        LOR => like(t, truth(t) || truth(o)),
        LAND => like(t, truth(t) && truth(o)),
        LXOR => like(t, truth(t) != truth(o)),
        BOR => Int(int(t) | int(o)),
        BAND => Int(int(t) & int(o)),
        BXOR => Int(int(t) ^ int(o)),
        ATOMIC_READ => t,
        ATOMIC_WRITE => o,
        CSWAP => swap(order(c, t) == Some(Equal)),
        CSWAP_NE => swap(order(c, t) != Some(Equal)),
        CSWAP_LE => swap(matches!(order(c, t), Some(Less | Equal))),
        CSWAP_LT => swap(order(c, t) == Some(Less)),
        CSWAP_GE => swap(matches!(order(c, t), Some(Greater | Equal))),
        CSWAP_GT => swap(order(c, t) == Some(Greater)),
        MSWAP => Int(int(o) & int(c) | int(t) & !int(c)),
        _ => unreachable!(),
    }
}

/// Values at the edges of a datatype.
fn samples(datatype: u32) -> Vec<Vec<u8>> {
    let size = datatype_size(datatype).unwrap();
    let floats = [0.0, -0.0, 1.0, -2.5, 3.0e38, f32::INFINITY, f32::NAN];
    match datatype {
        FLOAT => floats.iter().map(|x| x.to_le_bytes().to_vec()).collect(),
        DOUBLE => floats.iter().map(|x| f64::from(*x).to_le_bytes().to_vec()).collect(),
        FLOAT_COMPLEX => floats
            .iter()
            .flat_map(|x| [0.0, -1.5].map(|y: f32| [x.to_le_bytes(), y.to_le_bytes()].concat()))
            .collect(),
        _ => {
            let top = 1i128 << (8 * size - 1);
            [0, 1, 2, 0x5a, top - 1, top, top + 1, -1]
                .iter()
                .map(|x: &i128| x.to_le_bytes()[..size].to_vec())
                .collect()
        }
    }
}

/// Equal bits, or both NaN where one is expected: NaN payloads are the hardware's.
fn same(datatype: u32, a: &[u8], b: &[u8]) -> bool {
    let nan = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    a == b
        || match (decode(datatype, a), decode(datatype, b)) {
            (Single(x), Single(y)) => nan(x, y),
            (Double(x), Double(y)) => x.is_nan() && y.is_nan(),
            (Pair(x, y), Pair(z, w)) => nan(x, z) && nan(y, w),
            _ => false,
        }
}

#[repr(align(16))]
struct Memory([u8; 64]);

/// Applies to two elements that sit between guard elements, with unaligned operands.
#[test]
#[cfg(target_endian = "little")]
fn every_combination_agrees_with_the_model() {
    let mut combinations = 0;
    for kind in KINDS {
        for datatype in 0..20 {
            for op in 0..32 {
                let Ok(size) = valid(kind, datatype, op) else { continue };
                combinations += 1;
                let mut samples = samples(datatype);
                if cfg!(miri) {
                    samples = samples.into_iter().step_by(3).collect();
                }
                for t in &samples {
                    for o in &samples {
                        for c in &samples {
                            check(kind, datatype, op, size, [t, o, c], 0);
                            if datatype == FLOAT_COMPLEX {
                                check(kind, datatype, op, size, [t, o, c], size / 2);
                            }
                        }
                    }
                }
            }
        }
    }
    // 8 integers, 2 floats, 1 complex: 11+12+7, 8+9+6, 6+7+2.
    assert_eq!(combinations, 8 * 30 + 2 * 23 + 15);
}

/// The first element lies `odd` bytes behind a place of its own alignment.
fn check(
    kind: AtomicKind,
    datatype: u32,
    op: u32,
    size: usize,
    [t, o, c]: [&Vec<u8>; 3],
    odd: usize,
) {
    let mut memory = Memory([0xa5; 64]);
    let places = [size + odd, 2 * size + odd];
    for at in places {
        memory.0[at..at + size].copy_from_slice(t);
    }
    let unaligned = |used: bool, x: &[u8]| {
        let mut bytes = vec![0u8];
        if used {
            bytes.extend_from_slice(x);
            bytes.extend_from_slice(x);
        }
        bytes
    };
    let operand = unaligned(op != ATOMIC_READ, o);
    let compare = unaligned(kind == AtomicKind::Compare, c);
    let mut result = unaligned(kind != AtomicKind::Base, &vec![0x77; size]);
    let target = memory.0[places[0]..].as_mut_ptr();
    // SAFETY: two elements of this thread's own memory.
    unsafe {
        apply(kind, datatype, op, target, &operand[1..], &compare[1..], &mut result[1..], 2)
            .unwrap();
    }
    let (old, operand, compare) = (decode(datatype, t), decode(datatype, o), decode(datatype, c));
    let moved = !matches!(op, ATOMIC_READ | MIN | MAX | CSWAP..=CSWAP_GT | ATOMIC_WRITE);
    let want = encode(model(op, old, operand, compare), size);
    for at in places {
        let got = &memory.0[at..at + size];
        let equal = if moved { same(datatype, got, &want) } else { got == want };
        assert!(equal, "{kind:?} type {datatype} op {op}: {old:?} {operand:?} {compare:?}");
    }
    for old in result[1..].chunks(size) {
        assert_eq!(old, t.as_slice(), "{kind:?} type {datatype} op {op}");
    }
    let around = memory.0[..places[0]].iter().chain(&memory.0[places[1] + size..]);
    assert!(around.copied().all(|byte| byte == 0xa5));
}

#[test]
fn refusals_leave_the_target_alone() {
    let mut memory = Memory([1; 64]);
    let target = memory.0.as_mut_ptr();
    let two = [2u8; 16];
    let mut out = [0u8; 16];
    let mut refused = |kind, op, offset: usize, o: usize, c: usize, r: usize, count| {
        // SAFETY: at most two 4-byte elements of this thread's own memory.
        unsafe {
            let target = target.add(offset);
            apply(kind, UINT32, op, target, &two[..o], &two[..c], &mut out[..r], count).unwrap_err()
        }
    };
    use AtomicKind::*;
    assert_eq!(refused(Base, SUM, 2, 8, 0, 0, 2), Errno::EINVAL);
    assert_eq!(refused(Base, SUM, 0, 7, 0, 0, 2), Errno::EINVAL);
    assert_eq!(refused(Base, SUM, 0, 9, 0, 0, 2), Errno::EINVAL);
    assert_eq!(refused(Base, SUM, 0, 8, 8, 0, 2), Errno::EINVAL);
    assert_eq!(refused(Base, SUM, 0, 8, 0, 8, 2), Errno::EINVAL);
    assert_eq!(refused(Fetch, SUM, 0, 8, 0, 0, 2), Errno::EINVAL);
    assert_eq!(refused(Fetch, ATOMIC_READ, 0, 8, 0, 8, 2), Errno::EINVAL);
    assert_eq!(refused(Compare, CSWAP, 0, 8, 0, 8, 2), Errno::EINVAL);
    assert_eq!(refused(Base, SUM, 0, 0, 0, 0, usize::MAX / 2), Errno::EINVAL);
    assert_eq!(refused(Base, ATOMIC_READ, 0, 0, 0, 0, 2), Errno::EOPNOTSUPP);
    assert_eq!(refused(Fetch, CSWAP, 0, 8, 0, 8, 2), Errno::EOPNOTSUPP);
    assert_eq!(refused(Base, u32::MAX, 0, 8, 0, 0, 2), Errno::EOPNOTSUPP);
    assert_eq!(memory.0, [1; 64]);
}

#[test]
fn targets_are_aligned_as_in_c() {
    let memory = Memory([0; 64]);
    for datatype in [UINT8, INT16, FLOAT, DOUBLE, FLOAT_COMPLEX] {
        let size = datatype_size(datatype).unwrap();
        let alignment = if datatype == FLOAT_COMPLEX { 4 } else { size };
        for at in 0..16 {
            let piece = |len| IoVec { base: memory.0[at..].as_ptr().cast_mut(), len };
            let want = if at % alignment == 0 { Ok(()) } else { Err(Errno::EINVAL) };
            assert_eq!(check_target(datatype, &piece(2 * size)), want, "type {datatype} at {at}");
            let half = check_target(datatype, &piece(size + size / 2));
            assert!(size == 1 || half == Err(Errno::EINVAL), "type {datatype}");
        }
    }
    let piece = IoVec { base: core::ptr::null_mut(), len: 0 };
    assert_eq!(check_target(VOID, &piece), Err(Errno::EOPNOTSUPP));
}

#[test]
fn zero_elements_are_nothing() {
    // SAFETY: no element is touched.
    let done = unsafe {
        apply(AtomicKind::Base, UINT64, SUM, core::ptr::null_mut(), &[], &[], &mut [], 0)
    };
    assert_eq!(done, Ok(()));
}

/// Two threads add to the same integers and floats; every update counts, every old value is seen
/// by one thread only.
#[test]
fn concurrent_updates_are_not_lost() {
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
    struct Shared(*mut u8);
    // SAFETY: the threads below touch the memory with atomics only.
    unsafe impl Sync for Shared {}
    let mut words = [0u64, 0f64.to_bits(), 0, 0];
    let shared = Shared(words.as_mut_ptr().cast());
    let worker = || {
        let shared = &shared;
        let mut seen = Vec::new();
        for _ in 0..ROUNDS {
            let mut old = [0u8; 8];
            let one = 1u64.to_ne_bytes();
            // SAFETY: the words outlive the scope and are changed by `apply` only.
            unsafe {
                apply(AtomicKind::Fetch, UINT64, SUM, shared.0, &one, &[], &mut old, 1).unwrap();
                let one = 1f64.to_ne_bytes();
                apply(AtomicKind::Base, DOUBLE, SUM, shared.0.add(8), &one, &[], &mut [], 1)
                    .unwrap();
                let both = [1f32.to_ne_bytes(), 2f32.to_ne_bytes()].concat();
                let odd = shared.0.add(20);
                apply(AtomicKind::Base, FLOAT_COMPLEX, SUM, odd, &both, &[], &mut [], 1).unwrap();
            }
            seen.push(u64::from_ne_bytes(old));
        }
        seen
    };
    let mut seen = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(worker), scope.spawn(worker));
        let mut seen = a.join().unwrap();
        seen.extend(b.join().unwrap());
        seen
    });
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..2 * ROUNDS));
    assert_eq!(words[0], 2 * ROUNDS);
    assert_eq!(f64::from_bits(words[1]), (2 * ROUNDS) as f64);
    let parts = [halved(words[2])[1], halved(words[3])[0]].map(f32::from_bits);
    assert_eq!(parts, [2 * ROUNDS, 4 * ROUNDS].map(|sum| sum as f32));
}
