use super::*;
use proptest::prelude::*;

/// Behind all that is put in.
const LONGEST: usize = 8000;

/// Each byte on its own, told apart by the ranges of the pieces that bring it.
fn naive(inserts: &[(u64, Vec<u8>)], newer: Newer) -> Vec<Option<u8>> {
    let mut bytes: Vec<Option<(u8, (u64, u64))>> = vec![None; LONGEST];
    for (start, data) in inserts {
        let whole = (*start, start + data.len() as u64);
        let before = bytes.clone();
        for (index, &byte) in data.iter().enumerate() {
            let place = &mut bytes[*start as usize + index];
            let wins = before[*start as usize + index].is_none_or(|(_, old)| newer.wins(old, whole));
            if wins {
                *place = Some((byte, whole));
            }
        }
    }
    bytes.into_iter().map(|byte| byte.map(|(byte, _)| byte)).collect()
}

/// Pieces shorter than `len` that begin before `end`.
fn pieces(end: u64, len: usize) -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    proptest::collection::vec((0..end, proptest::collection::vec(any::<u8>(), 1..len)), 1..12)
}

proptest! {
    #[test]
    fn agrees_with_single_bytes(inserts in prop_oneof![pieces(500, 90), pieces(4000, 3000)],
        newer in prop::sample::select(Newer::ALL.to_vec()), most in 1usize..700) {
        let mut reassembly = Reassembly::new(256 << 10, 200);
        let mut list = Pending::default();
        for (start, data) in &inserts {
            let inserted = reassembly.insert(&mut list, *start, data, newer, 0);
            prop_assert!(!inserted.refused);
        }
        let expected = naive(&inserts, newer);
        let mut found = vec![None; LONGEST];
        while let Some(first) = reassembly.first(&list) {
            let mut out = Vec::with_capacity(1024);
            let end = reassembly.take(&mut list, first, most, u64::MAX, &mut out);
            for (index, byte) in out.iter().enumerate() {
                found[first as usize + index] = Some(*byte);
            }
            prop_assert_eq!(end, first + out.len() as u64);
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(reassembly.blocks_used, 0);
    }
}

#[test]
fn pieces_side_by_side_become_one() {
    let mut reassembly = Reassembly::new(8 * BLOCK, 8);
    let mut list = Pending::default();
    let bytes: Vec<u8> = (0..2000u32).map(|at| at as u8 ^ (at >> 8) as u8).collect();
    for (index, part) in bytes.chunks(7).enumerate().rev() {
        assert!(!reassembly.insert(&mut list, index as u64 * 7, part, Newer::Never, 0).refused, "{index}");
    }
    let mut out = Vec::with_capacity(4096);
    assert_eq!(reassembly.take(&mut list, 0, usize::MAX, u64::MAX, &mut out), 2000);
    assert_eq!(out, bytes);
    assert_eq!((reassembly.blocks_used, list.count), (0, 0));
}

/// A piece that became long by joining is cut, too, and loses nothing.
#[test]
fn a_long_piece_is_cut_anywhere() {
    let bytes: Vec<u8> = (0..64_000u32).map(|at| at as u8 ^ (at >> 8) as u8).collect();
    for at in [2, 511, 512, 513, 2048, 30_000, 63_999] {
        let mut reassembly = Reassembly::new(1 << 20, 256);
        let mut list = Pending::default();
        for (index, part) in bytes.chunks(250).enumerate() {
            assert!(!reassembly.insert(&mut list, 1 + index as u64 * 250, part, Newer::BeginsBefore, 0).refused);
        }
        assert!(!reassembly.insert(&mut list, 100_000, b"more pieces than a list has", Newer::BeginsBefore, 0).refused);
        assert_eq!(list.count, 2);
        let mut other = vec![0; at];
        other[1..].copy_from_slice(&bytes[..at - 1]);
        assert!(!reassembly.insert(&mut list, 0, &other, Newer::BeginsBefore, 0).refused, "{at}");
        let mut out = Vec::with_capacity(1 << 16);
        assert_eq!(reassembly.take(&mut list, 0, usize::MAX, u64::MAX, &mut out), 64_001, "{at}");
        assert!(out[0] == 0 && out[1..] == bytes, "{at}");
        reassembly.clear(&mut list);
        assert_eq!(reassembly.blocks_used, 0, "{at}");
    }
}

#[test]
fn what_is_furthest_gives_way() {
    let mut reassembly = Reassembly::new(64 * BLOCK, 4);
    let mut list = Pending::default();
    for at in [10, 20, 30, 40] {
        assert!(!reassembly.insert(&mut list, at, b"far", Newer::Never, 0).refused);
    }
    assert!(reassembly.insert(&mut list, 5, b"near", Newer::Never, 0).refused, "something was lost");
    assert!(reassembly.insert(&mut list, 50, b"further", Newer::Never, 0).refused, "the new one itself");
    let mut out = Vec::with_capacity(64);
    assert_eq!((reassembly.take(&mut list, 5, usize::MAX, u64::MAX, &mut out), &out[..]), (9, &b"near"[..]));
    assert_eq!((reassembly.first(&list), list.count), (Some(10), 3));
}

#[test]
fn who_has_something_leaves_room_for_those_that_have_nothing() {
    let mut reassembly = Reassembly::with_reserve(64 * BLOCK, 100);
    let mut fill = |list: &mut Pending| {
        (0..100).take_while(|at| !reassembly.insert(list, at * 1000, &[1; BLOCK], Newer::Never, 0).refused).count()
    };
    assert_eq!(fill(&mut Pending::default()), 32);
    assert_eq!((0..40).map(|_| fill(&mut Pending::default())).sum::<usize>(), 32, "one each");
}

/// Few owners that keep what they have as long as they like leave each other one a share.
#[test]
fn each_owner_has_a_share() {
    let mut reassembly = Reassembly::with_reserve(8192 * BLOCK, 256);
    let mut fill = |list: &mut Pending, len: usize| {
        let pieces = (0..256).take_while(|at| {
            let inserted = reassembly.insert(list, at * 100_000, &vec![1; len * BLOCK], Newer::Never, 0);
            !inserted.refused
        });
        (pieces.count() * len, list.blocks as usize)
    };
    assert_eq!(fill(&mut Pending::default(), 64), (4096, 4096), "half");
    let mut greedy = [Pending::default(); 40];
    assert!(greedy.iter_mut().all(|list| fill(list, 8).0 >= 32));
    assert!(fill(&mut Pending::default(), 1).0 >= 32, "whoever comes next");
    let mut all = greedy.iter_mut();
    assert!(all.all(|list| {
        reassembly.clear(list);
        list.blocks == 0
    }));
}

/// What is on its way out takes no more than it gives back, so that it leaves room to others.
#[test]
fn who_drains_takes_what_it_has_given_back() {
    let mut reassembly = Reassembly::with_reserve(64 * BLOCK, 100);
    let mut list = Pending::default();
    let add = |reassembly: &mut Reassembly, list: &mut Pending, at: &mut u64| {
        let inserted = reassembly.insert(list, *at * BLOCK as u64, &[1; BLOCK], Newer::Never, 0);
        *at += u64::from(!inserted.refused);
        !inserted.refused
    };
    let mut at = 0;
    while add(&mut reassembly, &mut list, &mut at) {}
    list.drains(true);
    assert_eq!((at, add(&mut reassembly, &mut list, &mut at)), (32, false), "nothing was given back");
    // Others take all of the rest.
    let mut others: Vec<Pending> = vec![Pending::default(); 32];
    for other in &mut others {
        assert!(add(&mut reassembly, other, &mut 0));
    }
    let mut out = Vec::with_capacity(64 * BLOCK);
    let next = reassembly.take(&mut list, 0, 4 * BLOCK, u64::MAX, &mut out);
    let taken = (0..10).filter(|_| add(&mut reassembly, &mut list, &mut at)).count();
    assert_eq!((next, taken, reassembly.blocks_used), (4 * BLOCK as u64, 4, 64), "as much as it gave");
    list.drains(false);
    reassembly.take(&mut list, next, BLOCK, u64::MAX, &mut out);
    assert!(!add(&mut reassembly, &mut list, &mut at), "any other owner leaves room");
}

/// Whoever fills a list and goes on has each new piece cost a bounded number of steps, however long the pieces have become.
#[test]
fn a_full_list_costs_a_bounded_number_of_steps() {
    const MOST: u16 = 256;
    let mut reassembly = Reassembly::new(16 << 20, MOST);
    let mut list = Pending::default();
    let (mut worst, mut at) = (0, 0u64);
    let mut add = |reassembly: &mut Reassembly, list: &mut Pending, start: u64, data: &[u8]| {
        let _ = reassembly.insert(list, start, data, Newer::Never, 0);
        worst = worst.max(reassembly.take_steps());
    };
    // One long piece, joined of many.
    for _ in 0..(2 << 20) / 1400 {
        add(&mut reassembly, &mut list, at, &[1; 1400]);
        at += 1400;
    }
    // Some with gaps between fill the list; then each new byte lies beside the long one.
    for number in 0..u64::from(MOST) {
        add(&mut reassembly, &mut list, (3 << 20) + number * 100, b"x");
    }
    for _ in 0..1000 {
        add(&mut reassembly, &mut list, at, b"y");
        at += 1;
    }
    assert!((1..8 * u32::from(MOST)).contains(&worst), "{worst} steps");
}

#[test]
fn what_does_not_fit_is_told() {
    let mut reassembly = Reassembly::new(1024, 4);
    let mut list = Pending::default();
    assert!(!reassembly.insert(&mut list, 0, &[1; 1000], Newer::Never, 0).refused);
    assert!(reassembly.insert(&mut list, 5000, &[1; 1], Newer::Never, 0).refused);
    reassembly.clear(&mut list);
    assert_eq!((reassembly.blocks_used, list.count), (0, 0));
    for at in 0..4 {
        assert_eq!(reassembly.insert(&mut list, at * 9, b"x", Newer::Never, 0).refused, at >= 2, "two blocks");
    }
}
