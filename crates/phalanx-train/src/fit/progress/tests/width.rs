//! Lines in terminals that are too narrow for them.

use super::super::{Progress, ProgressMode, line};
use super::display;

const TRAIN: [(&str, f64); 2] = [("loss", 0.2957), ("accuracy", 0.9153)];
const ALL: [(&str, f64); 4] = [("loss", 0.2957), ("accuracy", 0.9153), ("val_loss", 0.1537), ("val_accuracy", 0.9541)];

/// Returns what a terminal of `columns` shows in the middle of an epoch and at its end.
fn epoch_in(columns: usize) -> (String, String) {
    let (mut progress, screen, ticks) = display(ProgressMode::Bar, Some(469), columns);
    // At once, so that its ETA is as short as any later one and leaves no blanks behind.
    progress.update(1, &TRAIN);
    ticks.set(520);
    screen.take();
    progress.update(237, &TRAIN);
    let running = screen.take();
    ticks.set(1024);
    progress.finish(469, &ALL);
    (running, screen.take())
}

#[test]
fn the_bar_shrinks_and_goes_before_a_metric_does() {
    // 51 columns for the text, 13 for the shortest bar, 1 that stays free.
    for (columns, running) in [
        (140, "\r237/469 [==============>...............] - ETA: 0s - loss: 0.2957 - accuracy: 0.9153"),
        (120, "\r237/469 [==============>...............] - ETA: 0s - loss: 0.2957 - accuracy: 0.9153"),
        (80, "\r237/469 [===========>.............] - ETA: 0s - loss: 0.2957 - accuracy: 0.9153"),
        (65, "\r237/469 [====>.....] - ETA: 0s - loss: 0.2957 - accuracy: 0.9153"),
        (64, "\r237/469 - ETA: 0s - loss: 0.2957 - accuracy: 0.9153"),
        (52, "\r237/469 - ETA: 0s - loss: 0.2957 - accuracy: 0.9153"),
        (51, "\r237/469 - ETA: 0s - loss: 0.2957 …"),
        (34, "\r237/469 - ETA: 0s …"),
        (19, "\r237/469 …"),
        (9, "\r237/469"),
        (6, "\r237/…"),
        (0, "\r"),
    ] {
        assert_eq!(epoch_in(columns).0, running, "{columns} columns");
    }
}

#[test]
fn a_finished_row_takes_a_second_line_before_it_loses_its_bar() {
    let (train, held_out) =
        ("- 2s 4ms/step - loss: 0.2957 - accuracy: 0.9153", "- val_loss: 0.1537 - val_accuracy: 0.9541\n");
    assert_eq!(epoch_in(140).1, format!("\r469/469 [==============================] {train} {held_out}"), "Keras' bar");
    assert_eq!(epoch_in(120).1, format!("\r469/469 [===================] {train} {held_out}"));
    assert_eq!(epoch_in(80).1, format!("\r469/469 [=====================] {train}\n        {held_out}"));
}

#[test]
fn a_finished_bar_takes_no_line_of_its_own() {
    // 97 columns for the text, 13 for the shortest bar, 1 that stays free.
    assert!(epoch_in(111).1.starts_with("\r469/469 [==========] - 2s 4ms/step - loss"));
    for columns in 98..111 {
        let (_, finished) = epoch_in(columns);
        assert!(finished.starts_with("\r469/469 - 2s 4ms/step - loss"), "{columns} columns: {finished:?}");
        assert_eq!(finished.lines().count(), 1, "{columns} columns: {finished:?}");
    }
}

#[test]
fn the_time_stays_beside_the_count() {
    let (_, finished) = epoch_in(20);
    assert_eq!(finished.lines().next(), Some("\r469/469 - 2s 4ms/s…"));
    assert_eq!(finished.lines().nth(1), Some("        - loss: 0.…"));
}

#[test]
fn a_count_without_a_target_has_no_bar_to_lose() {
    let (mut progress, screen, ticks) = display(ProgressMode::Bar, None, 60);
    ticks.set(512);
    progress.update(37, &ALL);
    assert_eq!(screen.take(), "\r     37/Unknown - 1s 27ms/step - loss: 0.2957 …");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_value_is_lost_at_the_end() {
    for columns in 0..200 {
        let (running, finished) = epoch_in(columns);
        for text in [&running, &finished] {
            for shown in text.trim_start_matches('\r').lines() {
                assert!(line::width(shown) <= columns.saturating_sub(1), "{columns} columns: {shown:?}");
            }
        }
        // Wide enough for the widest field under the count.
        if columns > 31 {
            for value in ["0.2957", "0.9153", "0.1537", "0.9541", "4ms/step"] {
                assert!(finished.contains(value), "{columns} columns: {finished:?}");
            }
        }
    }
}

#[test]
fn a_shorter_line_covers_the_longer_one_under_it() {
    let (mut progress, screen, ticks) = display(ProgressMode::Bar, Some(9), 80);
    progress.update(1, &[("loss", 12345.0)]);
    let long = screen.take();
    ticks.set(512);
    progress.update(2, &[("loss", 1.0)]);
    assert_eq!(line::width(&long), line::width(&screen.take()));
}

#[test]
fn a_terminal_that_becomes_narrower_is_noticed() {
    let (progress, screen, ticks) = display(ProgressMode::Bar, Some(469), 140);
    let clock = ticks.clone();
    let mut progress: Progress<_> = progress.with_columns(move || if clock.now().is_zero() { 140 } else { 40 });
    progress.update(1, &ALL);
    assert!(line::width(screen.take().trim_start()) > 100);
    ticks.set(512);
    progress.update(2, &ALL);
    // Blanks for the old line would wrap: there are only as many as the terminal has columns.
    assert_eq!(screen.take(), format!("{:40}", "\r  2/469 - ETA: 7:47 - loss: 0.2957 …"));
}

#[test]
fn names_are_counted_in_characters() {
    let (mut progress, screen, _) = display(ProgressMode::Bar, Some(9), 44);
    progress.update(1, &[("précision_équilibrée", 0.5)]);
    assert_eq!(screen.take(), "\r1/9 - ETA: 0s …");
    let (mut progress, screen, _) = display(ProgressMode::Bar, Some(9), 45);
    progress.update(1, &[("précision_équilibrée", 0.5)]);
    assert_eq!(screen.take(), "\r1/9 - ETA: 0s - précision_équilibrée: 0.5000");
}
