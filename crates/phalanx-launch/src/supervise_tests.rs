use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

struct Job {
    now: Instant,
    it: Supervision,
}

impl Job {
    fn new(tasks: &[&str]) -> Self {
        let tasks: Vec<TaskId> = tasks.iter().map(|task| id(task)).collect();
        let now = Instant::now();
        let mut it = Supervision::new(now, &tasks, Some(id("chief/0")), Rules::default());
        let starts: Vec<Do> = tasks.iter().map(|&task| Do::Start(task, 1)).collect();
        assert_eq!(it.next(now), starts);
        Self { now, it }
    }

    fn after(&mut self, time: Duration) -> Vec<Do> {
        self.now += time;
        self.it.next(self.now)
    }

    fn ends(&mut self, task: &str, exit: Exit) -> Option<Duration> {
        self.it.ended(self.now, id(task), &exit)
    }
}

#[test]
fn servers_that_never_end_are_told_and_then_killed() {
    let mut job = Job::new(&["chief/0", "worker/0", "ps/0"]);
    assert_eq!(job.ends("chief/0", Exit::Code(0)), None);
    assert_eq!(job.after(9 * SECOND), [], "a worker still computes");
    job.ends("worker/0", Exit::Code(0));
    assert_eq!(job.after(2 * SECOND), []);
    assert_eq!(job.after(SECOND), [Do::Tell(id("ps/0"))]);
    assert_eq!(job.after(3 * SECOND), [Do::Kill(id("ps/0"))]);
    assert!(!job.it.is_over());
    job.ends("ps/0", Exit::Signal(9));
    assert!(job.it.is_over());
    assert_eq!(job.it.ending(), Some(&Ending::Success));
}

#[test]
fn workers_get_time_and_the_evaluator_more() {
    let mut job = Job::new(&["chief/0", "worker/0", "evaluator/0"]);
    job.ends("chief/0", Exit::Code(0));
    assert_eq!(job.after(10 * SECOND), [Do::Tell(id("worker/0"))]);
    job.ends("worker/0", Exit::Code(143));
    assert_eq!(job.after(109 * SECOND), []);
    assert_eq!(job.after(SECOND), [Do::Tell(id("evaluator/0"))]);
}

#[test]
fn a_killed_task_comes_back_with_growing_pauses_and_not_for_ever() {
    let mut job = Job::new(&["chief/0", "worker/0"]);
    for (life, pause) in [(2, 500), (3, 1000), (4, 2000)] {
        assert_eq!(job.ends("worker/0", Exit::Signal(9)), Some(Duration::from_millis(pause)));
        assert_eq!(job.after(Duration::from_millis(pause)), [Do::Start(id("worker/0"), life)]);
    }
    assert_eq!(job.ends("worker/0", Exit::Signal(9)), None);
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("worker/0"), Exit::Signal(9))));
    assert_eq!(job.after(SECOND), [Do::Tell(id("chief/0"))]);
}

#[test]
fn the_first_failure_is_the_cause_and_later_ones_are_not() {
    let mut job = Job::new(&["chief/0", "worker/0", "worker/1"]);
    assert_eq!(job.ends("worker/1", Exit::Code(1)), None);
    job.ends("chief/0", Exit::Code(138));
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("worker/1"), Exit::Code(1))));
    assert_eq!(job.after(SECOND), [Do::Tell(id("worker/0"))]);
    assert!(job.it.was_told(id("worker/0")) && !job.it.was_told(id("chief/0")));
}

#[test]
fn an_evaluator_that_fails_stops_nobody() {
    let mut job = Job::new(&["chief/0", "evaluator/0"]);
    assert_eq!(job.ends("evaluator/0", Exit::Code(1)), None);
    assert_eq!(job.it.ending(), None);
    job.ends("chief/0", Exit::Code(0));
    assert!(job.it.is_over());
}

#[test]
fn ctrl_c_asks_first_and_the_second_one_ends() {
    let mut job = Job::new(&["chief/0", "ps/0"]);
    job.it.stop(job.now, true);
    assert_eq!(job.after(SECOND), [Do::Interrupt(id("chief/0")), Do::Interrupt(id("ps/0"))]);
    job.ends("chief/0", Exit::Code(130));
    job.it.stop(job.now, true);
    assert_eq!(job.after(Duration::ZERO), [Do::Kill(id("ps/0"))]);
    assert_eq!(job.it.ending(), Some(&Ending::Stopped(true)));
}

#[test]
fn sigterm_leaves_time_for_a_checkpoint() {
    let mut job = Job::new(&["chief/0"]);
    job.it.stop(job.now, false);
    assert_eq!(job.after(SECOND), [Do::Tell(id("chief/0"))]);
    assert_eq!(job.after(24 * SECOND), []);
    assert_eq!(job.after(SECOND), [Do::Kill(id("chief/0"))]);
}

#[test]
fn without_the_chief_here_all_trainers_count_and_servers_stay() {
    let now = Instant::now();
    let rules = Rules { server_grace: None, ..Rules::default() };
    let mut it = Supervision::new(now, &[id("worker/0"), id("ps/1")], Some(id("chief/0")), rules);
    it.next(now);
    it.ended(now, id("worker/0"), &Exit::Code(0));
    assert_eq!(it.next(now + 3600 * SECOND), []);
    it.ended(now, id("ps/1"), &Exit::Code(0));
    assert!(it.is_over());
}

#[test]
fn policies_can_be_set_by_role() {
    let now = Instant::now();
    let mut rules = Rules::default();
    rules.restart[2] = Restart::Never;
    rules.restart[1] = Restart::OnFailure;
    let tasks = [id("chief/0"), id("worker/0"), id("ps/0")];
    let mut it = Supervision::new(now, &tasks, Some(id("chief/0")), rules);
    it.next(now);
    assert!(it.ended(now, id("worker/0"), &Exit::Code(1)).is_some());
    assert_eq!(it.ended(now, id("ps/0"), &Exit::Signal(9)), None);
    assert!(matches!(it.ending(), Some(Ending::Failed(..))));
}
