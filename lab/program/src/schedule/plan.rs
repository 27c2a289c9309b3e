//! The order of the runs, which a seed decides before the first of them.
//!
//! ```text
//!   repetition 1:   cell 7: A' B A    cell 2: B A A'    ...   cells in random order
//!   repetition 2:   cell 2: A B A'    cell 9: A' A B    ...   a fresh random order
//! ```
//!
//! The arms of one cell run directly one after the other, so that they run in the same
//! minutes. In each block of repetitions every arm has every position equally often, so the
//! effect of the position cancels, and can be estimated. A plan uses no clock and no target:
//! experiments in virtual time have the same plans as real ones.

use environment::randomness::Random;

/// With at most this many arms a block holds all orders; with more, one Latin square.
const ARMS_OF_ALL_ORDERS: usize = 3;

/// One planned run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Index of the cell (connections, value size, mix), from 0.
    pub cell: usize,
    /// Number of the group of adjacent runs of that cell, from 0; repeated groups get further
    /// numbers.
    pub group: usize,
    /// Position within the group, from 0.
    pub position: usize,
    /// Index of the arm, from 0.
    pub arm: usize,
    /// Seed of the work: the same for all arms of a group.
    pub work_seed: u64,
    /// Length of the directory's name. The length of a path and its address in memory
    /// influence results, so each run gets a random one.
    pub directory_letters: usize,
    /// Extra bytes in the environment of the process, random for the same reason.
    pub environment_bytes: usize,
}

/// All planned runs, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlan {
    pub runs: Vec<Planned>,
    /// Number of arms in each group.
    pub arms: usize,
    /// The seed of all draws.
    pub seed: u64,
}

impl RunPlan {
    /// Plans `repetitions` groups of `arms` runs for each of `cells`.
    pub fn new(cells: usize, arms: usize, repetitions: usize, seed: u64) -> RunPlan {
        assert!(arms > 0, "a plan without arms runs nothing");
        let mut random = Random::from_seed(seed);
        let mut orders: Vec<std::vec::IntoIter<Vec<usize>>> = (0..cells)
            .map(|_| orders(arms, repetitions, &mut random).into_iter())
            .collect();
        let mut runs = Vec::with_capacity(cells * arms * repetitions);
        for repetition in 0..repetitions {
            let mut walk: Vec<usize> = (0..cells).collect();
            shuffle(&mut walk, &mut random);
            for cell in walk {
                let order = orders[cell]
                    .next()
                    .expect("there is an order for each repetition");
                runs.extend(group(cell, repetition, &order, &mut random));
            }
        }
        RunPlan { runs, arms, seed }
    }

    /// A repetition of a disturbed group, with the number `group_number`: the same work in a
    /// new order.
    pub fn again(&self, disturbed: &Planned, group_number: usize) -> Vec<Planned> {
        let seed = self.seed ^ disturbed.work_seed ^ group_number as u64;
        let mut random = Random::from_seed(seed);
        let mut order: Vec<usize> = (0..self.arms).collect();
        shuffle(&mut order, &mut random);
        let mut runs = group(disturbed.cell, group_number, &order, &mut random);
        for run in &mut runs {
            run.work_seed = disturbed.work_seed;
        }
        runs
    }
}

fn group(cell: usize, group: usize, order: &[usize], random: &mut Random) -> Vec<Planned> {
    let work_seed = random.next_u64();
    order
        .iter()
        .enumerate()
        .map(|(position, arm)| Planned {
            cell,
            group,
            position,
            arm: *arm,
            work_seed,
            directory_letters: 4 + random.below(28) as usize,
            environment_bytes: random.below(4096) as usize,
        })
        .collect()
}

/// One order for each repetition of a cell, balanced block by block.
fn orders(arms: usize, repetitions: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let mut orders = Vec::with_capacity(repetitions);
    while orders.len() < repetitions {
        let mut block = if arms <= ARMS_OF_ALL_ORDERS {
            balanced_permutations(arms, random)
        } else {
            latin_square(arms, random)
        };
        block.truncate(repetitions - orders.len());
        orders.append(&mut block);
    }
    orders
}

/// All orders, with rotations of one order kept together: three arms are balanced after
/// three groups, and again after six.
fn balanced_permutations(arms: usize, random: &mut Random) -> Vec<Vec<usize>> {
    if arms < 3 {
        return latin_square(arms, random);
    }
    let mut first: Vec<usize> = (0..arms).collect();
    shuffle(&mut first, random);
    let mut second = first.clone();
    second.swap(0, 1);
    let mut halves = [rotations(&first), rotations(&second)];
    for half in &mut halves {
        shuffle(half, random);
    }
    halves.concat()
}

fn latin_square(arms: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let mut first: Vec<usize> = (0..arms).collect();
    shuffle(&mut first, random);
    let mut square = rotations(&first);
    shuffle(&mut square, random);
    square
}

fn rotations(first: &[usize]) -> Vec<Vec<usize>> {
    (0..first.len())
        .map(|by| {
            let mut turned = first.to_vec();
            turned.rotate_left(by);
            turned
        })
        .collect()
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(RunPlan::new(4, 3, 8, 7), RunPlan::new(4, 3, 8, 7));
        assert_ne!(RunPlan::new(4, 3, 8, 7).runs, RunPlan::new(4, 3, 8, 8).runs);
    }

    #[test]
    fn arms_of_a_group_are_adjacent_and_do_the_same_work() {
        let plan = RunPlan::new(5, 3, 4, 1);
        assert_eq!(plan.runs.len(), 60);
        for runs in plan.runs.chunks(3) {
            let mut arms: Vec<usize> = runs.iter().map(|run| run.arm).collect();
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2]);
            for (position, run) in runs.iter().enumerate() {
                assert_eq!(run.position, position);
                assert_eq!((run.cell, run.group), (runs[0].cell, runs[0].group));
                assert_eq!(run.work_seed, runs[0].work_seed);
            }
        }
    }

    #[test]
    fn every_arm_has_every_position_equally_often() {
        for (arms, repetitions) in [(2, 2), (3, 3), (3, 6), (3, 9), (5, 10)] {
            let plan = RunPlan::new(2, arms, repetitions, 3);
            for cell in 0..2 {
                for place in 0..arms {
                    let mut counts = vec![0; arms];
                    for run in &plan.runs {
                        if run.cell == cell && run.position == place {
                            counts[run.arm] += 1;
                        }
                    }
                    assert_eq!(counts, vec![repetitions / arms; arms], "{arms} arms");
                }
            }
        }
    }

    #[test]
    fn each_repetition_has_another_order_of_cells() {
        let plan = RunPlan::new(16, 1, 2, 9);
        let walk = |repetition: usize| -> Vec<usize> {
            plan.runs[repetition * 16..][..16]
                .iter()
                .map(|run| run.cell)
                .collect()
        };
        assert_ne!(walk(0), walk(1));
    }

    #[test]
    fn a_disturbed_group_is_repeated_with_the_same_work() {
        let plan = RunPlan::new(1, 3, 2, 5);
        let again = plan.again(&plan.runs[0], 2);
        assert_eq!(again.len(), 3);
        assert!(again.iter().all(|run| run.group == 2));
        assert!(
            again
                .iter()
                .all(|run| run.work_seed == plan.runs[0].work_seed)
        );
    }
}
