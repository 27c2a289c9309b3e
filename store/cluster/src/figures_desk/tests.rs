//! Tests of asking other members for their figures, and of answering.

use std::sync::mpsc;

use environment::simulated::SimulatedClock;

use super::*;

const PATIENCE: Duration = Duration::from_secs(3600);

fn desk() -> (SimulatedClock, FiguresDesk) {
    let clock = SimulatedClock::stepped();
    let desk = FiguresDesk::new(Arc::new(clock.clone()));
    (clock, desk)
}

fn number_of(message: &PeerMessage) -> u64 {
    match message {
        PeerMessage::Figures(FiguresMessage::Question { number }) => *number,
        other => panic!("{other:?}"),
    }
}

/// A `send` that notes the numbers of the questions, and to which no member answers.
fn noting(numbers: &Mutex<Vec<u64>>) -> impl Fn(u64, &PeerMessage) -> bool + Copy {
    move |_, message| {
        lock(numbers).push(number_of(message));
        true
    }
}

/// Asks `members` with a `send` that has the members of `prompt` answer at once with `text`.
async fn ask(
    desk: &FiguresDesk,
    members: &[u64],
    prompt: &[u64],
    text: &'static str,
) -> Vec<(u64, Bytes, Duration)> {
    let send = |to, message: &PeerMessage| {
        if prompt.contains(&to) {
            desk.answered(to, number_of(message), text.into());
        }
        true
    };
    let told = desk.ask(members, send, PATIENCE).await;
    told.into_iter()
        .map(|(member, told)| (member, told.figures, told.age))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_member_that_answers_is_known_with_the_age_of_its_answer() {
    let (clock, desk) = desk();
    assert_eq!(
        ask(&desk, &[2, 3], &[2, 3], "old").await,
        [
            (2, "old".into(), Duration::ZERO),
            (3, "old".into(), Duration::ZERO)
        ]
    );
    clock.advance(Duration::from_secs(5));
    assert_eq!(
        ask(&desk, &[2, 3], &[2], "new").await,
        [
            (2, "new".into(), Duration::ZERO),
            (3, "old".into(), Duration::from_secs(5))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_left_a_question_open_is_not_waited_for_until_it_answers() {
    let (_clock, desk) = desk();
    let began = tokio::time::Instant::now();
    assert!(ask(&desk, &[2], &[], "").await.is_empty());
    assert_eq!(began.elapsed(), PATIENCE, "nothing was known of it");
    for _ in 0..2 {
        assert!(ask(&desk, &[2], &[], "").await.is_empty());
    }
    assert_eq!(began.elapsed(), PATIENCE, "it had a question open");
    assert_eq!(ask(&desk, &[2], &[2], "here").await.len(), 1);
    assert_eq!(ask(&desk, &[2], &[], "").await.len(), 1);
    assert_eq!(
        began.elapsed(),
        2 * PATIENCE,
        "it had answered the last one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_answers_after_the_patience_is_not_waited_for_again() {
    let (clock, desk) = desk();
    let asked = Mutex::new(Vec::new());
    let note = noting(&asked);
    let began = tokio::time::Instant::now();
    for (round, figures) in [(1, "first"), (2, "second")] {
        desk.ask(&[2], note, PATIENCE).await;
        clock.advance(PATIENCE + Duration::from_millis(1));
        let number = *lock(&asked).last().unwrap();
        desk.answered(2, number, figures.into());
        assert_eq!(began.elapsed(), PATIENCE, "round {round}");
    }
    let told = desk.ask(&[2], note, PATIENCE).await;
    assert_eq!(told[&2].figures, "second", "the answer to the look before");
    let number = *lock(&asked).last().unwrap();
    desk.answered(2, number, "in time".into());
    desk.ask(&[2], note, PATIENCE).await;
    assert_eq!(began.elapsed(), 2 * PATIENCE, "it was in time again");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_member_is_not_waited_for() {
    let (_clock, desk) = desk();
    let began = tokio::time::Instant::now();
    assert!(desk.ask(&[2], |_, _| false, PATIENCE).await.is_empty());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_wakes_the_call_that_waits_for_it() {
    let (_clock, desk) = desk();
    let desk = Arc::new(desk);
    let late = Arc::clone(&desk);
    let send = move |to, message: &PeerMessage| {
        let (desk, number) = (Arc::clone(&late), number_of(message));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            desk.answered(to, number, "late".into());
        });
        true
    };
    let began = tokio::time::Instant::now();
    let told = desk.ask(&[2, 3], send, PATIENCE).await;
    assert_eq!(told.len(), 2);
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_old_unasked_for_or_too_large_are_dropped() {
    let (_clock, desk) = desk();
    let numbers = Mutex::new(Vec::new());
    let note = noting(&numbers);
    for _ in 0..2 {
        desk.ask(&[2], note, Duration::ZERO).await;
    }
    let (first, second) = {
        let numbers = lock(&numbers);
        (numbers[0], numbers[1])
    };
    desk.answered(2, first.wrapping_sub(1), "of a former process".into());
    desk.answered(2, second + 1, "of the future".into());
    desk.answered(3, second, "of another member".into());
    desk.answered(2, second, vec![0; FIGURES_BYTES_MAX + 1].into());
    assert!(desk.told().is_empty());
    desk.answered(2, second, "right".into());
    desk.answered(2, first, "overtaken".into());
    assert_eq!(desk.told()[&2].figures, "right");
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_a_removed_member_are_forgotten() {
    let (_clock, desk) = desk();
    ask(&desk, &[2, 3], &[2, 3], "here").await;
    let told = ask(&desk, &[3], &[3], "here").await;
    assert_eq!(told, [(3, "here".into(), Duration::ZERO)]);
}

#[tokio::test]
async fn a_question_is_answered_with_the_figures_of_this_member() {
    let (_clock, desk) = desk();
    let (sent, answers) = mpsc::channel();
    let send = || {
        let sent = sent.clone();
        move |message: &PeerMessage| sent.send(message.clone()).unwrap()
    };
    desk.answer(6, send());
    desk.tell(Arc::new(|| "mine".into()));
    desk.answer(7, send());
    let answer = tokio::task::spawn_blocking(move || answers.recv().unwrap());
    match answer.await.unwrap() {
        PeerMessage::Figures(FiguresMessage::Answer { number, figures }) => {
            assert_eq!((number, figures), (7, "mine".into()));
        }
        other => panic!("{other:?}"),
    }
}
