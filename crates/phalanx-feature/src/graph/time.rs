//! Parts of timestamps in a graph, with the arithmetic of `columns::time`.

use crate::columns::time::{TimePart, TimeUnit};
use phalanx_formats::saved_model::{GraphBuilder, Output, Text};

/// The day of a timestamp's input: seconds since 1970 from integers.
pub(super) fn seconds_of_integers(graph: &mut GraphBuilder, x: Output<i64>, unit: TimeUnit) -> Output<i64> {
    match unit.per_second() {
        None | Some(1) => x,
        Some(per_second) => floor_div(graph, x, per_second),
    }
}

/// The seconds since 1970 of texts of ISO 8601 in UTC.
pub(super) fn seconds_of_texts(graph: &mut GraphBuilder, texts: Output<Text>) -> Output<i64> {
    // A date, or a time without seconds, then has digits at every place that is read.
    let padded = graph.text("T00:00:00");
    let texts = graph.join_texts(&[texts, padded]);
    let mut field = |at: i32, length: i32| {
        let digits = graph.substring(texts, at, length);
        graph.parse_integer(digits)
    };
    let (year, month, day) = (field(0, 4), field(5, 2), field(8, 2));
    let (hour, minute, second) = (field(11, 2), field(14, 2), field(17, 2));
    // A leap second counts as the second before it.
    let last = graph.scalar(59_i64);
    let second = graph.minimum(second, last);
    let days = days(graph, year, month, day);
    let seconds = affine(graph, days, 24, hour);
    let minutes = affine(graph, seconds, 60, minute);
    affine(graph, minutes, 60, second)
}

/// The part of a number of seconds since 1970.
pub(super) fn part(graph: &mut GraphBuilder, seconds: Output<i64>, part: TimePart) -> Output<i64> {
    let day = floor_div(graph, seconds, 86_400);
    match part {
        TimePart::Minute => {
            let minutes = floor_div(graph, seconds, 60);
            floor_mod(graph, minutes, 60)
        }
        TimePart::Hour => {
            let hours = floor_div(graph, seconds, 3600);
            floor_mod(graph, hours, 24)
        }
        TimePart::Weekday => {
            let shifted = plus(graph, day, 3);
            floor_mod(graph, shifted, 7)
        }
        TimePart::Day => {
            let (_, _, of_month) = civil(graph, day);
            plus(graph, of_month, -1)
        }
        TimePart::Month => {
            let (_, month, _) = civil(graph, day);
            plus(graph, month, -1)
        }
        TimePart::Quarter => {
            let (_, month, _) = civil(graph, day);
            let month = plus(graph, month, -1);
            floor_div(graph, month, 3)
        }
        TimePart::DayOfYear => {
            let (year, _, _) = civil(graph, day);
            let one = graph.scalar(1_i64);
            let first = days(graph, year, one, one);
            graph.sub(day, first)
        }
    }
}

fn floor_div(graph: &mut GraphBuilder, x: Output<i64>, by: i64) -> Output<i64> {
    let by = graph.scalar(by);
    graph.floor_div(x, by)
}

fn floor_mod(graph: &mut GraphBuilder, x: Output<i64>, by: i64) -> Output<i64> {
    let by = graph.scalar(by);
    graph.floor_mod(x, by)
}

fn plus(graph: &mut GraphBuilder, x: Output<i64>, more: i64) -> Output<i64> {
    let more = graph.scalar(more);
    graph.add(x, more)
}

/// `x * by + more`.
fn affine(graph: &mut GraphBuilder, x: Output<i64>, by: i64, more: Output<i64>) -> Output<i64> {
    let by = graph.scalar(by);
    let scaled = graph.mul(x, by);
    graph.add(scaled, more)
}

/// `columns::time::civil`.
fn civil(graph: &mut GraphBuilder, day: Output<i64>) -> (Output<i64>, Output<i64>, Output<i64>) {
    let shifted = plus(graph, day, 719_468);
    let (era, of_era) = (floor_div(graph, shifted, 146_097), floor_mod(graph, shifted, 146_097));
    let leaps = floor_div(graph, of_era, 1_460);
    let centuries = floor_div(graph, of_era, 36_524);
    let last = floor_div(graph, of_era, 146_096);
    let x = graph.sub(of_era, leaps);
    let x = graph.add(x, centuries);
    let x = graph.sub(x, last);
    let year_of_era = floor_div(graph, x, 365);
    let before = days_before_year(graph, year_of_era);
    let of_year = graph.sub(of_era, before);
    let two = graph.scalar(2_i64);
    let x = affine(graph, of_year, 5, two);
    let shifted_month = floor_div(graph, x, 153);
    let x = affine(graph, shifted_month, 153, two);
    let start = floor_div(graph, x, 5);
    let day = graph.sub(of_year, start);
    let day = plus(graph, day, 1);
    let shifted = plus(graph, shifted_month, 2);
    let month = floor_mod(graph, shifted, 12);
    let month = plus(graph, month, 1);
    let year = affine(graph, era, 400, year_of_era);
    let march = graph.scalar(3_i64);
    let is_early = graph.less(month, march);
    let next = plus(graph, year, 1);
    (graph.select(is_early, next, year), month, day)
}

/// The days of the years of an era before one of its years.
fn days_before_year(graph: &mut GraphBuilder, year_of_era: Output<i64>) -> Output<i64> {
    let (fourth, hundredth) = (floor_div(graph, year_of_era, 4), floor_div(graph, year_of_era, 100));
    let days = affine(graph, year_of_era, 365, fourth);
    graph.sub(days, hundredth)
}

/// `columns::time::days`.
fn days(graph: &mut GraphBuilder, year: Output<i64>, month: Output<i64>, day: Output<i64>) -> Output<i64> {
    let march = graph.scalar(3_i64);
    let is_early = graph.less(month, march);
    let before = plus(graph, year, -1);
    let year = graph.select(is_early, before, year);
    let (era, of_era) = (floor_div(graph, year, 400), floor_mod(graph, year, 400));
    let shifted = plus(graph, month, 9);
    let shifted_month = floor_mod(graph, shifted, 12);
    let two = graph.scalar(2_i64);
    let x = affine(graph, shifted_month, 153, two);
    let start = floor_div(graph, x, 5);
    let of_year = graph.add(start, day);
    let of_era = days_before_year(graph, of_era);
    let days = affine(graph, era, 146_097, of_era);
    let days = graph.add(days, of_year);
    plus(graph, days, -719_469)
}
