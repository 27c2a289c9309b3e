use super::*;
use environment::randomness::Random;

/// A number from one of the ranges that a field may have: none, a byte, some, all.
fn number(random: &mut Random, range: u64) -> u64 {
    let drawn = random.next_u64();
    match range {
        0 => 7 << 40,
        1 => drawn % 200,
        2 => (1 << 50) | ((drawn % (1 << 30)) << 10),
        _ => drawn,
    }
}

fn check(rows: &Rows<3>, model: &[[u64; 3]]) {
    assert_eq!(rows.len(), model.len());
    assert!(rows.rows(0..rows.len()).eq(model.iter().copied()));
}

#[test]
fn rows_under_random_changes_equal_a_vector() {
    let (seeds, steps) = if cfg!(miri) { (3, 60) } else { (200, 300) };
    // The rows of an earlier seed: with other widths, more or fewer, or none.
    let mut old = Rows::default();
    for seed in 0..seeds {
        let mut random = Random::from_seed(seed);
        let (mut rows, mut model) = (Rows::<3>::default(), Vec::new());
        for step in 0..steps {
            // Later steps draw from wider ranges, so that fields widen one by one.
            let ranges = [0, 1, 2].map(|_| random.below(2 + 3 * step / steps));
            let row = ranges.map(|range| number(&mut random, range));
            let slot = random.below(model.len() as u64 + 1) as usize;
            match random.below(4) {
                0 | 1 if slot < model.len() && seed % 5 == 0 => {
                    assert_eq!(rows.remove(slot), model.remove(slot));
                }
                0 if slot < model.len() => assert_eq!(rows.remove(slot), model.remove(slot)),
                1 if slot < model.len() => {
                    rows.set(slot, &row);
                    model[slot] = row;
                }
                _ => {
                    rows.insert(slot, &row);
                    model.insert(slot, row);
                }
            }
            check(&rows, &model);
        }
        check(&Rows::of(model.iter().copied(), 0), &model);
        rows.copy_to(&mut old, rows.len() + 8);
        check(&old, &model);
        let row = [1, 2, 3].map(|range| number(&mut random, range));
        old.insert(0, &row);
        model.insert(0, row);
        check(&old, &model);
    }
}

#[test]
fn the_first_row_not_below_is_the_one_a_binary_search_finds() {
    for (length, scale) in (0..70u64).flat_map(|length| [(length, 1), (length, 1 << 40)]) {
        // Every second number twice, as keys with the same first bytes have them.
        let numbers: Vec<[u64; 1]> = (0..length)
            .map(|slot| [(5 + slot / 2 * 3) * scale])
            .collect();
        let rows = Rows::of(numbers.iter().copied(), 0);
        let around = (0..=2 * length + 9).flat_map(|number| [number * scale, number * scale + 1]);
        for number in around.chain([u64::MAX]) {
            let expected = numbers.partition_point(|other| other[0] < number);
            assert_eq!(
                rows.first_not_below(number),
                expected,
                "{number} of {length}"
            );
        }
    }
}

/// How often rows are packed again while `numbers` arrive at the slots that their order asks for.
fn packed_again(numbers: impl Iterator<Item = u64>) -> usize {
    let mut rows = Rows::<1>::default();
    let mut count = 0;
    for number in numbers {
        count += usize::from(rows.pack(&[number]).is_none());
        rows.insert(rows.first_not_below(number), &[number]);
    }
    count
}

#[test]
fn numbers_in_order_are_packed_again_a_few_times() {
    for step in [1, 3, 1_000, 1 << 20] {
        let ascending = packed_again((1..1_000).map(|number| number * step));
        let descending = packed_again((1..1_000).rev().map(|number| number * step));
        assert!(
            ascending <= 10 && descending <= 10,
            "{ascending}, {descending}"
        );
    }
}

#[test]
fn a_field_that_was_wide_enough_stays_so_whatever_is_replaced() {
    // One number goes up and down, and is alone in that; then all are replaced in turn.
    let mut rows = Rows::<1>::of([[127], [128], [127], [128]].into_iter(), 0);
    let mut count = 0;
    let flips = (0..1_000).map(|step| (0, [8, 380][step % 2]));
    let in_turn = (0..100_000).map(|step| (step % 4, 1 << 16 | step as u64));
    for (slot, number) in flips.chain(in_turn) {
        count += usize::from(rows.pack(&[number]).is_none());
        rows.set(slot, &[number]);
    }
    assert!(count <= 4, "packed again {count} times");
    // Rows come and go at the two ends.
    for step in 0..1_000 {
        let number = [3 << 44, 253 << 44][step % 2];
        count += usize::from(rows.pack(&[number]).is_none());
        rows.insert(0, &[number]);
        rows.remove(0);
    }
    assert!(count <= 12, "packed again {count} times");
}

#[test]
fn what_is_removed_makes_room_in_rows_made_of_others_alone() {
    let mut rows = Rows::<1>::of([[1], [1 << 40], [2]].into_iter(), 0);
    rows.remove(1);
    let tight = Rows::of(rows.rows(0..2), 0);
    assert_eq!(rows.heap_bytes(), LOAD_BYTES + 3 * 5);
    assert_eq!(tight.heap_bytes(), LOAD_BYTES + 2);
}

#[test]
fn rows_of_equal_numbers_take_no_bytes_each() {
    let rows = Rows::of([[9, 1 << 60]; 1_000].into_iter(), 0);
    assert_eq!(rows.heap_bytes(), LOAD_BYTES);
    assert_eq!(rows.row(999), [9, 1 << 60]);
}

#[test]
#[should_panic(expected = "row 2 of 2")]
fn a_row_beyond_the_last_is_refused() {
    Rows::of([[1], [2]].into_iter(), 8).number(2, 0);
}
