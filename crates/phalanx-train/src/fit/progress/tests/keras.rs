//! Replays the calls that `fixtures/make.py` recorded from Keras, and compares the output.

use super::super::{Progress, ProgressMode};
use super::{Terminal, Ticks, display};

const RECORDED: &str = include_str!("fixtures/keras.txt");

/// The display of the current case, and the last call to it.
struct Replay {
    case: String,
    progress: Progress<Terminal>,
    screen: Terminal,
    ticks: Ticks,
}

impl Replay {
    fn new(words: &[&str]) -> Self {
        let &[case, mode, target] = words else { panic!("case {words:?}") };
        let mode = match mode {
            "bar" => ProgressMode::Bar,
            "line" => ProgressMode::Line,
            other => panic!("mode {other}"),
        };
        let target = (target != "?").then(|| target.parse().unwrap());
        let (progress, screen, ticks) = display(mode, target, usize::MAX);
        Self { case: case.to_owned(), progress, screen, ticks }
    }

    /// Makes the call of one recorded line and returns its output.
    fn call(&mut self, words: &[&str]) -> String {
        let (&[time, verb], rest) = words.split_first_chunk().unwrap();
        self.ticks.set(time.parse().unwrap());
        let number = |index: usize| rest[index].parse::<u64>().unwrap();
        match verb {
            "epoch" => self.progress.epoch(number(0), number(1)),
            // The pass of an evaluation begins with its display, which here was created at time 0.
            "begin" => self.progress.epoch(1, 1),
            "update" => self.progress.update(number(0), &logs(&rest[1..])),
            "finish" => self.progress.finish(number(0), &logs(&rest[1..])),
            other => panic!("verb {other}"),
        }
        self.screen.take()
    }
}

fn logs<'a>(words: &[&'a str]) -> Vec<(&'a str, f64)> {
    let parse = |word: &&'a str| {
        let (name, value) = word.split_once('=').unwrap();
        (name, value.parse().unwrap())
    };
    words.iter().map(parse).collect()
}

#[test]
fn prints_what_keras_prints() {
    let mut replay: Option<Replay> = None;
    let mut lines = RECORDED.lines().peekable();
    let (mut calls, mut printed) = (0, 0);
    while let Some(line) = lines.next() {
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == "case" {
            replay = Some(Replay::new(&words[1..]));
            continue;
        }
        let replay = replay.as_mut().unwrap();
        let expected = match lines.next_if(|next| next.starts_with('>')) {
            Some(text) => text[1..].strip_suffix('<').unwrap().replace("\\r", "\r").replace("\\n", "\n"),
            None => String::new(),
        };
        assert_eq!(replay.call(&words), expected, "case {}, call: {line}", replay.case);
        calls += 1;
        printed += usize::from(!expected.is_empty());
    }
    // A truncated file must not pass.
    assert!(calls > 500 && printed > 350, "{calls} calls, {printed} of them printed");
}
